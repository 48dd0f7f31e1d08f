package e2e

import (
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// moment is a point of the protocol at which a copy arrives, seen from a
// transaction n on one of the two transactional ids. The fence is InitProducerID
// of its id, after a commit that failed.
type moment string

const (
	beforeFence moment = "before the fence"
	afterFence  moment = "after the fence"
	beforeEnd   moment = "before EndTxn(n) reaches the broker" // TxnOffsetCommit(n) is answered, or was lost
	afterEnd    moment = "after EndTxn(n)"                     // the bridge has no answer yet
	afterOffset moment = "after TxnOffsetCommit(n+1)"          // on the other id
	afterNext   moment = "after EndTxn(n+1)"
	reopened    moment = "while n+2 is open"          // on the same id: its records are in, its positions not yet
	reoffset    moment = "after TxnOffsetCommit(n+2)" // before EndTxn(n+2)
)

// ambush waits in a proxy for a transaction, keeps the bytes of its
// TxnOffsetCommit and its EndTxn, and at a later moment delivers a copy of one of
// them over a connection of its own. The bridge and the broker stand still
// meanwhile, as far as these two requests are concerned: the moment is exact.
type ambush struct {
	broker string
	key    kmsg.Key // what is copied
	at     moment
	fails  bool                  // n is not committed but given up
	marked func(id string) error // waits until the markers of the id's last commit are written
	lose   func()                // called when n is caught, before its TxnOffsetCommit goes on; nil = nothing to lose

	answers chan string // the broker's answer to the copy
	failed  chan error

	mu     sync.Mutex
	id     string
	frames map[kmsg.Key][]byte
	stage  int
}

// Stages of an ambush.
const (
	seeking = iota
	caught  // TxnOffsetCommit(n) was seen
	ended   // EndTxn(n) is answered, or n was fenced
	again   // TxnOffsetCommit(n+2) was seen
	over
)

func newAmbush(broker string, key kmsg.Key, at moment, fails bool) *ambush {
	return &ambush{broker: broker, key: key, at: at, fails: fails, answers: make(chan string, 1), failed: make(chan error, 1)}
}

// see is the proxy's tap.
func (a *ambush) see(t *testing.T) func(Passing) {
	return func(p Passing) {
		switch kmsg.Key(p.Key) {
		case kmsg.TxnOffsetCommit, kmsg.EndTxn, kmsg.InitProducerID:
		default:
			return
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.stage == over {
			return
		}
		req, err := readRequest(p.Request)
		good := false
		if err == nil && p.Answer != nil {
			var resp kmsg.Response
			if resp, err = readAnswer(p.Key, p.Version, p.Answer); err == nil {
				good = Codes(resp) == "NONE"
			}
		}
		if err != nil {
			a.failed <- err
			a.stage = over
			return
		}
		switch req := req.(type) {
		case *kmsg.TxnOffsetCommitRequest:
			a.offsets(t, req, p, good)
		case *kmsg.EndTxnRequest:
			a.ends(t, req, p, good)
		case *kmsg.InitProducerIDRequest:
			a.fenced(t, req, p, good)
		}
	}
}

func (a *ambush) offsets(t *testing.T, req *kmsg.TxnOffsetCommitRequest, p Passing, good bool) {
	same := req.TransactionalID == a.id
	switch {
	case p.Answer == nil && (a.stage == seeking || same && a.stage == caught):
		a.id, a.stage = req.TransactionalID, caught
		a.frames = map[kmsg.Key][]byte{kmsg.TxnOffsetCommit: slices.Clone(p.Request)}
		if a.lose != nil {
			a.lose()
		}
	case p.Answer == nil && same && a.stage == ended:
		a.stage = again
		a.reach(t, reopened)
	case p.Answer != nil && good && !same && a.stage == ended:
		a.reach(t, afterOffset)
	}
}

func (a *ambush) ends(t *testing.T, req *kmsg.EndTxnRequest, p Passing, good bool) {
	same := req.TransactionalID == a.id
	switch {
	case p.Answer == nil && same && a.stage == caught:
		a.frames[kmsg.EndTxn] = slices.Clone(p.Request)
		a.reach(t, beforeEnd)
	case p.Answer != nil && good && same && a.stage == caught && a.fails:
		a.stage = seeking // not the one
	case p.Answer != nil && good && same && a.stage == caught:
		a.stage = ended
		a.reach(t, afterEnd)
	case p.Answer != nil && good && !same && a.stage == ended:
		a.reach(t, afterNext)
	case p.Answer == nil && same && a.stage == again:
		a.reach(t, reoffset)
	}
}

func (a *ambush) fenced(t *testing.T, req *kmsg.InitProducerIDRequest, p Passing, good bool) {
	switch {
	case !a.fails || a.stage != caught || req.TransactionalID == nil || *req.TransactionalID != a.id:
	case p.Answer == nil:
		a.reach(t, beforeFence)
	case good:
		a.stage = ended
		a.reach(t, afterFence)
	}
}

// reach delivers the copy if this is the moment.
func (a *ambush) reach(t *testing.T, at moment) {
	if at != a.at {
		return
	}
	a.stage = over
	if at == afterOffset || at == afterNext { // before that, brokers take it: TestLateCopyBeforeMarkers
		if err := a.marked(a.id); err != nil {
			a.failed <- err
			return
		}
	}
	deliver := deliverUntilJudged
	if a.key == kmsg.TxnOffsetCommit {
		deliver = DeliverCopy // this moment and no later one, where brokers would take it
	}
	answer, err := deliver(within(t, patience), a.broker, a.frames[a.key])
	if err != nil {
		a.failed <- err
		return
	}
	a.answers <- answer
}

// await returns the broker's answer to the copy.
func (a *ambush) await(t *testing.T) string {
	t.Helper()
	select {
	case answer := <-a.answers:
		return answer
	case err := <-a.failed:
		t.Fatal(err)
	case <-within(t, patience).Done():
		a.mu.Lock()
		defer a.mu.Unlock()
		t.Fatalf("the moment did not come: %s, stage %d of %s", a.at, a.stage, a.id)
	}
	return ""
}
