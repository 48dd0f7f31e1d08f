package e2e

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func logOf(lines ...string) *Log {
	l := NewLog()
	for _, line := range lines {
		if _, err := l.Write([]byte(line + "\n")); err != nil {
			panic(err) // it never fails
		}
	}
	return l
}

func step(message, epoch string) string {
	return `{"time":"2026-01-01T00:00:00Z","level":"DEBUG","msg":"` + message + `","epoch":` + epoch + `}`
}

func TestLogParses(t *testing.T) {
	l := logOf(
		`{"level":"WARN","msg":"epoch aborted","epoch":7,"class":"in doubt","err":"x"}`,
		`{"level":"INFO","msg":"state changed","state":"running"}`,
		`panic: not JSON`,
	)
	events := l.Events(0)
	if e := events[0]; e.Message != "epoch aborted" || e.Level != "WARN" || e.Epoch != 7 || e.Class != "in doubt" {
		t.Errorf("got %+v", e)
	}
	if !State("running")(events[1]) || State("stopped")(events[1]) {
		t.Errorf("got %+v", events[1])
	}
	if e := events[2]; e.Message != "panic: not JSON" {
		t.Errorf("got %+v", e)
	}
	if l.Count("epoch aborted") != 1 || !l.Contains("not JSON") || l.Contains("absent") || l.Len() != 3 {
		t.Error("counts are wrong")
	}
}

// TestLogJoinsPieces: lines arrive in any pieces, and the last may have no end.
func TestLogJoinsPieces(t *testing.T) {
	l := NewLog()
	for _, piece := range []string{`{"msg":`, `"one"}` + "\n" + `{"ms`, `g":"two"}` + "\nthr", "ee"} {
		if n, err := l.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatalf("wrote %d, %v", n, err)
		}
	}
	if l.Len() != 2 {
		t.Fatalf("%d whole lines, want 2", l.Len())
	}
	l.close()
	if tail := l.Tail(2); !strings.Contains(tail, "... 1 lines before") || !strings.HasSuffix(tail, "\nthree\n") {
		t.Errorf("tail is %q", tail)
	}
}

// TestTailLeavesOutTheClient: its debug lines are many.
func TestTailLeavesOutTheClient(t *testing.T) {
	l := logOf("one", `{"level":"DEBUG","msg":"kafka client","event":"x"}`, `{"level":"WARN","msg":"kafka client","event":"y"}`)
	if got := l.Tail(5); !strings.HasPrefix(got, "one\n") || strings.Contains(got, `"x"`) || !strings.Contains(got, `"y"`) {
		t.Errorf("tail is %q", got)
	}
}

func TestLogAwait(t *testing.T) {
	l := logOf(step(StepCommitted, "1"))
	ctx := within(t, 10*time.Second)
	if e, err := l.Await(ctx, 0, Message(StepCommitted)); err != nil || e.Epoch != 1 {
		t.Errorf("got %+v, %v", e, err)
	}
	mark, found := l.Len(), make(chan Event)
	go func() {
		e, _ := l.Await(ctx, mark, Message(StepCommitted))
		found <- e
	}()
	_, _ = l.Write([]byte(step(StepBarrier, "2") + "\n"))
	_, _ = l.Write([]byte(step(StepCommitted, "2") + "\n"))
	if e := <-found; e.Epoch != 2 {
		t.Errorf("got %+v, want the first after the mark", e)
	}
	l.close()
	if _, err := l.Await(ctx, 0, Message("absent")); !errors.Is(err, ErrSilent) {
		t.Errorf("a complete log without the line: %v", err)
	}
	if _, err := logOf().Await(within(t, time.Millisecond), 0, Message("absent")); err == nil || errors.Is(err, ErrSilent) {
		t.Errorf("a silent process: %v", err)
	}
}

// TestLastStep follows two epochs at a time: the older one is what a kill hits.
func TestLastStep(t *testing.T) {
	var lines []string
	expect := func(want string) {
		t.Helper()
		if got := logOf(lines...).LastStep(); got != want {
			t.Errorf("after %q: %q, want %q", lines[max(0, len(lines)-1):], got, want)
		}
	}
	expect(StepNone)
	for _, s := range []struct{ line, want string }{
		{`{"msg":"fenced"}`, StepNone},
		{step(StepBarrier, "1"), StepBarrier},
		{step(StepAligned, "1"), StepAligned},
		{step(StepFlushed, "1"), StepFlushed},
		{step(StepBarrier, "2"), StepFlushed},
		{step(StepOffsets, "1"), StepOffsets},
		{step(StepAligned, "2"), StepOffsets},
		{step(StepCommitted, "1"), StepAligned},
		{step(StepFlushed, "2"), StepFlushed},
		{step(StepCommitted, "2"), StepCommitted},
		{step(StepBarrier, "3"), StepBarrier},
		{`{"msg":"epoch aborted","level":"WARN","epoch":3}`, StepNone},
		{step(StepBarrier, "4"), StepBarrier},
	} {
		lines = append(lines, s.line)
		expect(s.want)
	}
}

// TestLogOutcomes: only what the bridge is sure of, and only of transactions that
// it has named.
func TestLogOutcomes(t *testing.T) {
	sent := func(epoch, producerEpoch string) string {
		return `{"msg":"epoch offsets sent","epoch":` + epoch + `,"producer_id":7,"producer_epoch":` + producerEpoch + `}`
	}
	aborted := func(epoch, class string) string {
		return `{"msg":"epoch aborted","epoch":` + epoch + `,"class":"` + class + `"}`
	}
	got := logOf(
		step(StepCommitted, "1"), // carried: nothing was sent
		sent("2", "3"), step(StepCommitted, "2"),
		sent("3", "4"), step(StepFlushed, "3"), aborted("3", "aborted"), aborted("4", "aborted"),
		sent("5", "6"), aborted("5", "in doubt"), step(StepCommitted, "5"),
		sent("6", "8"), // died here
	).Outcomes()
	want := []Outcome{
		{Epoch: 2, ProducerID: 7, ProducerEpoch: 3, Committed: true},
		{Epoch: 3, ProducerID: 7, ProducerEpoch: 4},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
