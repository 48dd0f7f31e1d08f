package audit

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/eosbridge/eosbridge/offsets"
)

// Dead letters.
//
// A bridge with BRIDGE_ON_ERROR=dlq writes a record that it cannot bridge to a topic of its own, with headers that say which
// one it was. Such a record is accounted for and has no output. So the dead letters are read first, and each source
// partition is then read without those that have one: what is left has to be in the target, and a target record of one that is
// a dead letter finds no source record any more.

// The names of the headers, as docs/dlq.md gives them.
const (
	letterTopic     = "eosbridge.dlq.topic" // the first of them
	letterPartition = "eosbridge.dlq.partition"
	letterOffset    = "eosbridge.dlq.offset"
	letterGroup     = "eosbridge.dlq.group"
)

// mostLetters bounds the dead letters of an audit, for each is kept: about 100 bytes.
const mostLetters = 1_000_000

// letter is a dead letter that is looked for in the source.
type letter struct {
	hash  uint64
	time  int64
	at    Place
	found bool // its source record was seen
}

// Why nothing is compared.
const (
	reasonLettersOpen    = "a transaction is open on the topic of dead letters: nothing behind it is visible"
	reasonLettersDeleted = "retention has deleted dead letters: a record without output may have had one"
	reasonLettersMany    = "there are more than 1,000,000 dead letters"
)

// readLetters gives each source partition its dead letters, and the units a reason if they are not known.
func readLetters(ctx context.Context, o *Options, c *cluster, snap *snapshot, units []*unit, b *book) error {
	if o.DLQ == "" {
		return nil
	}
	sources := map[offsets.TopicPartition]*source{}
	for _, u := range units {
		for _, s := range u.sources {
			sources[s.TopicPartition] = s
			s.letters = map[int64]*letter{}
		}
	}
	reason, total := "", 0
	for p := range int32(snap.letters.partitions) { //nolint:gosec // Kafka's partitions are int32
		tp := offsets.TopicPartition{Topic: o.DLQ, Partition: p}
		switch {
		case snap.open[tp]:
			reason = reasonLettersOpen
		case snap.starts[tp] > 0:
			reason = reasonLettersDeleted
		}
		read := lettersReader{o: o, sources: sources, index: slices.Collect(maps.Values(sources))}
		next := c.start(ctx, reading{TopicPartition: tp, id: snap.letters.id, from: snap.starts[tp], end: snap.ends[tp], convert: read.convert()})
		for total <= mostLetters {
			chunk, err := next(ctx)
			if isEnd(err) {
				break
			}
			if err != nil {
				return err
			}
			for k := range chunk {
				total += read.take(&chunk[k], tp, b)
			}
		}
	}
	if total > mostLetters {
		reason = reasonLettersMany
	}
	if reason != "" {
		for _, u := range units {
			u.method, u.reason = byCount, reason
		}
	}
	return nil
}

// lettersReader reads one partition of dead letters.
type lettersReader struct {
	o       *Options
	sources map[offsets.TopicPartition]*source
	index   []*source
}

func (l *lettersReader) convert() func(*view) item {
	numbers := map[offsets.TopicPartition]int32{}
	for i, s := range l.index {
		numbers[s.TopicPartition] = int32(i) //nolint:gosec // there are fewer partitions
	}
	return func(r *view) item {
		it := item{offset: r.offset, time: r.time, appended: r.appended, from: foreign}
		first := -1
		for i := range r.headers {
			if string(r.headers[i].name) == letterTopic {
				first = i // the last one counts
			}
		}
		if first < 0 {
			return it
		}
		var topic, group string
		partition, offset := int64(-1), int64(-1)
		for _, h := range r.headers[first:] {
			switch string(h.name) {
			case letterTopic:
				topic = string(h.value)
			case letterPartition:
				partition = decimal(h.value)
			case letterOffset:
				offset = decimal(h.value)
			case letterGroup:
				group = string(h.value)
			}
		}
		number, known := numbers[offsets.TopicPartition{Topic: topic, Partition: int32(partition)}] //nolint:gosec // as above
		if !known || group != l.o.Group || offset < 0 {
			return it
		}
		was := *r
		was.headers = r.headers[:first]
		it.hash, it.key = contentOf(&was, l.o.Provenance)
		it.from, it.origin = number, offset
		return it
	}
}

// take notes a dead letter and answers 1, or 0 if it is of another pipeline.
func (l *lettersReader) take(it *item, tp offsets.TopicPartition, b *book) int {
	if it.from == foreign {
		return 0
	}
	s := l.index[it.from]
	at := Place{Topic: tp.Topic, Partition: tp.Partition, Offset: it.offset}
	if s.letters[it.origin] != nil {
		b.find(Duplicated, s.side, it.origin, nil, -1, "a second dead letter: "+at.String())
		return 0
	}
	one := &letter{hash: it.hash, time: it.time, at: at}
	if it.appended {
		one.time = nowhere
	}
	s.letters[it.origin] = one
	return 1
}

// without leaves out of a source partition what has a dead letter.
func (s *source) without(next pull, b *book) pull {
	if len(s.letters) == 0 {
		return next
	}
	return func(ctx context.Context) ([]item, error) {
		chunk, err := next(ctx)
		left := chunk[:0]
		for k := range chunk {
			it := &chunk[k]
			l := s.letters[it.offset]
			if l == nil {
				left = append(left, *it)
				continue
			}
			if l.found { // a second look at this part
				continue
			}
			l.found = true
			if it.offset < s.committed {
				s.dead++
			}
			if l.hash != it.hash || l.time != it.time && l.time != nowhere {
				b.find(Altered, s.side, it.offset, nil, -1, "its dead letter "+l.at.String()+" is another record")
			}
		}
		return left, err
	}
}

// orphanedLetters are those that no source record has claimed, where all of them were read.
func (s *source) orphanedLetters(b *book) {
	for offset, l := range s.letters {
		if !l.found && offset >= s.begin && offset < s.committed && !s.compacted {
			b.find(Orphaned, s.side, -1, nil, -1, fmt.Sprintf("the dead letter %s names offset %d of %s, where no record is", l.at, offset, s.TopicPartition))
		}
	}
}
