package e2e

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/eosbridge/eosbridge/internal/crashpoint"
	"github.com/eosbridge/eosbridge/test/kafka"
	"github.com/eosbridge/eosbridge/test/oracle"
)

// crashScene is a kind of life: the pipeline it needs, the points it comes by,
// and what makes it come by.
type crashScene struct {
	name   string
	points []string
	times  []int64 // which arrival at the point is the last, one after the other; the small run takes the first
	plan   plan
	faults bool // the broker is behind a proxy
	again  bool // its points are those of other scenes, come by in another way
	// play, if set, is all of the scene but its end; otherwise each point is died
	// at in turn, with two more deaths on the way back.
	play func(*testing.T, *crashRig)
	// provoke makes a process that was started come by the point.
	provoke func(*testing.T, *crashRig, *Process, string)
}

// crashScenes are all lives in which the points are come by.
func crashScenes() []crashScene {
	return []crashScene{
		{
			name: "epochs", times: []int64{3, 1, 2, 7}, plan: plan{in: 2, out: 3},
			points: []string{
				"epoch: gate opened", "epoch: records handed over", "epoch: records acknowledged",
				"epoch: barrier injected", "epoch: aligned",
				"slot: ready begin, before", "slot: ready begin, after",
				"slot: committed renew, before", "slot: committed renew, after",
				"commit: client closed", "commit: client renewed",
			},
		},
		{
			name: "commits", times: []int64{2, 1, 3, 7}, plan: plan{in: 2, out: 3},
			points: []string{
				"commit: AddOffsetsToTxn ready", "commit: AddOffsetsToTxn written", "commit: AddOffsetsToTxn answered",
				"commit: TxnOffsetCommit ready", "commit: TxnOffsetCommit written", "commit: TxnOffsetCommit answered",
				"commit: EndTxn ready", "commit: EndTxn written", "commit: EndTxn answered",
				"slot: prepared end, before", "slot: prepared end, after",
				"commit: bookkeeping done",
			},
		},
		{
			// Of positions and outputs, which are on their way together, either may be there first.
			name: "positions and outputs", faults: true, times: []int64{1, 3}, plan: plan{in: 2, out: 2, preserve: true},
			points: []string{
				"slot: open flush, before", "slot: open flush, after",
				"slot: flushed offsets, before", "slot: flushed offsets, after",
				"slot: open offsets, before", "slot: open offsets, after",
				"slot: positioned flush, before", "slot: positioned flush, after",
			},
			provoke: holdUp,
		},
		{
			name: "recovery", times: []int64{1}, plan: plan{in: 2, out: 3},
			points: append([]string{"recovery: name taken"}, wayBack...),
		},
		{
			name: "without output", times: []int64{1, 2},
			plan: plan{
				in: 2, out: 3, form: keepLittle, settings: map[string]string{"BRIDGE_TRANSFORM": "filter_header(keep=yes)"},
			},
			points: []string{
				"slot: flushed carry, before", "slot: flushed carry, after",
				"settle: OffsetCommit ready", "settle: OffsetCommit written", "settle: OffsetCommit answered",
			},
		},
		{
			name: "failures", faults: true, times: []int64{1},
			plan: plan{in: 2, out: 2, preserve: true, settings: map[string]string{"BRIDGE_EPOCH_TIMEOUT": "2s"}},
			points: []string{
				"slot: open fail, before", "slot: open fail, after",
				"slot: positioned fail, before", "slot: positioned fail, after",
				"slot: flushed fail, before", "slot: flushed fail, after",
				"slot: prepared fail, before", "slot: prepared fail, after",
			},
			provoke: failEpoch,
		},
		{
			// The second recovery of one process: it has a place in the group, and gives it up first.
			name: "second recovery", faults: true, again: true, times: []int64{2},
			plan:    plan{in: 2, out: 3, settings: map[string]string{"BRIDGE_RESTART_MAX_DELAY": "500ms"}},
			points:  size([]string{"recovery: both fenced", "recovery: offsets fetched"}, slices.DeleteFunc(slices.Clone(wayBack), isFirstFence)),
			provoke: failOnce,
		},
		{
			name: "stop", times: []int64{1}, plan: plan{in: 2, out: 3},
			points:  []string{"stop: last barrier", "stop: last commit", "stop: before the leave", "stop: left"},
			provoke: terminate,
		},
		{
			name: "first start", plan: plan{in: 2, out: 3, settings: map[string]string{"BRIDGE_START": "latest"}},
			points: []string{"recovery: start resolved", "recovery: start committed"},
			play:   firstStart,
		},
		{
			name: "partition added", again: true,
			plan:   plan{in: 2, out: 3, settings: map[string]string{"BRIDGE_START": "latest"}},
			points: []string{"recovery: start resolved", "recovery: start committed"},
			play:   partitionAdded,
		},
	}
}

