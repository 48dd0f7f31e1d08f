package txn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/offsets"
)

// traces is where the model keeps its counterexamples: behaviours of a client that lacks a guard.
const traces = "../test/model/testdata"

// cue is one line of a trace, see test/model/trace.go.
type cue struct {
	line   string
	by     int
	do     string
	slot   int // -1: none
	at     map[int32]int64
	answer string
}

func readTrace(t *testing.T, name string) []cue {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(traces, name+".trace"))
	if err != nil {
		t.Fatal(err)
	}
	var all []cue
	for _, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		c := cue{line: line, slot: -1, at: map[int32]int64{}}
		what, answer, _ := strings.Cut(line, " : ")
		words := strings.Fields(what)
		c.answer, c.do = answer, words[1]
		c.by = number(t, words[0])
		for i, w := range words[2:] {
			if p, n, ok := strings.Cut(w, ":"); ok {
				c.at[int32(number(t, p))] = int64(number(t, n))
			} else if w == "slot" {
				c.slot = number(t, words[i+3])
			}
		}
		all = append(all, c)
	}
	return all
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// replay says what the code does with a trace of the model.
type replay struct {
	how string // for people
	old bool   // transaction.version below 2
	// at is the line that only a client without the guard goes past, and says how the code refuses it. The first line that
	// begins so; with ">" the first one after another. Empty: the code plays every line, and the outcome is exact.
	at   string
	says func(s *stage, p *player, err error)
}

// broken wants status 70.
func broken(words ...string) func(*stage, *player, error) {
	return func(s *stage, _ *player, err error) { expectBroken(s.t, err, words...) }
}

// class wants an error of a class, and no request of this kind.
func class(want error, never kmsg.Key) func(*stage, *player, error) {
	return func(s *stage, _ *player, err error) {
		expectClass(s.t, err, want)
		s.expectCount(never, 0)
	}
}

// words wants an error that says so.
func words(want string) func(*stage, *player, error) {
	return func(s *stage, _ *player, err error) {
		if err == nil || !strings.Contains(err.Error(), want) {
			s.t.Errorf("%v does not say %q", err, want)
		}
	}
}

// refusedOnce wants positions to have been sent once, with the credential of their barrier, and nothing ended by it.
func refusedOnce(s *stage, p *player, err error) {
	expectClass(s.t, err, ErrInDoubt)
	if !errors.Is(err, kerr.IllegalGeneration) {
		s.t.Errorf("not for its generation: %v", err)
	}
	barrier, sent := p.cps[p.on[0]].Credential, 0
	for _, c := range s.txnOffsetCommits() {
		if c.MemberID != barrier.MemberID {
			continue // somebody else's
		}
		if sent++; c.Generation != barrier.Generation {
			s.t.Errorf("sent with generation %d, the barrier's is %d", c.Generation, barrier.Generation)
		}
	}
	if sent != 1 {
		s.t.Errorf("sent %d times", sent)
	}
}

// unstable wants the positions to be held back.
func unstable(s *stage, _ *player, err error) {
	if !errors.Is(err, kerr.UnstableOffsetCommit) || !errors.Is(err, context.DeadlineExceeded) {
		s.t.Errorf("fetch: %v, want it to wait for stable positions", err)
	}
}

// settlesNothing wants Settle to have found nothing, and sent nothing.
func settlesNothing(s *stage, _ *player, err error) {
	if !errors.Is(err, errNothing) {
		s.t.Errorf("settle: %v, want nothing to do", err)
	}
	s.expectCount(kmsg.OffsetCommit, 0)
}

// promiseFailed wants the epoch to be over, for Commit too.
func promiseFailed(s *stage, p *player, err error) {
	if !errors.Is(err, kerr.InvalidRecord) {
		s.t.Errorf("pre-commit: %v", err)
	}
	_, err = p.r.Commit(s.ctx, p.cps[p.on[0]])
	expectBroken(s.t, err, "failed")
	s.expectCount(kmsg.TxnOffsetCommit, 0)
	s.expectCount(kmsg.EndTxn, 0)
}

// tested wants one repetition, with the pair that was tested, and that the group has moved on meanwhile.
func tested(s *stage, p *player, err error) {
	expectClass(s.t, err, ErrInDoubt)
	barrier := p.cps[p.on[0]].Credential
	s.expectGenerations(barrier, Credential{MemberID: barrier.MemberID, Generation: p.cred.Generation - 1})
	s.expectCount(kmsg.EndTxn, 0)
}

// onceInDoubt wants an unanswered plain commit to have been sent once.
func onceInDoubt(s *stage, _ *player, err error) {
	expectClass(s.t, err, ErrInDoubt)
	s.expectCount(kmsg.OffsetCommit, 1)
}

