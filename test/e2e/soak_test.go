package e2e

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eosbridge/eosbridge/test/kafka"
	"github.com/eosbridge/eosbridge/test/oracle"
	"github.com/eosbridge/eosbridge/test/proof"
)

var (
	soakTime     = flag.Duration("soak", 0, "how long the soak runs on each broker; 0 = 30s, with -long 5m")
	soakProtocol = flag.String("soak.protocol", "", "group protocol of the soak: classic, consumer; empty = the seed's choice")
)

// TestSoak does everything at once: a random mixture of all faults, of which
// another subset is active every few seconds, none of them now and then. It lasts
// 30 s; make soak gives it any time.
func TestSoak(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		seed := seedOf(t)
		plan := newPlanner(seed)
		protocol := plan.protocol(protocols(c))
		if slices.Contains(protocols(c), *soakProtocol) {
			protocol = *soakProtocol
		}
		if protocol == "consumer" {
			c = kafka.Start(t, kafka.Options{Version: kafka.V44, Properties: shortConsumerSessions})
		}
		newSoak(t, c, protocol, *raw || plan.passThrough()).run(t, plan, seed)
	})
}

// soak is one run.
type soak struct {
	r        *rig
	protocol string
	cast     *cast
	wire     *troubled
	plain    *feeding
	began    time.Time
	due      []duty
	length   time.Duration
	used     map[mishap]int
	missed   map[mishap]int // nobody was there to suffer it
	inputs   int
}

// duty is something to be done at a moment: the end of an act.
type duty struct {
	at time.Duration
	do func()
}

func newSoak(t *testing.T, c *kafka.Cluster, protocol string, passThrough bool) *soak {
	t.Helper()
	settings := map[string]string{
		"BRIDGE_GROUP_PROTOCOL":    protocol,
		"BRIDGE_RESTART_MAX_DELAY": "500ms",
		"BRIDGE_RESTART_LIMIT":     "100000", // its faults are too many for any limit
		"BRIDGE_STOP_TIMEOUT":      "5s",
	}
	maps.Copy(settings, shortSessions)
	p := plan{in: 4, out: 3, settings: settings}
	if passThrough {
		p.out, p.preserve, p.raw = p.in+mostPartitions, true, true
	}
	t.Logf("pass-through %v", passThrough)
	r, proxy := behindProxy(t, c, p)
	return &soak{
		r: r, protocol: protocol, cast: newCast(t, r),
		wire: newTroubled(t, proxy, c.Bootstrap()),
		used: make(map[mishap]int), missed: make(map[mishap]int), inputs: 4, length: cmp.Or(*soakTime, size(30*time.Second, 5*time.Minute)),
	}
}

func (s *soak) run(t *testing.T, plan *planner, seed uint64) {
	t.Helper()
	phases := 0
	defer func() { s.report(t, phases, seed) }()
	all := s.r.sources()
	stopWatch := s.r.watched(t)
	s.plain = s.r.feedAs(t, oracle.Feed{Rate: 600, Sources: all[:2]})
	transactional := s.r.feedAs(t, oracle.Feed{Rate: 25, Sources: all[2:], TransactionalID: s.r.in + "-feed", Rotten: 3})
	s.began = time.Now()
	s.cast.want("a")
	for ; time.Since(s.began) < s.length; phases++ {
		s.phase(t, plan.next())
	}
	over := time.Now()
	for _, d := range s.due {
		d.do()
	}
	s.wire.calm()
	s.cast.everybodyLeaves(t)
	s.plain.finish(t)
	transactional.finish(t)
	t.Logf("everybody had left %v after the last fault", time.Since(over).Round(time.Millisecond))
	last := s.r.start(t, "a")
	awaitRunning(t, last)
	s.r.settle(t)
	t.Logf("all was bridged %v after the last fault", time.Since(over).Round(time.Millisecond))
	stopWatch()
	stop(t, last)
	s.judge(t)
	s.r.exact(t)
}