// wayBack are the points that every start comes by.
var wayBack = []string{
	"recovery: before the fence", "recovery: one id fenced", "recovery: both fenced",
	"recovery: joined", "recovery: partitions assigned", "recovery: offsets fetched",
}

// isFirstFence is what cannot be counted from outside: below transaction.version 2
// each epoch fences as well.
func isFirstFence(point string) bool { return point == "recovery: one id fenced" }

// keepLittle keeps the first hundred of each thousand records of a partition: at
// the tests' pace output pauses for seconds, and positions are committed without it.
func keepLittle(f *oracle.Form) {
	f.Keep = func(o oracle.Origin) bool { return o.Seq%1000 < 100 }
}

// crashPlace is a broker and a group protocol.
type crashPlace struct {
	name, version, protocol string
}

var crashPlaces = []crashPlace{
	{"TV2", kafka.V44, "classic"}, {"TV2 consumer", kafka.V44, "consumer"}, {"TV1", kafka.V39, "classic"},
}

// has says whether a life comes by the point there at all, and whether it is
// tried: KIP-848 changes nothing about what happens between two barriers.
func (w crashPlace) has(scene crashScene, point string) bool {
	switch point {
	case "commit: AddOffsetsToTxn ready", "commit: AddOffsetsToTxn written", "commit: AddOffsetsToTxn answered",
		"commit: client closed", "commit: client renewed":
		return w.version == kafka.V39
	case "slot: open offsets, before", "slot: open offsets, after", "slot: positioned flush, before", "slot: positioned flush, after",
		"slot: positioned fail, before", "slot: positioned fail, after":
		if w.version == kafka.V39 {
			return false
		}
	case "recovery: name taken":
		return w.protocol == "consumer"
	}
	if w.protocol == "classic" {
		return true
	}
	switch scene.name {
	case "recovery", "stop", "partition added":
		return true
	}
	return slices.Contains([]string{
		"epoch: barrier injected", "commit: TxnOffsetCommit written", "commit: EndTxn written", "settle: OffsetCommit written",
	}, point)
}

// points are those of a scene that are tried there.
func (w crashPlace) points(scene crashScene) []string {
	return slices.DeleteFunc(slices.Clone(scene.points), func(point string) bool { return !w.has(scene, point) })
}

// wayBack are the points that every start comes by there.
func (w crashPlace) wayBack() []string {
	if w.protocol == "consumer" {
		return append([]string{"recovery: name taken"}, wayBack...)
	}
	return wayBack
}

// TestCrashPlan: every point of the table is died at somewhere, those apart that
// the table calls unreached.
func TestCrashPlan(t *testing.T) {
	tried := map[string]bool{}
	for _, scene := range crashScenes() {
		for _, point := range scene.points {
			if scene.again {
				continue
			}
			if tried[point] {
				t.Errorf("%q is in two scenes", point)
			}
			tried[point] = slices.ContainsFunc(crashPlaces, func(w crashPlace) bool { return w.has(scene, point) })
		}
	}
	for _, point := range crashpoint.Points() {
		if tried[point] == slices.Contains(crashpoint.Unreached(), point) {
			t.Errorf("%q: tried %v", point, tried[point])
		}
		delete(tried, point)
	}
	for point := range tried {
		t.Errorf("%q is no point", point)
	}
}

// TestCrashPointsAreNotShipped looks for the points in the binary that the other
// tests run: there is no name, no variable, and no trace of the package, not even
// of a call that did nothing. The build with the points has them all.
func TestCrashPointsAreNotShipped(t *testing.T) {
	traces := []string{"crashpoint", crashpoint.Variable}
	for _, point := range crashpoint.Points() {
		if !strings.HasPrefix(point, "slot: ") { // which are put together from the transition's names
			traces = append(traces, point)
		}
	}
	for binary, want := range map[string]bool{bridgeBinary(t): false, crashBinary(t): true} {
		code, err := os.ReadFile(binary)
		if err != nil {
			t.Fatal(err)
		}
		for _, trace := range traces {
			if bytes.Contains(code, []byte(trace)) != want {
				t.Errorf("%s: %q found: %v", binary, trace, !want)
			}
		}
	}
}

// TestCrashAtIsChecked: a point that does not exist would never be died at.
func TestCrashAtIsChecked(t *testing.T) {
	for _, told := range []string{"no point:1", "commit: EndTxn written", "commit: EndTxn written:0", "commit: EndTxn written:x"} {
		p, err := Launch(crashBinary(t), []string{crashpoint.Variable + "=" + told}, "version")
		if err != nil {
			t.Fatal(err)
		}
		exits(t, p, 2)
		if !p.Log.Contains("want point:n") {
			t.Errorf("%q: %s", told, p.Log.Tail(5))
		}
	}
}
