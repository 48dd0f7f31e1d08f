package bridge

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/test/proof"
)

// answered is a mishap: the broker does what was asked, and answers with an error.
func answered(code *kerr.Error) mishap {
	return mishap{name: code.Message, answer: func(c *framed, frame []byte) ([]byte, error) {
		resp := kmsg.ResponseForKey(c.asked.key)
		resp.SetVersion(c.asked.version)
		head := 8
		if resp.IsFlexible() {
			head++ // no tags
		}
		if err := resp.ReadFrom(frame[head:]); err != nil {
			return nil, err
		}
		setCode(resp, code.Code)
		frame = resp.AppendTo(frame[:head:head])
		binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
		return frame, nil
	}}
}

// setCode puts a code into every place that an answer has for one.
func setCode(resp kmsg.Response, code int16) {
	switch r := resp.(type) {
	case *kmsg.EndTxnResponse:
		r.ErrorCode = code
	case *kmsg.AddOffsetsToTxnResponse:
		r.ErrorCode = code
	case *kmsg.ProduceResponse:
		for i := range r.Topics {
			for k := range r.Topics[i].Partitions {
				r.Topics[i].Partitions[k].ErrorCode = code
			}
		}
	case *kmsg.TxnOffsetCommitResponse:
		for i := range r.Topics {
			for k := range r.Topics[i].Partitions {
				r.Topics[i].Partitions[k].ErrorCode = code
			}
		}
	case *kmsg.OffsetCommitResponse:
		for i := range r.Topics {
			for k := range r.Topics[i].Partitions {
				r.Topics[i].Partitions[k].ErrorCode = code
			}
		}
	}
}

// deeds are the phases whose request changes what is true.
var deeds = []string{"produce", "add offsets", "txn offset commit", "end txn", "end txn below 2", "offset commit"}

// deed tries one code.
func (j *journey) deed(code *kerr.Error) outcome {
	j.up()
	sessions, epochs := len(j.failures()), j.aborts()
	j.frames.arm(j.phase.key, answered(code), 1)
	j.feedFor(j.key(), 100*time.Millisecond)
	for i := 0; i < 40 && j.frames.hits() == 0 && !closed(j.b.ended); i++ {
		j.pass(50 * time.Millisecond)
	}
	j.pass(50 * time.Millisecond)
	got := outcome{hits: j.frames.heal(), status: -1}
	j.feed(kept)
	got.broken = j.settle()
	if closed(j.b.ended) {
		got.status, got.err = exitCodeOf(j.b.err), j.b.err
	}
	got.sessions, got.aborted = j.failures()[sessions:], j.aborts()-epochs
	got.broken = append(got.broken, j.differences()...)
	return got
}

// TestMatrixAfterTheDeed: the broker has done what was asked and answers with an error all the same. What is expected
// is what the matrix expects of a refusal, for nobody can tell the two apart; and nothing is there twice.
func TestMatrixAfterTheDeed(t *testing.T) {
	matrix := readMatrix(t)
	for _, name := range deeds {
		p := &phases[slices.IndexFunc(phases, func(p phase) bool { return p.name == name })]
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			rows := int64(0)
			t.Run("rows", func(t *testing.T) {
				for chunk := range slices.Chunk(underRace(matrix[name]), 20) {
					chunk = slices.DeleteFunc(slices.Clone(chunk), func(c cell) bool { return !*long && !c.first })
					rows += int64(len(chunk))
					if len(chunk) == 0 {
						continue
					}
					t.Run(chunk[0].code.Message, func(t *testing.T) { p.tryDeeds(t, chunk) })
				}
			})
			proof.Record(t, proof.Result{Broker: proof.Fake, Rows: rows})
		})
	}
}

func (p *phase) tryDeeds(t *testing.T, cells []cell) {
	inJourney(t, p, func(t *testing.T, j *journey) {
		for _, c := range cells {
			want := c.once.action
			if want == "-" { // a duplicate is what the broker has, and it has it now
				want = "R"
			}
			for _, fault := range j.deed(c.code).judge(want) {
				t.Errorf("%s, done, × %s: %s", p.name, c.code.Message, fault)
			}
			if t.Failed() {
				return
			}
		}
	})
}