// phase does a phase's acts, each at its moment.
func (s *soak) phase(t *testing.T, ph phase) {
	t.Helper()
	t.Log(ph)
	before, ended := s.r.during.Out(), s.wire.committed()
	for _, a := range ph.Acts {
		s.until(t, a.At)
		s.do(t, a)
	}
	s.until(t, ph.Ends)
	s.judge(t)
	t.Logf("phase %d: %d records, %d epochs; fed %d", ph.Number, s.r.during.Out()-before, s.wire.committed()-ended, s.r.input.Acked())
}

// until waits for a moment, and does what is due before it.
func (s *soak) until(t *testing.T, at time.Duration) {
	t.Helper()
	for {
		next := -1
		for i, d := range s.due {
			if d.at <= at && (next < 0 || d.at < s.due[next].at) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		d := s.due[next]
		s.due = append(s.due[:next], s.due[next+1:]...)
		pause(t, time.Until(s.began.Add(d.at)))
		d.do()
	}
	pause(t, time.Until(s.began.Add(at)))
}

// do begins one act.
func (s *soak) do(t *testing.T, a act) {
	t.Helper()
	done := true
	end := func(do func()) { s.due = append(s.due, duty{a.At + a.For, do}) }
	if a.Every > 0 { // a fault of single requests
		s.wire.add(a, s.began.Add(a.At))
		s.used[a.Mishap]++
		return
	}
	switch a.Mishap {
	case sigkill:
		done = s.cast.kill(a.Name)
	case sigterm:
		done = s.cast.terminate(a.Name)
	case freeze, sleep:
		var goOn func()
		if goOn, done = s.cast.stop(a.Name); done {
			end(goOn)
		}
	case second, third:
		s.cast.want(a.Name)
		end(func() { s.cast.leave(a.Name, a.Hard) })
	case twin:
		s.cast.want(a.Name)
	case delay:
		s.wire.delay(time.Duration(a.Lag) * time.Millisecond)
		end(func() { s.wire.delay(0) })
	case lates:
		s.wire.deliver(&a)
		end(func() { s.wire.deliver(nil) })
	case partition:
		s.grow(t)
	}
	if done {
		s.used[a.Mishap]++
	} else {
		s.missed[a.Mishap]++
	}
}

// grow adds an input partition, which is fed from its first offset on.
func (s *soak) grow(t *testing.T) {
	t.Helper()
	resp, err := s.r.adm.CreatePartitions(within(t, patience), 1, s.r.in)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.plain.AddSource(within(t, patience), oracle.Source{Topic: s.r.in, Partition: int32(s.inputs)}); err != nil {
		t.Fatal(err)
	}
	s.inputs++
}

// judge ends the soak as soon as anything is wrong.
func (s *soak) judge(t *testing.T) {
	t.Helper()
	if problem := s.cast.trouble(); problem != "" {
		t.Fatal(problem)
	}
	if again := s.wire.again(); again != "" {
		t.Fatalf("TxnOffsetCommit was sent again without an answer: %s", again)
	}
	if v := s.r.during.SoFar(); !v.Undamaged() || v.Duplicated.Count+v.OutOfOrder.Count > 0 {
		t.Fatal(v)
	}
	s.r.invariant(t)
	if t.Failed() {
		t.FailNow()
	}
}

// report is the table of what was done.
func (s *soak) report(t *testing.T, phases int, seed uint64) {
	t.Helper()
	var text strings.Builder
	scenarios := 0
	for _, m := range mishaps {
		scenarios += s.used[m]
		fmt.Fprintf(&text, "  %-45s %5d", m, s.used[m])
		if s.missed[m] > 0 {
			fmt.Fprintf(&text, " and %d with nobody there", s.missed[m])
		}
		text.WriteByte('\n')
	}
	t.Logf("%v, %d phases, %s; faults:\n%s%s%s", s.length, phases, s.protocol, &text, s.wire, s.cast)
	proof.Record(t, proof.Result{
		Broker: s.r.cluster.Version(), Took: time.Since(s.began), Scenarios: int64(scenarios), Kills: int64(s.cast.killed),
		Records: s.r.input.Acked(), Seed: seed,
		Note: fmt.Sprintf("soak, %s, %d phases; of %d transactions %d were committed; %s", s.protocol, phases, s.wire.begun, s.wire.ended, s.cast),
	})
}
