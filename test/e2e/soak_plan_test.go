package e2e

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// mishap is one kind of fault of the soak.
type mishap string

const (
	sigkill    mishap = "SIGKILL"
	freeze     mishap = "SIGSTOP, SIGCONT within the session"
	sleep      mishap = "SIGSTOP, SIGCONT after the session"
	sigterm    mishap = "SIGTERM and a new start"
	second     mishap = "a second instance joins and leaves"
	third      mishap = "a third instance joins and leaves"
	twin       mishap = "a second process of one name"
	lostAnswer mishap = "answers lost"
	cut        mishap = "requests lost, connections reset"
	refuse     mishap = "requests refused"
	delay      mishap = "answers delayed"
	silence    mishap = "silence in one direction"
	aborts     mishap = "every third commit fails"
	lates      mishap = "requests arrive late, or again"
	partition  mishap = "a partition added"
)

var mishaps = []mishap{
	sigkill, freeze, sleep, sigterm, second, third, twin, lostAnswer, cut, refuse, delay, silence, aborts, lates, partition,
}

// act is one fault: when, to whom, and how.
type act struct {
	Mishap mishap
	At     time.Duration // since the soak's start
	For    time.Duration // 0 = it has no end
	Name   string        // of the instance; empty for faults of the network
	Hard   bool          // a guest leaves by SIGKILL
	Key    kmsg.Key      // of the request
	Wire   Fault
	Every  int           // each so many-th request
	Times  int           // at most
	Span   time.Duration // of a silence
	Lag    int           // a late request arrives behind so many others
}

func (a act) String() string {
	text := fmt.Sprintf("%.1fs %s %s", a.At.Seconds(), a.Mishap, a.Name)
	if a.Key != 0 || a.Every > 0 {
		text += fmt.Sprintf("(%s: %s, every %d, at most %d)", a.Key.Name(), a.Wire, a.Every, a.Times)
	}
	if a.For > 0 {
		text += fmt.Sprintf(" for %.1fs", a.For.Seconds())
	}
	return text
}

// phase is a few seconds with one subset of the mishaps, which may be empty.
type phase struct {
	Number   int
	At, Ends time.Duration // since the soak's start
	Mishaps  []mishap
	Acts     []act // in order of time
}

func (p phase) String() string {
	if len(p.Mishaps) == 0 {
		return fmt.Sprintf("phase %d, %.1fs to %.1fs: nothing", p.Number, p.At.Seconds(), p.Ends.Seconds())
	}
	var names []string
	for _, m := range p.Mishaps {
		names = append(names, string(m))
	}
	return fmt.Sprintf("phase %d, %.1fs to %.1fs: %s", p.Number, p.At.Seconds(), p.Ends.Seconds(), strings.Join(names, "; "))
}

// planner makes one phase after the other. They follow from the seed and from
// nothing else: what happens in a run has no influence.
type planner struct {
	rng    *rand.Rand
	at     time.Duration
	number int
	deck   []mishap // still to be dealt: each kind comes before any comes again
	added  int
}

// mostPartitions is how many partitions a plan adds.
const mostPartitions = 6

func newPlanner(seed uint64) *planner { return &planner{rng: rand.New(rand.NewPCG(seed, 1))} }

// protocol is the plan's choice of one of the group protocols.
func (p *planner) protocol(all []string) string { return all[p.rng.IntN(len(all))] }

// passThrough is the plan's choice of whether batches are passed through.
func (p *planner) passThrough() bool { return p.rng.IntN(2) == 0 }

// next is the next phase. One in four is without faults, so that recovery is seen.
func (p *planner) next() phase {
	ph := phase{Number: p.number, At: p.at, Ends: p.at + between(p.rng, 2500*time.Millisecond, 4500*time.Millisecond).Round(time.Millisecond)}
	p.number, p.at = p.number+1, ph.Ends
	if ph.Number > 0 && p.rng.IntN(4) > 0 {
		for range 2 + p.rng.IntN(3) {
			if m := p.deal(); !slices.Contains(ph.Mishaps, m) {
				ph.Mishaps = append(ph.Mishaps, m)
			}
		}
	}
	for _, m := range ph.Mishaps {
		ph.Acts = append(ph.Acts, p.acts(m, ph)...)
	}
	slices.SortStableFunc(ph.Acts, func(a, b act) int { return int(a.At - b.At) })
	return ph
}

func (p *planner) deal() mishap {
	if len(p.deck) == 0 {
		p.deck = slices.Clone(mishaps)
		p.rng.Shuffle(len(p.deck), func(i, j int) { p.deck[i], p.deck[j] = p.deck[j], p.deck[i] })
	}
	m := p.deck[0]
	p.deck = p.deck[1:]
	return m
}

// anyone is mostly the instance that is always there.
func (p *planner) anyone() string { return []string{"a", "a", "a", "b", "c"}[p.rng.IntN(5)] }

// anyRequest are the kinds of request that may be lost, the protocol's own first.
var anyRequest = []kmsg.Key{
	kmsg.TxnOffsetCommit, kmsg.EndTxn, kmsg.Produce, kmsg.InitProducerID, // these four can be refused, too
	kmsg.AddOffsetsToTxn, kmsg.AddPartitionsToTxn, kmsg.OffsetCommit, kmsg.OffsetFetch, kmsg.FindCoordinator,
	kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat, kmsg.LeaveGroup, kmsg.ConsumerGroupHeartbeat,
	kmsg.Fetch, kmsg.ListOffsets, kmsg.Metadata,
}

