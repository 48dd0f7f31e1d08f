package offsets

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// StartKind says how a start position is chosen.
type StartKind int

// The kinds of start.
const (
	// StartUnset means that nobody chose. It resolves like StartEarliest; whether that may be done unasked is
	// the caller's decision (Written).
	StartUnset StartKind = iota
	// StartEarliest is the first offset that the log still holds.
	StartEarliest
	// StartLatest is the last stable offset: what is committed from now on, and every transaction that is open
	// now.
	StartLatest
	// StartTime is the first record at or after a time, or the end of the log if there is none.
	StartTime
)

// String names the kind.
func (k StartKind) String() string {
	switch k {
	case StartUnset:
		return "unset"
	case StartEarliest:
		return "earliest"
	case StartLatest:
		return "latest"
	case StartTime:
		return "time"
	default:
		return fmt.Sprintf("StartKind(%d)", int(k))
	}
}

// Start is where to begin in a topic of which the group knows nothing.
type Start struct {
	Kind StartKind
	// At counts for StartTime only; Kafka knows milliseconds, what is finer is cut off, which never skips.
	At time.Time
}

// String gives the form that ParseStart reads.
func (s Start) String() string {
	switch s.Kind {
	case StartUnset:
		return ""
	case StartTime:
		return s.At.Format(time.RFC3339Nano)
	case StartEarliest, StartLatest:
	}
	return s.Kind.String()
}

// ParseStart reads the empty string (unset), "earliest", "latest" or a time as of RFC 3339 from 1970 on.
func ParseStart(text string) (Start, error) {
	switch text {
	case "":
		return Start{}, nil
	case "earliest":
		return Start{Kind: StartEarliest}, nil
	case "latest":
		return Start{Kind: StartLatest}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return Start{}, fmt.Errorf("start %q: want earliest, latest or an RFC 3339 time such as 2006-01-02T15:04:05Z", text)
	}
	start := Start{Kind: StartTime, At: at}
	if err := start.check(); err != nil {
		return Start{}, err
	}
	return start, nil
}

// check refuses times that have no meaning to a broker: negative time stamps are its special values (-1 is
// "latest", -2 "earliest").
func (s Start) check() error {
	if s.Kind == StartTime && s.At.UnixMilli() < 0 {
		return fmt.Errorf("start %q: the time is before 1970; use earliest", s)
	}
	return nil
}

// Resolve gives the start position of every partition of the topics. A topic that does not exist is an error
// that wraps UNKNOWN_TOPIC_OR_PARTITION; one partition without an answer fails all of it. No topics, no
// positions.
func Resolve(ctx context.Context, adm *kadm.Client, start Start, topics []string) (Positions, error) {
	positions := make(Positions)
	if len(topics) == 0 {
		return positions, nil // kadm reads an empty list as every topic of the cluster
	}
	var (
		listed kadm.ListedOffsets
		err    error
	)
	switch start.Kind {
	case StartUnset, StartEarliest:
		listed, err = adm.ListStartOffsets(ctx, topics...)
	case StartLatest:
		// Not the end of the log: between the last stable offset and the end lie the records of transactions
		// that are open now. They become visible after we start, so they are ours.
		listed, err = adm.ListCommittedOffsets(ctx, topics...)
	case StartTime:
		return resolveTime(ctx, adm, start, topics)
	default:
		return nil, fmt.Errorf("start kind %v is not known", start.Kind)
	}
	if err := checkListed(listed, err, topics); err != nil {
		return nil, fmt.Errorf("start positions (%v): %w", start.Kind, err)
	}
	listed.Each(func(o kadm.ListedOffset) {
		positions[TopicPartition{o.Topic, o.Partition}] = Position{Offset: o.Offset, LeaderEpoch: o.LeaderEpoch}
	})
	return positions, nil
}

// resolveTime asks for the ends of the logs *before* it asks for the time. kadm itself asks for the end after the
// broker said "nothing that late"; a record that arrived between those two answers would be skipped.
func resolveTime(ctx context.Context, adm *kadm.Client, start Start, topics []string) (Positions, error) {
	if err := start.check(); err != nil {
		return nil, err
	}
	ends, err := adm.ListEndOffsets(ctx, topics...)
	if err := checkListed(ends, err, topics); err != nil {
		return nil, fmt.Errorf("start positions (%v), log ends: %w", start, err)
	}
	found, err := adm.ListOffsetsAfterMilli(ctx, start.At.UnixMilli(), topics...)
	if err := checkListed(found, err, topics); err != nil {
		return nil, fmt.Errorf("start positions (%v): %w", start, err)
	}
	positions := make(Positions)
	ends.Each(func(end kadm.ListedOffset) {
		at := end
		// A time stamp comes with a record that was found, and only with one.
		if first, ok := found.Lookup(end.Topic, end.Partition); ok && first.Timestamp >= 0 {
			at = first
		}
		positions[TopicPartition{end.Topic, end.Partition}] = Position{Offset: at.Offset, LeaderEpoch: at.LeaderEpoch}
	})
	return positions, nil
}

