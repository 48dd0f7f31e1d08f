package bridge

import (
	"strconv"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/txn"
)

// The provenance headers: where an output record comes from, in readable text. They are the last headers of the
// record. The command audit reads them; the names and forms are described in docs/audit.md.
const (
	headerTopic     = "eosbridge.topic"     // of the input record
	headerPartition = "eosbridge.partition" // of the input record
	headerOffset    = "eosbridge.offset"    // of the input record
	headerEpoch     = "eosbridge.epoch"     // of the process that wrote it
	headerOutput    = "eosbridge.output"    // "2/3": the second of the three outputs of that input
)

const provenanceHeaders = 5

// stamp adds the provenance headers to the outputs of a piece and answers how much memory they take. source
// holds the offset of the input of each output; the outputs of one input stand together.
//
// Outputs of one input may share their headers, and with the input too, so every output gets a list of its own. The
// lists and the texts of a piece are cut from one slice each.
//
// An input that was written by another bridge carries these headers already: ours replace them, or the list would grow
// with each bridge of a row, and a reader would have to know which of several answers is the nearest.
//
// Dead letters, which are the records of topic dlq, stay as they are: their own headers say where they come from.
func stamp(records []*kgo.Record, source []int64, w work, dlq string) int64 {
	const widest = 3 * 20 // offset, number and count as decimals, and some room
	headers := 0
	for _, r := range records {
		headers += len(r.Headers) + provenanceHeaders
	}
	lists := make([]kgo.RecordHeader, 0, headers)
	texts := make([]byte, 0, len(records)*widest/2)
	topic := []byte(w.tp.Topic)
	partition := strconv.AppendInt(nil, int64(w.tp.Partition), 10)
	number := strconv.AppendInt(nil, int64(epochOf(w)), 10)
	only := []byte("1/1")
	for i := 0; i < len(records); {
		next := i + 1
		for next < len(records) && source[next] == source[i] {
			next++
		}
		if dlq != "" && records[i].Topic == dlq { // alone: its input has no other output
			i = next
			continue
		}
		outputs := next - i
		if cap(texts)-len(texts) < 20+outputs*2*20 {
			texts = make([]byte, 0, max(cap(texts), 20+outputs*2*20))
		}
		var offset []byte
		texts, offset = number10(texts, source[i])
		for k := range outputs {
			which := only
			if outputs > 1 {
				began := len(texts)
				texts = strconv.AppendInt(texts, int64(k+1), 10)
				texts = append(texts, '/')
				texts = strconv.AppendInt(texts, int64(outputs), 10)
				which = texts[began:len(texts):len(texts)]
			}
			r := records[i+k]
			began := len(lists)
			for _, h := range r.Headers {
				if !isProvenance(h.Key) {
					lists = append(lists, h)
				}
			}
			lists = append(lists,
				kgo.RecordHeader{Key: headerTopic, Value: topic},
				kgo.RecordHeader{Key: headerPartition, Value: partition},
				kgo.RecordHeader{Key: headerOffset, Value: offset},
				kgo.RecordHeader{Key: headerEpoch, Value: number},
				kgo.RecordHeader{Key: headerOutput, Value: which},
			)
			r.Headers = lists[began:len(lists):len(lists)]
		}
		i = next
	}
	return int64(headers)*int64(unsafe.Sizeof(kgo.RecordHeader{})) + int64(len(records)*widest/2)
}

// number10 appends a number and answers its text, too.
func number10(texts []byte, n int64) (all, text []byte) {
	began := len(texts)
	texts = strconv.AppendInt(texts, n, 10)
	return texts, texts[began:len(texts):len(texts)]
}

// epochOf is the epoch that the work belongs to; lanes are tested without one, too.
func epochOf(w work) txn.Epoch {
	if w.epoch == nil {
		return 0
	}
	return w.epoch.n
}

func isProvenance(name string) bool {
	switch name {
	case headerTopic, headerPartition, headerOffset, headerEpoch, headerOutput:
		return true
	}
	return false
}
