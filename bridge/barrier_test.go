package bridge

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/eosbridge/eosbridge/txn"
)

func TestAligner(t *testing.T) {
	t.Parallel()
	type step struct {
		pass, drop int // lane
		epoch      txn.Epoch
		aligned    bool
		err        string
	}
	const none = -1
	for _, tc := range []struct {
		name    string
		lanes   []int
		aligned bool // by the start alone
		steps   []step
	}{
		{name: "no lanes", aligned: true},
		{name: "one lane", lanes: []int{7}, steps: []step{{pass: 7, drop: none, epoch: 5, aligned: true}}},
		{name: "the last one aligns", lanes: []int{0, 1, 2}, steps: []step{
			{pass: 1, drop: none, epoch: 5},
			{pass: 0, drop: none, epoch: 5},
			{pass: 2, drop: none, epoch: 5, aligned: true},
		}},
		{name: "dropped instead of passed", lanes: []int{0, 1}, steps: []step{
			{pass: 1, drop: none, epoch: 5},
			{pass: none, drop: 0, aligned: true},
		}},
		{name: "dropped twice, or unknown, changes nothing", lanes: []int{0, 1}, steps: []step{
			{pass: none, drop: 0},
			{pass: none, drop: 0},
			{pass: none, drop: 9},
			{pass: 1, drop: none, epoch: 5, aligned: true},
		}},
		{name: "dropped after it passed", lanes: []int{0, 1}, steps: []step{
			{pass: 0, drop: none, epoch: 5},
			{pass: none, drop: 0},
			{pass: 1, drop: none, epoch: 5, aligned: true},
		}},
		{name: "late barriers are ignored", lanes: []int{0}, steps: []step{
			{pass: 0, drop: none, epoch: 4},
			{pass: 3, drop: none, epoch: 1},
			{pass: 0, drop: none, epoch: 5, aligned: true},
			{pass: 0, drop: none, epoch: 4},
		}},
		{name: "twice", lanes: []int{0, 1}, steps: []step{
			{pass: 0, drop: none, epoch: 5},
			{pass: 0, drop: none, epoch: 5, err: "twice"},
		}},
		{name: "after it was dropped", lanes: []int{0, 1}, steps: []step{
			{pass: none, drop: 0},
			{pass: 0, drop: none, epoch: 5, err: "twice"},
		}},
		{name: "before it started", lanes: []int{0}, steps: []step{{pass: 0, drop: none, epoch: 6, err: "before it started"}}},
		{name: "a lane of another epoch", lanes: []int{0}, steps: []step{{pass: 1, drop: none, epoch: 5, err: "not part of epoch 5"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var a Aligner
			aligned, err := a.Start(5, tc.lanes)
			if err != nil || aligned != tc.aligned {
				t.Fatalf("start: aligned %v, %v", aligned, err)
			}
			for i, s := range tc.steps {
				if s.pass == none {
					if aligned := a.Drop(s.drop); aligned != s.aligned {
						t.Fatalf("step %d: aligned %v", i, aligned)
					}
					continue
				}
				aligned, err := a.Pass(s.pass, Barrier{s.epoch})
				if aligned != s.aligned || (err != nil) != (s.err != "") {
					t.Fatalf("step %d: aligned %v, %v", i, aligned, err)
				}
				if err != nil && !strings.Contains(err.Error(), s.err) {
					t.Fatalf("step %d: %v, want %q", i, err, s.err)
				}
			}
		})
	}
}

func TestAlignerStart(t *testing.T) {
	t.Parallel()
	var a Aligner
	if _, err := a.Start(0, nil); err == nil {
		t.Error("epochs count from 1, yet 0 was started")
	}
	if _, err := a.Start(2, []int{1, 1}); err == nil {
		t.Error("a lane was named twice")
	}
	for _, epoch := range []txn.Epoch{2, 1, -3} {
		if _, err := a.Start(epoch, nil); err == nil {
			t.Errorf("epoch %d was started after epoch 2", epoch)
		}
	}
	if _, err := a.Start(3, []int{0, 1}); err != nil {
		t.Error(err)
	}
	if aligned, err := a.Start(9, []int{0}); aligned || err != nil {
		t.Errorf("a newer epoch gives up the older one: %v, %v", aligned, err)
	}
	if aligned, err := a.Pass(1, Barrier{3}); aligned || err != nil {
		t.Errorf("a barrier of the epoch that was given up: %v, %v", aligned, err)
	}
	if aligned, err := a.Pass(0, Barrier{9}); !aligned || err != nil {
		t.Errorf("epoch 9: %v, %v", aligned, err)
	}
}

// TestAlignerTraces replays testdata/aligner/*.txt: a command per line, its outcome behind the arrow. Run with
// -update to write the outcomes anew.
func TestAlignerTraces(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/aligner/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			was, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var a Aligner
			var is strings.Builder
			for line := range strings.Lines(string(was)) {
				line = strings.TrimRight(line, "\n")
				command, _, _ := strings.Cut(line, " -> ")
				if command == "" || command[0] == '#' {
					is.WriteString(line + "\n")
					continue
				}
				fmt.Fprintf(&is, "%s -> %s\n", command, replay(t, &a, command))
			}
			if *update {
				if err := os.WriteFile(file, []byte(is.String()), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if is.String() != string(was) {
				t.Errorf("%s: the outcome has changed (run with -update and look at the difference):\n%s", file, is.String())
			}
		})
	}
}