// checkListed looks at a ListOffsets answer's every partition. kadm reports errors in three places: per broker in
// err, per partition, and, for a topic that does not exist, at a partition -1 or not at all.
func checkListed(listed kadm.ListedOffsets, err error, topics []string) error {
	if err != nil {
		return err
	}
	var refused []error
	listed.Each(func(o kadm.ListedOffset) {
		switch {
		case o.Partition < 0:
			refused = append(refused, fmt.Errorf("topic %q: %w", o.Topic, o.Err))
		case o.Err != nil:
			refused = append(refused, fmt.Errorf("%s: %w", TopicPartition{o.Topic, o.Partition}, o.Err))
		case o.Offset < 0:
			refused = append(refused, fmt.Errorf("%s: the broker gave no offset", TopicPartition{o.Topic, o.Partition}))
		}
	})
	for _, topic := range unique(topics) {
		if len(listed[topic]) == 0 {
			refused = append(refused, fmt.Errorf("topic %q: %w", topic, kerr.UnknownTopicOrPartition))
		}
	}
	return joinErrors(refused)
}

// Written gives those of the topics, sorted, that ever held a record: their log ends after offset 0, whatever retention or
// an abort has taken away since. A topic that does not exist is an error that wraps UNKNOWN_TOPIC_OR_PARTITION.
func Written(ctx context.Context, adm *kadm.Client, topics []string) ([]string, error) {
	if len(topics) == 0 {
		return nil, nil
	}
	ends, err := adm.ListEndOffsets(ctx, topics...)
	if err := checkListed(ends, err, topics); err != nil {
		return nil, fmt.Errorf("log ends of the outputs: %w", err)
	}
	return slices.DeleteFunc(unique(topics), func(topic string) bool {
		for _, end := range ends[topic] {
			if end.Offset > 0 {
				return false
			}
		}
		return true
	}), nil
}

// Expired says why a topic without a position is no first start: positions that have expired look like one, and every
// record of the input would be written again.
func Expired(group, input, output string) string {
	return fmt.Sprintf("group %q has no position for topic %q, yet output topic %q has been written to: have the positions expired", group, input, output)
}

// ExpiredRemedy is what to do about it.
const ExpiredRemedy = "Say where to begin with BRIDGE_START=earliest, latest or a time (RFC 3339)"

// FirstStart gives the start positions of all partitions of those topics of which the group has no position at
// all; it is empty if there is no such topic. A topic with a position for one partition has been started before:
// its other partitions came later and are not here, they begin at the earliest offset.
//
// Nothing is committed: the caller has to, as a member and before it reads a record. StartUnset resolves like
// StartEarliest. It may take as long as Unstarted.
func FirstStart(ctx context.Context, adm *kadm.Client, group string, topics []string, start Start) (Positions, error) {
	unstarted, err := Unstarted(ctx, adm, group, topics)
	if err != nil {
		return nil, err
	}
	return Resolve(ctx, adm, start, unstarted)
}

// Unstarted gives those of the topics, sorted, of which the group has no position at all.
//
// Only when a topic seems to have no position does it wait, like Committed, for open transactions until ctx ends: the
// first position of the topic may be in one. A position that is there cannot go away by one.
func Unstarted(ctx context.Context, adm *kadm.Client, group string, topics []string) ([]string, error) {
	topics = unique(topics)
	for _, read := range []func(context.Context, *kadm.Client, string) (Positions, error){seen, Committed} {
		positions, err := read(ctx, adm, group)
		if err != nil {
			return nil, err
		}
		started := positions.topics()
		topics = slices.DeleteFunc(topics, func(topic string) bool { return started[topic] })
		if len(topics) == 0 {
			break
		}
	}
	return topics, nil
}

// unique gives the topics sorted and each once, in a slice of its own.
func unique(topics []string) []string {
	sorted := slices.SortedFunc(slices.Values(topics), strings.Compare)
	return slices.Compact(sorted)
}