var replays = map[string]replay{
	"begin-before-flush":          {how: "Ring.Begin refuses", at: "1 Begin > 1 Begin", says: broken("epoch 3 begins before epoch 2 is flushed")},
	"commit-before-flush":         {how: "Ring.Commit refuses a slot that is not flushed", at: "1 EndTxn", says: broken("epoch 2", "open")},
	"commit-out-of-order":         {how: "Ring.Commit refuses what is not due", at: "1 TxnOffsetCommit slot 1", says: broken("epoch 3 while epoch 2 is due")},
	"offsets-before-the-last-end": {how: "Ring.Commit refuses while the last EndTxn is not answered", at: "1 TxnOffsetCommit slot 1", says: broken("epoch 3 while epoch 2 is due")},
	"end-after-an-unknown-end":    {how: "Ring.Commit refuses after an unanswered EndTxn", at: "1 EndTxn > 1 TxnOffsetCommit slot 1", says: broken("epoch 3 while epoch 2 is due")},
	"promise-failed":              {how: "Ring.PreCommit fails, and nothing is sent", at: "1 Produce", says: promiseFailed},
	"offsets-failed":              {how: "Ring.Commit ends with the lost request, without EndTxn", at: "1 TxnOffsetCommit", says: class(ErrInDoubt, kmsg.EndTxn)},
	"positions-from-memory":       {how: "the broker's position is past the epoch: reading cannot go on there", at: "1 Join > 1 Begin", says: words("not at 1")},

	"unstable-positions":         {how: "offsets.Committed waits (EndTxn held: kfake has no markers)", at: "0 Move > 2 Fetch", says: unstable},
	"removed-unstable-positions": {how: "offsets.Committed waits for the open transaction", at: "1 Lost > 1 Fetch", says: unstable},

	"late-credential":          {how: "Commit sends the barrier's credential only, and is refused", at: "1 Lost > 1 TxnOffsetCommit slot 0", says: refusedOnce},
	"exception-although-lost":  {how: "no repetition after Lost, under the same member id", at: "1 Lost > 1 TxnOffsetCommit slot 0", says: refusedOnce},
	"revoked-epoch-kept":       {how: "no repetition after a revocation has returned", at: "0 Move > 1 TxnOffsetCommit", says: refusedOnce},
	"no-drain-late-credential": {how: "no repetition after a revocation has returned", at: "0 Move > 1 TxnOffsetCommit", says: refusedOnce},
	"pair-read-after-the-test": {how: "the repetition has the pair of the test, which the removal has made stale", at: "1 TxnOffsetCommit slot 0", says: tested},
	"start-of-all-partitions":  {how: "bridge, TestStartNamesOnlyItsOwn"},

	"carried-survives-a-revocation":    {how: "Ring.Forget: the last line settles its own partition only"},
	"unclear-plain-commit-same-member": {how: "the new member id refuses the late commit"},
	"plain-commit-past-an-open-epoch":  {how: "Ring.Commit refuses what is not due; nothing is carried", at: "1 Carry", says: broken("epoch 3 while epoch 2 is due")},
	"plain-commit-sent-again":          {how: "an unanswered plain commit is not sent again", at: "1 Settle", says: onceInDoubt},
	"carried-twice":                    {how: "Settle finds nothing: the transaction took it", at: "1 EndTxn > 1 Settle", says: settlesNothing},
	"settle-beside-a-commit":           {how: "Settle finds nothing: the transaction took it", at: "1 TxnOffsetCommit > 1 Settle", says: settlesNothing},
	"version-1-end-arrives-late":       {how: "the renewed slot has another producer epoch: the copy is refused", old: true},
	"version-1-offsets-arrive-late":    {how: "the same for TxnOffsetCommit", old: true},
	"no-fence-unstable-positions":      {how: "Open fences both ids before it answers; the position is decided", at: "1 Join > 1 Fetch", says: words("not 1")},
	"half-a-fence-unstable-positions":  {how: "Open fences both ids before it answers; the position is decided", at: "1 Join > 1 Fetch", says: words("not 2")},
}

// TestTraces replays what the model found against protocols that lack a guard, on the real ring: the step that only the
// missing guard allows is refused, or does no harm, and outputs and positions agree in the end. (kfake, see stage.)
func TestTraces(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(traces, "*.trace"))
	if err != nil || len(files) == 0 {
		t.Fatal("no traces:", err)
	}
	if len(files) != len(replays) {
		t.Errorf("%d traces, %d replays", len(files), len(replays))
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".trace")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, ok := replays[name]
			if !ok {
				t.Fatal("nobody replays it")
			}
			t.Log(r.how)
			if elsewhere, ok := strings.CutPrefix(r.how, "bridge, "); ok {
				expectTest(t, "../bridge", elsewhere)
				return
			}
			if r.old {
				newStage(newOldBed(t), name).run(r)
				return
			}
			newStage(newBed(t), name).run(r)
			t.Run("batches", func(t *testing.T) { newStage(newBatchBed(t), name).run(r) })
		})
	}
}

