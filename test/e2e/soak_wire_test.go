package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// troubled is the network between the bridges and the broker: it does the plan's
// faults to single requests, delivers some of them late over connections of their
// own, and counts what becomes of the transactions.
type troubled struct {
	t      *testing.T
	proxy  *Proxy
	broker string
	wg     sync.WaitGroup

	mu       sync.Mutex
	faults   []*fault
	lagging  []*lagging
	late     *act // in force; nil = none
	hits     map[string]int
	answers  map[string]int     // of the broker to late requests
	offsets  map[attempt]string // what became of each TxnOffsetCommit
	repeated []string           // TxnOffsetCommits that were sent again without an answer
	begun    int                // TxnOffsetCommits
	ended    int                // EndTxn(commit), answered
}

// fault is an act of the network while it is in force.
type fault struct {
	act
	until      time.Time
	seen, hits int
}

// lagging is a request that is delivered when so many others have passed.
type lagging struct {
	frame []byte
	left  int
}

// attempt is a transaction's TxnOffsetCommit: the epoch moves with each
// transaction, and below transaction.version 2 with each new client.
type attempt struct {
	id    string
	pid   int64
	epoch int16
}

func newTroubled(t *testing.T, proxy *Proxy, broker string) *troubled {
	w := &troubled{
		t: t, proxy: proxy, broker: broker,
		hits: make(map[string]int), answers: make(map[string]int), offsets: make(map[attempt]string),
	}
	proxy.SetJudge(w.judge)
	proxy.Tap(w.tap)
	return w
}

// add puts an act in force.
func (w *troubled) add(a act, from time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, &fault{act: a, until: from.Add(a.For)})
}

// delay holds back answers, 0 ends that.
func (w *troubled) delay(d time.Duration) { w.proxy.SetDelay(d) }

// deliver makes requests arrive late from now on; nil ends that.
func (w *troubled) deliver(late *act) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.late = late
}

// calm ends all faults and waits until the last late request is answered.
func (w *troubled) calm() {
	w.mu.Lock()
	w.faults, w.late = nil, nil
	rest := w.lagging
	w.lagging = nil
	w.mu.Unlock()
	w.proxy.SetDelay(0)
	for _, l := range rest {
		w.carry(l.frame)
	}
	w.wg.Wait()
}

// judge is the proxy's.
func (w *troubled) judge(key kmsg.Key, request []byte, answer bool) (Rule, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = slices.DeleteFunc(w.faults, func(f *fault) bool { return time.Now().After(f.until) })
	for _, f := range w.faults {
		if f.Key != key || answer == f.Wire.strikesRequest() || f.hits >= f.Times {
			continue
		}
		if f.seen++; f.seen%f.Every != 0 {
			continue
		}
		f.hits++
		w.hits[fmt.Sprintf("%s: %s", f.Mishap, f.Wire)]++
		if key == kmsg.TxnOffsetCommit {
			w.lost(request, f.Wire)
		}
		if f.Wire == CutRequest && w.late != nil && (key == kmsg.TxnOffsetCommit || key == kmsg.EndTxn) {
			w.lagging = append(w.lagging, &lagging{slices.Clone(request), w.late.Lag})
		}
		return Rule{Fault: f.Wire, For: f.Span}, true
	}
	return Rule{}, false
}

// lost notes what the bridge will know of its TxnOffsetCommit.
func (w *troubled) lost(request []byte, f Fault) {
	switch f {
	case CutRequest, CutEOF, CutReset, Swallow:
		if a, err := attemptOf(request); err == nil {
			w.offsets[a] = "unanswered"
		}
	}
}

func attemptOf(request []byte) (attempt, error) {
	req, err := readRequest(request)
	if err != nil {
		return attempt{}, err
	}
	toc := req.(*kmsg.TxnOffsetCommitRequest)
	return attempt{toc.TransactionalID, toc.ProducerID, toc.ProducerEpoch}, nil
}

// tap is the proxy's.
func (w *troubled) tap(p Passing) {
	key := kmsg.Key(p.Key)
	if key != kmsg.TxnOffsetCommit && key != kmsg.EndTxn {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case p.Answer != nil && key == kmsg.EndTxn:
		req, err1 := readRequest(p.Request)
		resp, err2 := readAnswer(p.Key, p.Version, p.Answer)
		if err1 == nil && err2 == nil && req.(*kmsg.EndTxnRequest).Commit && Codes(resp) == "NONE" {
			w.ended++
		}
	case p.Answer == nil && key == kmsg.TxnOffsetCommit:
		w.begun++
		if a, err := attemptOf(p.Request); err == nil {
			if w.offsets[a] == "unanswered" {
				w.repeated = append(w.repeated, fmt.Sprintf("%+v", a))
			}
			w.offsets[a] = "sent"
		}
	}
	if p.Answer == nil {
		w.pass(p.Request, key)
	}
}

// pass counts down for those that lag, and copies an EndTxn. A TxnOffsetCommit that
// was answered is not copied: brokers do not bear it (TestLateCopies), and nobody
// sends one. One that was lost arrives late, as it was.
func (w *troubled) pass(request []byte, key kmsg.Key) {
	w.lagging = slices.DeleteFunc(w.lagging, func(l *lagging) bool {
		if l.left--; l.left > 0 {
			return false
		}
		w.carry(l.frame)
		return true
	})
	if w.late != nil && key == kmsg.EndTxn {
		w.lagging = append(w.lagging, &lagging{slices.Clone(request), w.late.Lag})
	}
}

// carry delivers a frame in the background; calm waits for it.
func (w *troubled) carry(frame []byte) {
	w.wg.Go(func() {
		answer, err := DeliverCopy(within(w.t, patience), w.broker, frame)
		if err != nil {
			answer = "nothing"
		}
		req, err := readRequest(frame)
		if err != nil {
			w.t.Error(err)
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.answers[kmsg.NameForKey(req.Key())+" "+answer]++
	})
}

// committed is the number of epochs whose commit was answered.
func (w *troubled) committed() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended
}

// again names the offset commits that were repeated without an answer.
func (w *troubled) again() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.repeated, ", ")
}

// String is what the network did.
func (w *troubled) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var text strings.Builder
	fmt.Fprintf(&text, "%d transactions sent their positions, %d were committed\n", w.begun, w.ended)
	for _, name := range slices.Sorted(maps.Keys(w.hits)) {
		fmt.Fprintf(&text, "  %-60s %5d\n", name, w.hits[name])
	}
	for _, name := range slices.Sorted(maps.Keys(w.answers)) {
		fmt.Fprintf(&text, "  late %-55s %5d\n", name, w.answers[name])
	}
	return text.String()
}