// replay runs one command of a trace.
func replay(t *testing.T, a *Aligner, command string) string {
	t.Helper()
	words := strings.Fields(command)
	number := func(i int) int {
		n, err := strconv.Atoi(words[i])
		if err != nil {
			t.Fatalf("%q: %v", command, err)
		}
		return n
	}
	var aligned bool
	var err error
	switch {
	case words[0] == "start" && len(words) >= 3 && words[2] == "lanes":
		var lanes []int
		for i := 3; i < len(words); i++ {
			lanes = append(lanes, number(i))
		}
		aligned, err = a.Start(txn.Epoch(number(1)), lanes)
	case words[0] == "pass" && len(words) == 3:
		aligned, err = a.Pass(number(1), Barrier{txn.Epoch(number(2))})
	case words[0] == "drop" && len(words) == 2:
		aligned = a.Drop(number(1))
	default:
		t.Fatalf("%q: want start EPOCH lanes LANE…, pass LANE EPOCH or drop LANE", command)
	}
	switch {
	case err != nil:
		return err.Error()
	case aligned:
		return "aligned"
	default:
		return "waits"
	}
}

// FuzzAligner drives an aligner with commands from bytes and compares it with sets of lanes: an epoch is aligned
// exactly once, and never before all of its lanes.
func FuzzAligner(f *testing.F) {
	f.Add([]byte{0x10, 0x01, 0x03, 0x40, 0x41})
	f.Add([]byte{0x10, 0x01, 0x07, 0x40, 0x81, 0x42, 0x42})
	f.Add([]byte{0x10, 0x01, 0x00, 0x10, 0x05, 0x0f, 0x43, 0xc0})
	f.Fuzz(func(t *testing.T, commands []byte) {
		m := &alignerModel{t: t, times: map[txn.Epoch]int{}}
		for len(commands) > 0 {
			command := commands[0]
			commands = commands[1:]
			lane := int(command & 0x07)
			switch command >> 6 {
			case 0: // the next two bytes: how far the epoch rises, and the set of lanes
				if len(commands) < 2 {
					return
				}
				m.start(txn.Epoch(commands[0]%4)-1, commands[1])
				commands = commands[2:]
			case 1:
				m.pass(lane)
			case 2:
				m.drop(lane)
			default:
				m.passOther(lane, m.epoch+txn.Epoch(lane)-3)
			}
		}
	})
}

// alignerModel is what an aligner must be like, in sets.
type alignerModel struct {
	t       *testing.T
	is      Aligner
	epoch   txn.Epoch
	waiting map[int]bool
	times   map[txn.Epoch]int // how often an epoch was reported as aligned
}

// check holds a report against the set of lanes that are missing; before is how many were.
func (m *alignerModel) check(what string, aligned bool, before int) {
	m.t.Helper()
	if aligned {
		m.times[m.epoch]++
	}
	switch {
	case m.times[m.epoch] > 1:
		m.t.Fatalf("%s: epoch %d aligned twice", what, m.epoch)
	case aligned && len(m.waiting) > 0:
		m.t.Fatalf("%s: epoch %d aligned while %d lanes are missing", what, m.epoch, len(m.waiting))
	case !aligned && before > 0 && len(m.waiting) == 0:
		m.t.Fatalf("%s: the last lane of epoch %d did not align it", what, m.epoch)
	}
}

func (m *alignerModel) start(step txn.Epoch, set byte) {
	var lanes []int
	for l := range 8 {
		if set&(1<<l) != 0 {
			lanes = append(lanes, l)
		}
	}
	aligned, err := m.is.Start(m.epoch+step, lanes)
	if (err != nil) != (step < 1) || err != nil && aligned {
		m.t.Fatalf("start of epoch %d after %d: aligned %v, %v", m.epoch+step, m.epoch, aligned, err)
	}
	if err != nil {
		return
	}
	m.epoch += step
	m.waiting = map[int]bool{}
	for _, l := range lanes {
		m.waiting[l] = true
	}
	if aligned != (len(lanes) == 0) {
		m.t.Fatalf("start of epoch %d with lanes %v: aligned %v", m.epoch, lanes, aligned)
	}
	m.check("start", aligned, 0)
}

func (m *alignerModel) pass(lane int) {
	before := len(m.waiting)
	aligned, err := m.is.Pass(lane, Barrier{m.epoch})
	if (err == nil) != m.waiting[lane] || err != nil && aligned {
		m.t.Fatalf("pass of lane %d (waiting: %v): aligned %v, %v", lane, m.waiting[lane], aligned, err)
	}
	delete(m.waiting, lane)
	m.check("pass", aligned, before)
}

func (m *alignerModel) drop(lane int) {
	before := len(m.waiting)
	aligned := m.is.Drop(lane)
	delete(m.waiting, lane)
	m.check("drop", aligned, before)
}

func (m *alignerModel) passOther(lane int, other txn.Epoch) {
	if other == m.epoch {
		m.pass(lane)
		return
	}
	aligned, err := m.is.Pass(lane, Barrier{other})
	if aligned || (err != nil) != (other > m.epoch) {
		m.t.Fatalf("the barrier of epoch %d in epoch %d: aligned %v, %v", other, m.epoch, aligned, err)
	}
}