// acts are one kind's faults in a phase.
func (p *planner) acts(m mishap, ph phase) []act {
	var all []act
	add := func(a act) {
		a.Mishap = m
		a.At = between(p.rng, ph.At, ph.Ends).Round(time.Millisecond)
		all = append(all, a)
	}
	span := func(from, to time.Duration) time.Duration { return between(p.rng, from, to).Round(time.Millisecond) }
	switch m {
	case sigkill:
		for range 1 + p.rng.IntN(3) {
			add(act{Name: p.anyone()})
		}
	case freeze:
		add(act{Name: p.anyone(), For: span(50*time.Millisecond, 3*time.Second)})
	case sleep:
		add(act{Name: p.anyone(), For: span(6500*time.Millisecond, 9*time.Second)})
	case sigterm, twin:
		add(act{Name: "a"})
	case second, third:
		name := map[mishap]string{second: "b", third: "c"}[m]
		add(act{Name: name, For: span(2*time.Second, 12*time.Second), Hard: p.rng.IntN(2) == 0})
	case partition:
		if p.added < mostPartitions {
			p.added++
			add(act{})
		}
	case delay:
		add(act{Lag: 5 + p.rng.IntN(100), For: span(500*time.Millisecond, 3*time.Second)})
	case lates:
		add(act{Lag: p.rng.IntN(8), For: span(time.Second, 4*time.Second)})
		lose := all[0] // and some that are lost at first
		lose.Key, lose.Wire, lose.Every, lose.Times = kmsg.TxnOffsetCommit, CutRequest, 2+p.rng.IntN(4), 4
		all = append(all, lose)
	default:
		all = p.wire(m, ph)
	}
	return all
}

// wire are the faults of single requests.
func (p *planner) wire(m mishap, ph phase) []act {
	pick := func(faults ...Fault) Fault { return faults[p.rng.IntN(len(faults))] }
	if m == aborts { // the whole phase
		return []act{
			{Mishap: m, At: ph.At, For: ph.Ends - ph.At, Key: kmsg.TxnOffsetCommit, Every: 3, Times: 1 << 30, Wire: pick(Refuse, CutRequest, UnknownError, CutEOF)},
			{Mishap: m, At: ph.At, For: ph.Ends - ph.At, Key: kmsg.EndTxn, Every: 3, Times: 1 << 30, Wire: pick(Refuse, UnknownError)},
		}
	}
	var all []act
	for range 2 + p.rng.IntN(3) {
		a := act{Mishap: m, At: between(p.rng, ph.At, ph.Ends).Round(time.Millisecond), For: between(p.rng, 300*time.Millisecond, 3*time.Second).Round(time.Millisecond)}
		a.Every, a.Times = 1+p.rng.IntN(4), 1+p.rng.IntN(8)
		a.Key = anyRequest[p.rng.IntN(len(anyRequest))]
		switch m {
		case lostAnswer:
			if a.Wire = pick(CutEOF, CutReset, Swallow); a.Wire == Swallow {
				a.Times = 1 // each costs seconds
			}
		case cut:
			a.Wire = CutRequest
		case silence:
			a.Wire, a.Times, a.Span = pick(HushRequests, HushAnswers), 1, between(p.rng, 100*time.Millisecond, 4*time.Second).Round(time.Millisecond)
		case refuse:
			a.Key, a.Wire = anyRequest[p.rng.IntN(4)], pick(Refuse, UnknownError)
		}
		all = append(all, a)
	}
	return all
}

// TestSoakPlan: a plan follows from its seed, uses every kind, and has phases
// without faults.
func TestSoakPlan(t *testing.T) {
	plan := func(seed uint64) []phase {
		p := newPlanner(seed)
		p.protocol([]string{"classic", "consumer"})
		p.passThrough()
		var all []phase
		for range 200 {
			all = append(all, p.next())
		}
		return all
	}
	one := plan(7)
	if !reflect.DeepEqual(one, plan(7)) {
		t.Error("one seed, two plans")
	}
	if reflect.DeepEqual(one, plan(8)) {
		t.Error("two seeds, one plan")
	}
	used, quiet, end := map[mishap]int{}, 0, time.Duration(0)
	for _, ph := range one {
		if ph.At != end {
			t.Errorf("%s: begins at %v, want %v", ph, ph.At, end)
		}
		end = ph.Ends
		if len(ph.Mishaps) == 0 {
			quiet++
		}
		last := ph.At
		for _, a := range ph.Acts {
			used[a.Mishap]++
			if a.At < last || a.At > ph.Ends {
				t.Errorf("%s: %s is out of order", ph, a)
			}
			last = a.At
		}
	}
	for _, m := range mishaps {
		if used[m] == 0 {
			t.Errorf("%s is never tried", m)
		}
	}
	if quiet < 30 || quiet > 80 {
		t.Errorf("%d of 200 phases are without faults", quiet)
	}
	if used[partition] > mostPartitions {
		t.Errorf("%d partitions are added", used[partition])
	}
}
