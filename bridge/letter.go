package bridge

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/transform"
	"github.com/eosbridge/eosbridge/txn"
)

// The headers of a dead letter, as readable text. They follow the headers of the input, headerLetter first; docs/dlq.md
// describes them.
const (
	headerLetter          = "eosbridge.dlq.topic"     // of the input
	headerLetterPartition = "eosbridge.dlq.partition" // of the input
	headerLetterOffset    = "eosbridge.dlq.offset"    // of the input
	headerLetterTime      = "eosbridge.dlq.timestamp" // of the input, in milliseconds since 1970
	headerLetterClass     = "eosbridge.dlq.class"     // one of failureKinds
	headerLetterMessage   = "eosbridge.dlq.message"   // what was wrong, at most messageBytes
	headerLetterTransform = "eosbridge.dlq.transform" // name of the transform, if it was one
	headerLetterStage     = "eosbridge.dlq.stage"     // its place in the chain, from 1
	headerLetterTarget    = "eosbridge.dlq.target"    // the topic that refuses it, if it is one
	headerLetterAttempts  = "eosbridge.dlq.attempts"  // see failure
	headerLetterGroup     = "eosbridge.dlq.group"     // of the pipeline
	headerLetterVersion   = "eosbridge.dlq.version"   // of the program
)

const letterHeaders = 12

// messageBytes bounds the text of an error. The other headers are bounded by the names of topics and groups: a letter is
// at most letterBytes larger than its input.
const messageBytes = 1024

// deadLetter is the input as it was read, with why it is here. The same failure makes the same letter: there is no clock
// in it.
func deadLetter(in *transform.Record, tp offsets.TopicPartition, f failure, from sender) transform.Record {
	letter := *in
	letter.Headers = make([]transform.Header, len(in.Headers), len(in.Headers)+letterHeaders)
	copy(letter.Headers, in.Headers)
	say := func(name, value string) {
		letter.Headers = append(letter.Headers, transform.Header{Key: name, Value: []byte(value)})
	}
	say(headerLetter, tp.Topic)
	say(headerLetterPartition, strconv.Itoa(int(tp.Partition)))
	say(headerLetterOffset, strconv.FormatInt(in.Offset, 10))
	say(headerLetterTime, strconv.FormatInt(in.Timestamp.UnixMilli(), 10))
	say(headerLetterClass, f.class)
	say(headerLetterMessage, bounded(f.err.Error(), messageBytes))
	if f.transform != "" {
		say(headerLetterTransform, f.transform)
		say(headerLetterStage, strconv.Itoa(f.stage))
	}
	if f.target != "" {
		say(headerLetterTarget, f.target)
	}
	say(headerLetterAttempts, strconv.Itoa(f.attempts))
	say(headerLetterGroup, from.group)
	say(headerLetterVersion, from.version)
	return letter
}

// bounded is the beginning of a text, as valid UTF-8 of at most n bytes.
func bounded(text string, n int) string {
	const more = "…"
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n-len(more)], "") + more
}

// Letter is what the headers of a dead letter say.
type Letter struct {
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Timestamp time.Time `json:"timestamp"`
	Class     string    `json:"class"`
	Message   string    `json:"message"`
	Transform string    `json:"transform,omitempty"`
	Stage     int       `json:"stage,omitempty"`
	Target    string    `json:"target,omitempty"`
	Attempts  int       `json:"attempts"`
	Group     string    `json:"group"`
	Version   string    `json:"version"`
}

// ReadLetter reads the headers of a dead letter, and answers those that its input had. ok is false for a record that is
// none.
func ReadLetter(headers []kgo.RecordHeader) (letter Letter, original []kgo.RecordHeader, ok bool) {
	first := -1
	for i := range headers {
		if headers[i].Key == headerLetter {
			first = i // the last one: an input may have been a dead letter itself
		}
	}
	if first < 0 {
		return letter, headers, false
	}
	partition, offset, millis := int64(-1), int64(-1), int64(0)
	for _, h := range headers[first:] {
		value := string(h.Value)
		number, _ := strconv.ParseInt(value, 10, 64)
		switch h.Key {
		case headerLetter:
			letter.Topic = value
		case headerLetterPartition:
			partition = number
		case headerLetterOffset:
			offset = number
		case headerLetterTime:
			millis = number
		case headerLetterClass:
			letter.Class = value
		case headerLetterMessage:
			letter.Message = value
		case headerLetterTransform:
			letter.Transform = value
		case headerLetterStage:
			letter.Stage = int(number)
		case headerLetterTarget:
			letter.Target = value
		case headerLetterAttempts:
			letter.Attempts = int(number)
		case headerLetterGroup:
			letter.Group = value
		case headerLetterVersion:
			letter.Version = value
		}
	}
	if letter.Topic == "" || partition < 0 || partition > maxPartition || offset < 0 {
		return letter, headers, false
	}
	letter.Partition, letter.Offset, letter.Timestamp = int32(partition), offset, time.UnixMilli(millis).UTC()
	return letter, headers[:first:first], true
}

const maxPartition = 1<<31 - 1

// Restore makes a bridge from a topic of dead letters to where their records came from.
type Restore struct {
	Group  string   // whose dead letters; those of other pipelines are passed over
	Topics []string // the inputs of that pipeline: a record goes nowhere else
}

// record turns a dead letter into the record that it was, for the partition that it was in. It answers false for what is
// passed over.
func (o *Restore) record(r *kgo.Record) (bool, error) {
	letter, original, ok := ReadLetter(r.Headers)
	if !ok || letter.Group != o.Group {
		return false, nil
	}
	if !slices.Contains(o.Topics, letter.Topic) {
		return false, txn.Fatalf(txn.StatusFailure, "the dead letter in topic %s partition %d offset %d is of topic %s, which is not an input (BRIDGE_INPUT_TOPICS): "+
			"add it there, or pass the letter over by setting the position of the replay's group behind it", r.Topic, r.Partition, r.Offset, letter.Topic)
	}
	r.Topic, r.Partition, r.Headers = letter.Topic, letter.Partition, original
	return true, nil
}

// records answers the records of a piece of dead letters, in place, and the offset of each letter.
func (o *Restore) records(letters []*kgo.Record) (records []*kgo.Record, source []int64, err error) {
	records, source = letters[:0], make([]int64, 0, len(letters))
	for _, r := range letters {
		if r.Attrs.IsControl() {
			continue
		}
		offset := r.Offset
		ok, err := o.record(r)
		if err != nil {
			return nil, nil, fmt.Errorf("replay: %w", err)
		}
		if ok {
			records, source = append(records, r), append(source, offset)
		}
	}
	return records, source, nil
}
