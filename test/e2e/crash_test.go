package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/internal/crashpoint"
	"github.com/eosbridge/eosbridge/test/kafka"
	"github.com/eosbridge/eosbridge/test/oracle"
	"github.com/eosbridge/eosbridge/test/proof"
)

// crashBuilt is the bridge with crash points, built at first use.
var crashBuilt = sync.OnceValues(func() (string, error) {
	dir, err := buildDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "crash")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return Build(dir, "-tags", "crashpoints")
})

func crashBinary(t testing.TB) string {
	t.Helper()
	binary, err := crashBuilt()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// crashRig is a rig whose processes die at points.
type crashRig struct {
	*rig
	place crashPlace
	proxy *Proxy // of scenes with faults
	feed  *feeding
	turn  int // of the ways back
	kills int

	stopWatch func()
}

// begin feeds and watches.
func (r *crashRig) begin(t *testing.T) {
	t.Helper()
	r.stopWatch = r.watched(t)
	r.feed = r.rig.feed(t, 500)
}

// crashed counts over the scenes of one place.
type crashed struct{ points, kills, records atomic.Int64 }

// TestCrash kills the bridge at every named moment of the protocol, and twice
// more in the middle of the recovery from that, before one may live. It is the
// shipped code but for the calls that kill it. Each process has to die by its
// own hand at its point, so none is named in vain. One pipeline sees many
// deaths, with one verdict at its end and the invariant watched all the time; in
// the full size each point has a pipeline and several arrivals of its own.
func TestCrash(t *testing.T) {
	t.Parallel()
	for _, place := range crashPlaces {
		t.Run(place.name, func(t *testing.T) {
			t.Parallel()
			c := kafka.Shared(t, place.version)
			since := time.Now()
			var sum crashed
			t.Cleanup(func() { // behind the scenes, which run beside each other
				proof.Record(t, proof.Result{
					Broker: place.version, Took: time.Since(since), Scenarios: sum.points.Load(), Kills: sum.kills.Load(),
					Records: sum.records.Load(), Note: "crash points, group protocol " + place.protocol,
				})
				t.Logf("%d points, %d deaths, %d records, %v", sum.points.Load(), sum.kills.Load(), sum.records.Load(),
					time.Since(since).Round(time.Millisecond))
			})
			for _, scene := range crashScenes() {
				points := place.points(scene)
				if len(points) == 0 {
					continue
				}
				if !*long || scene.play != nil {
					t.Run(scene.name, func(t *testing.T) {
						t.Parallel()
						sum.scene(t, c, place, scene, points)
					})
					continue
				}
				for _, point := range points {
					t.Run(point, func(t *testing.T) {
						t.Parallel()
						sum.scene(t, c, place, scene, []string{point})
					})
				}
			}
		})
	}
}

// scene lets one pipeline die at the points, and asks what came out.
func (sum *crashed) scene(t *testing.T, c *kafka.Cluster, place crashPlace, scene crashScene, points []string) {
	t.Helper()
	p := scene.plan
	var proxy *Proxy
	if scene.faults {
		var err error
		if proxy, err = StartProxy(c.Bootstrap()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(proxy.Close)
		p.address = proxy.Addr()
	}
	p.settings = map[string]string{"BRIDGE_GROUP_PROTOCOL": place.protocol}
	for name, value := range scene.plan.settings {
		p.settings[name] = value
	}
	r := &crashRig{rig: newRig(t, c, p), place: place, proxy: proxy, stopWatch: func() {}}
	if scene.play != nil {
		scene.play(t, r)
	} else {
		r.begin(t)
		for _, point := range points {
			for _, n := range size(scene.times[:1], scene.times) {
				r.die(t, point, n, scene.provoke)
				r.comeBack(t, point)
			}
		}
	}
	if r.feed != nil {
		r.feed.finish(t)
	}
	last := r.start(t, "a")
	awaitRunning(t, last)
	r.settle(t)
	r.stopWatch()
	stop(t, last)
	r.exact(t)
	sum.points.Add(int64(len(points)))
	sum.kills.Add(int64(r.kills))
	sum.records.Add(r.input.Acked())
}

// die starts a process that dies at its n-th arrival at the point.
func (r *crashRig) die(t *testing.T, point string, n int64, provoke func(*testing.T, *crashRig, *Process, string)) {
	t.Helper()
	r.dieAs(t, "a", point, n, provoke)
}

func (r *crashRig) dieAs(t *testing.T, instance, point string, n int64, provoke func(*testing.T, *crashRig, *Process, string)) {
	t.Helper()
	for range 5 {
		p, err := Launch(crashBinary(t), append(r.environ(instance, nil), fmt.Sprintf("%s=%s:%d", crashpoint.Variable, point, n)), "run")
		if err != nil {
			t.Fatal(err)
		}
		r.mu.Lock()
		r.lives = append(r.lives, &life{p, instance})
		r.mu.Unlock()
		if provoke != nil {
			provoke(t, r, p, point)
		}
		code, err := p.Wait(within(t, patience))
		if r.proxy != nil {
			r.proxy.Set(nil)
			r.proxy.SetJudge(nil)
		}
		if err != nil {
			t.Fatalf("%s:%d: %v", point, n, err)
		}
		if code == 0 && point == "stop: last barrier" {
			continue // the stop came between two epochs
		}
		if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL || !p.Log.Contains("dies at "+point) {
			t.Fatalf("%s:%d: the bridge ended with status %d: %v", point, n, code, p.cmd.ProcessState)
		}
		r.kills++
		return
	}
	t.Fatalf("%s: never come by", point)
}

// comeBack dies twice more on the way back from a death at the point, each time
// at another pair of points, and then lives until a commit. In the small run that
// is the beginning of the next life, where it has an epoch to commit first.
func (r *crashRig) comeBack(t *testing.T, from string) {
	t.Helper()
	points := r.place.wayBack()
	r.die(t, points[r.turn%len(points)], 1, nil)
	r.die(t, points[(r.turn+1+r.turn/len(points))%len(points)], 1, nil)
	r.turn++
	if *long || strings.HasPrefix(from, "recovery: ") {
		p := r.start(t, "a")
		awaitCommit(t, p, 0)
		kill(t, p)
		r.kills++
	}
}

// committedOrDead waits for a commit of a process that may die before.
func committedOrDead(t *testing.T, p *Process) {
	t.Helper()
	_, err := p.Log.Await(within(t, patience), 0, Message(StepCommitted))
	if err != nil && p.Alive() {
		t.Fatal(err)
	}
}

// failEpoch makes an epoch fail in the state that the point names: nothing that
// it produces is answered, with its positions or without them; or its positions
// are not answered; or its end fails.
func failEpoch(t *testing.T, r *crashRig, p *Process, point string) {
	t.Helper()
	committedOrDead(t, p)
	rule := Rule{Every: 1, Times: 1 << 30}
	switch point {
	case "slot: open fail, before", "slot: open fail, after":
		r.proxy.SetJudge(func(key kmsg.Key, _ []byte, answer bool) (Rule, bool) {
			return Rule{Fault: UnknownError}, answer && key == kmsg.TxnOffsetCommit
		})
		rule.Key, rule.Fault = kmsg.Produce, Swallow
	case "slot: positioned fail, before", "slot: positioned fail, after":
		rule.Key, rule.Fault, rule.Every = kmsg.Produce, Swallow, 5 // positions wait for the first answer of each partition
	case "slot: flushed fail, before", "slot: flushed fail, after":
		rule.Key, rule.Fault = kmsg.TxnOffsetCommit, Swallow
	case "slot: prepared fail, before", "slot: prepared fail, after":
		rule.Key, rule.Fault = kmsg.EndTxn, UnknownError
	default:
		t.Fatalf("no fault leads to %q", point)
	}
	r.proxy.Set(&rule)
}

// holdUp lets the answers about outputs or those about positions be late, so that
// the others are there first.
func holdUp(t *testing.T, r *crashRig, _ *Process, point string) {
	t.Helper()
	rule := Rule{Every: 1, Times: 1 << 30, Fault: Hold, For: 30 * time.Millisecond}
	switch point {
	case "slot: open flush, before", "slot: open flush, after", "slot: flushed offsets, before", "slot: flushed offsets, after":
		rule.Key = kmsg.TxnOffsetCommit
	default:
		rule.Key = kmsg.Produce
	}
	r.proxy.Set(&rule)
}

// failOnce makes an epoch of a process in doubt, so that the process recovers again.
func failOnce(t *testing.T, r *crashRig, p *Process, _ string) {
	t.Helper()
	committedOrDead(t, p)
	r.proxy.Set(&Rule{Key: kmsg.EndTxn, Fault: UnknownError, Every: 1, Times: 1})
}

// terminate asks a process to stop in the middle of an epoch.
func terminate(t *testing.T, r *crashRig, p *Process, _ string) {
	t.Helper()
	awaitCommit(t, p, 0)
	<-time.After(50 * time.Millisecond) // after a barrier the source rests, and then the next epoch has its first record
	if err := p.Terminate(); err != nil {
		t.Fatal(err)
	}
}

// firstStart dies before and after the start positions of a group are committed.
// Before, the next start decides anew; after, what is fed meanwhile is not skipped.
func firstStart(t *testing.T, r *crashRig) {
	t.Helper()
	for _, s := range r.sources() {
		r.during.Skip(s, 50)
	}
	r.feedNow(t, 100)
	r.die(t, "recovery: start resolved", 1, nil)
	r.die(t, "recovery: start resolved", 1, nil)
	for partition := range int32(2) {
		if at := r.position(t, partition); at >= 0 {
			t.Errorf("position %d of partition %d, before it was committed", at, partition)
		}
	}
	r.die(t, "recovery: start committed", 1, nil)
	for partition := range int32(2) {
		if at := r.position(t, partition); at != 50 {
			t.Errorf("position %d of partition %d, want 50", at, partition)
		}
	}
	r.feedNow(t, 100)
	r.comeBack(t, "start")
	r.feedNow(t, 100)
}

// partitionAdded dies before and after the first position of a partition that
// was not there at the start: it is read from its beginning, whatever the start is.
func partitionAdded(t *testing.T, r *crashRig) {
	t.Helper()
	p := r.start(t, "a")
	eventually(t, "positions", func() bool { return r.position(t, 0) >= 0 && r.position(t, 1) >= 0 })
	r.begin(t)
	awaitCommit(t, p, 0)
	kill(t, p)
	r.kills++
	resp, err := r.adm.CreatePartitions(within(t, patience), 1, r.in)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := r.feed.AddSource(within(t, patience), oracle.Source{Topic: r.in, Partition: 2}); err != nil {
		t.Fatal(err)
	}
	r.die(t, "recovery: start resolved", 1, nil)
	r.die(t, "recovery: start resolved", 1, nil)
	r.die(t, "recovery: start committed", 1, nil)
	r.comeBack(t, "start of a new partition")
}
