package topics_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/eosbridge/eosbridge/topics"
)

func TestSelect(t *testing.T) {
	all := []string{"orders", "orders-clean", "orders-eu", "orders-eu-clean", "__consumer_offsets", "bad-orders", "orders-late"}
	for _, row := range []struct {
		name            string
		plan            topics.Plan
		inputs, outputs []string
	}{
		{"a list is taken as it is", topics.Plan{Names: []string{"b", "a"}, Output: "out"}, []string{"b", "a"}, nil},
		{
			"our outputs are never read",
			topics.Plan{Pattern: regexp.MustCompile("^(?:orders.*)$"), Output: "{topic}-clean", Targets: []string{"orders-late"}},
			[]string{"orders", "orders-eu"},
			[]string{"orders-clean", "orders-eu-clean", "orders-late"},
		},
		{"internal topics are not told of", topics.Plan{Pattern: regexp.MustCompile("^(?:__.*)$"), Output: "out"}, nil, nil},
		{
			"an output without anything around it names no topic to exclude",
			topics.Plan{Pattern: regexp.MustCompile("^(?:orders)$"), Output: "{topic}"},
			[]string{"orders"},
			nil,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			inputs, outputs := row.plan.Select(all)
			if !slices.Equal(inputs, row.inputs) || !slices.Equal(outputs, row.outputs) {
				t.Errorf("Select = %q, %q; want %q, %q", inputs, outputs, row.inputs, row.outputs)
			}
		})
	}
}

func TestReads(t *testing.T) {
	list := topics.Plan{Names: []string{"a"}, Output: "out"}.Reads()
	if !list("a") || list("b") {
		t.Error("a list is what is on it")
	}
	all := topics.Plan{Pattern: regexp.MustCompile("^(?:.*)$"), Output: "{topic}-x"}.Reads()
	if !all("a") || all("a-x") || all("__a") {
		t.Error("a regular expression reads no output and nothing of Kafka's own")
	}
}

func TestNeeds(t *testing.T) {
	inputs := map[string]int{"a": 3, "b": 8}
	for _, row := range []struct {
		name string
		plan topics.Plan
		want []topics.Need
	}{
		{
			"one output takes the widest input",
			topics.Plan{Output: "out"},
			[]topics.Need{{Topic: "out", Partitions: 8, Widest: "b", InputPartitions: 8}},
		},
		{
			"an output of each input",
			topics.Plan{Output: "{topic}-x"},
			[]topics.Need{{Topic: "a-x", Partitions: 3, Widest: "a", InputPartitions: 3}, {Topic: "b-x", Partitions: 8, Widest: "b", InputPartitions: 8}},
		},
		{
			"targets take any input",
			topics.Plan{Output: "out", Targets: []string{"late"}},
			[]topics.Need{{Topic: "late", Partitions: 8, Widest: "b", InputPartitions: 8}, {Topic: "out", Partitions: 8, Widest: "b", InputPartitions: 8}},
		},
		{
			"by key one is enough",
			topics.Plan{Output: "out", ByKey: true},
			[]topics.Need{{Topic: "out", Partitions: 1, Widest: "b", InputPartitions: 8}},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := row.plan.Needs(inputs); !slices.Equal(got, row.want) {
				t.Errorf("Needs = %+v, want %+v", got, row.want)
			}
		})
	}
	t.Run("dead letters take any number", func(t *testing.T) {
		got := topics.Plan{Output: "out", Letters: "letters"}.Needs(inputs)
		if len(got) != 2 || got[0] != (topics.Need{Topic: "letters", Partitions: 8, Letters: true}) || got[0].Short(1) || !got[1].Short(7) {
			t.Errorf("Needs = %+v", got)
		}
	})
	t.Run("dead letters go back to any partition", func(t *testing.T) {
		got := topics.Plan{Names: []string{"letters"}, Restored: []string{"out"}}.Needs(map[string]int{"letters": 4})
		if want := []topics.Need{{Topic: "out", Partitions: 1}}; !slices.Equal(got, want) {
			t.Errorf("Needs = %+v, want %+v", got, want)
		}
	})
	t.Run("targets without any input", func(t *testing.T) {
		got := topics.Plan{Output: "out", Targets: []string{"late"}}.Needs(nil)
		if want := []topics.Need{{Topic: "late", Partitions: 1}}; !slices.Equal(got, want) {
			t.Errorf("Needs = %+v, want %+v", got, want)
		}
	})
}

func TestWritten(t *testing.T) {
	plan := topics.Plan{Pattern: regexp.MustCompile("^(?:orders-.*)$"), Output: "{topic}-clean", Targets: []string{"late"}}
	got := plan.Written([]string{"orders-eu", "payments", "orders-us"})
	if want := []string{"late", "orders-eu-clean", "orders-us-clean"}; !slices.Equal(got, want) {
		t.Errorf("Written = %q, want %q", got, want)
	}
}

func TestCommands(t *testing.T) {
	need := topics.Need{Topic: "out", Partitions: 8, Widest: "in", InputPartitions: 8}
	for _, row := range []struct{ got, want string }{
		{need.Create("k:9092"), "kafka-topics.sh --bootstrap-server k:9092 --create --topic out --partitions 8"},
		{need.Widen("k:9092"), "kafka-topics.sh --bootstrap-server k:9092 --alter --topic out --partitions 8, or set BRIDGE_PARTITIONING=key"},
		{need.Narrow(2), `output topic "out" has 2 partitions, input topic "in" has 8 and BRIDGE_PARTITIONING=preserve keeps partitions`},
	} {
		if row.got != row.want {
			t.Errorf("got  %s\nwant %s", row.got, row.want)
		}
	}
}

func TestExpand(t *testing.T) {
	for _, row := range []struct{ template, want string }{
		{"out", "out"},
		{"{topic}", "orders"},
		{"copy-of-{topic}.v2", "copy-of-orders.v2"},
		{"{topic}-{topic}", "orders-orders"},
		{"{Topic}", "{Topic}"},
		{"", ""},
	} {
		if got := topics.Expand(row.template, "orders"); got != row.want {
			t.Errorf("Expand(%q) = %q, want %q", row.template, got, row.want)
		}
	}
}

// TestExcluded holds the patterns against topics.
func TestExcluded(t *testing.T) {
	for _, row := range []struct {
		output  string
		targets []string
		out, in []string
	}{
		{"out", nil, []string{"out", "__x"}, []string{"outer", "my-out", "in", "_x"}},
		{"copy.{topic}", nil, []string{"copy.a", "copy.copy.a"}, []string{"copy-a", "copy.", "xcopy.a"}},
		{"{topic}+", []string{"r.s"}, []string{"a+", "r.s"}, []string{"a", "aa", "rxs"}},
	} {
		plan := topics.Plan{Output: row.output, Targets: row.targets, Letters: "letters"}
		row.out = append(row.out, "letters")
		matches := func(topic string) bool {
			return slices.ContainsFunc(plan.Excluded(), func(p string) bool { return regexp.MustCompile(p).MatchString(topic) })
		}
		for _, topic := range row.out {
			if !matches(topic) {
				t.Errorf("output %s: %s may be read", row.output, topic)
			}
		}
		for _, topic := range row.in {
			if matches(topic) {
				t.Errorf("output %s: %s may not be read", row.output, topic)
			}
		}
	}
}