func (s *stage) run(r replay) {
	s.t.Helper()
	at := s.find(r.at)
	for i, c := range s.cues {
		s.now = i
		err := s.play(c)
		if i == at {
			r.says(s, s.players[c.by], err)
			break
		}
		if lost := strings.HasPrefix(c.answer, "lost"); lost != (err != nil) {
			s.t.Fatalf("line %d, %s: %v", i+1, c.line, err)
		}
	}
	s.expectExact()
}

// find answers the index of a line, -1 for none.
func (s *stage) find(at string) int {
	found := -1
	for _, prefix := range strings.Split(at, " > ") {
		if prefix == "" {
			continue
		}
		next := slices.IndexFunc(s.cues[found+1:], func(c cue) bool { return strings.HasPrefix(c.line, prefix) })
		if next < 0 {
			s.t.Fatalf("no line of the trace is %q", at)
		}
		found += 1 + next
	}
	return found
}

// expectExact ends everything as a restart does, and wants outputs and positions to agree.
func (s *stage) expectExact() {
	s.t.Helper()
	for _, p := range s.players {
		p.r.Close()
		p.open()
	}
	for _, lands := range s.under {
		lands()
	}
	s.wire.mend()
	got, err := offsets.Committed(s.ctx, s.adm, group)
	if err != nil {
		s.t.Fatal(err)
	}
	var want []string
	for value := range s.made {
		var p int32
		var k int64
		if _, err := fmt.Sscanf(value, "%d/%d", &p, &k); err != nil {
			s.t.Fatal(err)
		}
		if k <= got[position(p-1)].Offset {
			want = append(want, value)
		}
	}
	s.expectOutput(want...)
	s.expectReleased()
}

// expectTest wants a test to exist in the files of a folder.
func expectTest(t *testing.T, dir, name string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(t *testing.T) {") {
			return
		}
	}
	t.Errorf("%s has no %s", dir, name)
}

// TestModelNames: states, events and transitions of the model are those of the code, and so are the calls that its steps
// are named after.
func TestModelNames(t *testing.T) {
	text, err := os.ReadFile("../test/model/Ring.tla")
	if err != nil {
		t.Fatal(err)
	}
	spec := string(text)
	value := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^((?:State|Event)\w+) +== "(\w+)"$`).FindAllStringSubmatch(spec, -1) {
		value[m[1]] = m[2]
	}
	var states, events []string
	for s := StateReady; s <= StateFailed; s++ {
		states = append(states, s.String())
	}
	for e := EventBegin; e <= EventFail; e++ {
		events = append(events, e.String())
	}
	for name, v := range value {
		if kind, ok := strings.CutPrefix(name, "State"); ok && (strings.ToLower(kind) != v || !slices.Contains(states, v)) {
			t.Errorf("%s == %q is no state", name, v)
		} else if kind, ok := strings.CutPrefix(name, "Event"); ok && (strings.ToLower(kind) != v || !slices.Contains(events, v)) {
			t.Errorf("%s == %q is no event", name, v)
		}
	}
	if len(value) != len(states)+len(events) {
		t.Errorf("the model has %d states and events, the code %d", len(value), len(states)+len(events))
	}
	modelled := map[string]bool{}
	for _, m := range regexp.MustCompile(`<<(State\w+), (Event\w+), (State\w+)>>`).FindAllStringSubmatch(spec, -1) {
		modelled[value[m[1]]+" "+value[m[2]]+" "+value[m[3]]] = true
	}
	for s, row := range transitions {
		for e, to := range row {
			key := s.String() + " " + e.String() + " " + to.String()
			if !modelled[key] {
				t.Errorf("the model lacks %s", key)
			}
			delete(modelled, key)
		}
	}
	for key := range modelled {
		t.Errorf("the code lacks %s", key)
	}
	var r Participant = (*Ring)(nil)
	_, _, _, _, _ = r.Begin, r.Produce, r.Settle, r.CommitStart, r.Forget // the steps of the same names
	for _, step := range []string{"Begin", "Produce", "Settle", "CommitStart", "TxnOffsetCommit", "EndTxn"} {
		if !strings.Contains(spec, "\n"+step+" ==") {
			t.Errorf("the model has no step %s", step)
		}
	}
}
