// Package topics says which topics a pipeline reads and writes, and how many partitions they must have. It is pure: what
// a cluster holds is for the caller to find out. The bridge demands what it says at a start, and check before one.
package topics

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

const (
	placeholder = "{topic}" // stands for the name of the input topic
	internal    = "__"      // begins the names of topics that are Kafka's own, or a tool's
)

// Plan is a pipeline's topics, as configured.
type Plan struct {
	Names   []string       // inputs; empty when Pattern is set
	Pattern *regexp.Regexp // of the inputs, anchored
	Output  string         // output topic, may hold {topic}; empty if Restored says where records go
	Targets []string       // further topics that records may be sent to
	Letters string         // topic for dead letters; empty if there are none
	// Restored are topics that dead letters become records of again, each in the partition that it names.
	Restored []string
	ByKey    bool // partition by the key, instead of keeping the partition
}

// Expand gives the output topic of one input topic.
func Expand(template, input string) string { return strings.ReplaceAll(template, placeholder, input) }

// Excluded are patterns of topics that the regular expression must never read: internal topics, our own outputs, with
// {topic} standing for anything, and the dead letters.
func (p Plan) Excluded() []string {
	patterns := []string{"^" + internal + ".*$"}
	if p.Output != placeholder {
		quoted := regexp.QuoteMeta(p.Output)
		patterns = append(patterns, "^"+strings.ReplaceAll(quoted, regexp.QuoteMeta(placeholder), ".+")+"$")
	}
	for _, t := range append(p.Targets[:len(p.Targets):len(p.Targets)], p.Letters) {
		if t != "" {
			patterns = append(patterns, "^"+regexp.QuoteMeta(t)+"$")
		}
	}
	return patterns
}

// Reads tells topics that are inputs from others.
func (p Plan) Reads() func(topic string) bool {
	if p.Pattern == nil {
		return func(topic string) bool { return slices.Contains(p.Names, topic) }
	}
	var never []*regexp.Regexp
	for _, pattern := range p.Excluded() {
		never = append(never, regexp.MustCompile(pattern))
	}
	return func(topic string) bool {
		return p.Pattern.MatchString(topic) && !slices.ContainsFunc(never, func(r *regexp.Regexp) bool { return r.MatchString(topic) })
	}
}

// Select sorts the names of a cluster's topics by what the regular expression makes of them: inputs, and topics that
// it matches and that are not read because they are our own outputs. Internal topics and all others are in neither.
// Without a regular expression the inputs are those listed, whatever there is.
func (p Plan) Select(all []string) (inputs, outputs []string) {
	if p.Pattern == nil {
		return slices.Clone(p.Names), nil
	}
	reads := p.Reads()
	for _, name := range slices.Sorted(slices.Values(all)) {
		switch {
		case reads(name):
			inputs = append(inputs, name)
		case p.Pattern.MatchString(name) && !strings.HasPrefix(name, internal):
			outputs = append(outputs, name)
		}
	}
	return inputs, outputs
}

// Written are the topics that records of the given inputs may go to, sorted and each once; dead letters are no outputs.
// Inputs that the regular expression does not match are left out.
func (p Plan) Written(inputs []string) []string {
	written := slices.Clone(p.Targets)
	for _, in := range inputs {
		if p.Output != "" && (p.Pattern == nil || p.Pattern.MatchString(in)) {
			written = append(written, Expand(p.Output, in))
		}
	}
	slices.Sort(written)
	return slices.Compact(written)
}

// Need is an output topic and how many partitions it must have.
type Need struct {
	Topic      string
	Partitions int
	// Widest is the input topic that asks for the most, and InputPartitions what it has; empty if none does.
	Widest          string
	InputPartitions int
	// Letters says that it is the topic for dead letters: any number of partitions does, and Partitions is a proposal.
	Letters bool
}

// Short reports whether so many partitions are too few.
func (n Need) Short(have int) bool { return !n.Letters && have < n.Partitions }

// Needs gives the topics that are written, with inputs of that many partitions, ordered by name.
func (p Plan) Needs(inputs map[string]int) []Need {
	needs := map[string]Need{}
	ask := func(output, input string, partitions int) {
		need, known := needs[output]
		if !known {
			need = Need{Topic: output, Partitions: 1}
		}
		if partitions > need.InputPartitions {
			need.Widest, need.InputPartitions = input, partitions
		}
		if !p.ByKey {
			need.Partitions = max(1, need.InputPartitions)
		}
		needs[output] = need
	}
	widest := 0
	for _, input := range slices.Sorted(maps.Keys(inputs)) {
		if p.Output != "" {
			ask(Expand(p.Output, input), input, inputs[input])
		}
		for _, target := range p.Targets {
			ask(target, input, inputs[input])
		}
		widest = max(widest, inputs[input])
	}
	for _, target := range append(p.Targets[:len(p.Targets):len(p.Targets)], p.Restored...) {
		ask(target, "", 0)
	}
	if p.Letters != "" {
		needs[p.Letters] = Need{Topic: p.Letters, Partitions: max(1, widest), Letters: true}
	}
	return slices.SortedFunc(maps.Values(needs), func(a, b Need) int { return cmp.Compare(a.Topic, b.Topic) })
}

// Create is the command that creates the topic.
func (n Need) Create(bootstrap string) string {
	return fmt.Sprintf("kafka-topics.sh --bootstrap-server %s --create --topic %s --partitions %d", bootstrap, n.Topic, n.Partitions)
}

// Widen is what gives the topic enough partitions, or makes it need fewer.
func (n Need) Widen(bootstrap string) string {
	return fmt.Sprintf("kafka-topics.sh --bootstrap-server %s --alter --topic %s --partitions %d, or set BRIDGE_PARTITIONING=key", bootstrap, n.Topic, n.Partitions)
}

// Narrow says why too few partitions do not do.
func (n Need) Narrow(have int) string {
	return fmt.Sprintf("output topic %q has %d partitions, input topic %q has %d and BRIDGE_PARTITIONING=preserve keeps partitions",
		n.Topic, have, n.Widest, n.InputPartitions)
}
