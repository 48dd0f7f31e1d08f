package measure

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestProcess(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	launchShell := func(script string) *process {
		p, err := launch(nil, "/bin/sh", "-c", script)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.kill)
		return p
	}
	p := launchShell("trap 'exit 0' TERM; echo ready; while :; do :; done")
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for p.stdout.String() == "" || cpuTime(p.pid()) == 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the child used no CPU")
		}
	}
	if peakMiB(p.pid()) <= 0 || residentMiB(p.pid()) <= 0 || residentMiB(p.pid()) > peakMiB(p.pid()) {
		t.Errorf("peak %v MiB, resident %v MiB", peakMiB(p.pid()), residentMiB(p.pid()))
	}
	if used, err := p.stop(ctx, nil, false); err != nil || used <= 0 {
		t.Errorf("stop: %v of CPU, %v", used, err)
	}
	p = launchShell("echo oh dear >&2; exit 3")
	<-p.exited
	if err := p.ended(); err == nil || !strings.Contains(err.Error(), "oh dear") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("ended: %v", err)
	}
	if _, err := p.stop(ctx, nil, true); err == nil {
		t.Error("stop of a child that failed: no error")
	}
	for _, anyStatus := range []bool{false, true} {
		p = launchShell("trap 'exit 143' TERM; echo ready; while :; do :; done")
		for p.stdout.String() == "" {
			select {
			case <-tick.C:
			case <-ctx.Done():
				t.Fatal("the child did not start")
			}
		}
		if _, err := p.stop(ctx, nil, anyStatus); (err == nil) != anyStatus {
			t.Errorf("status 143, any status will do: %v: error %v", anyStatus, err)
		}
	}
	if _, err := launch(nil, "/nowhere/program"); err == nil {
		t.Error("launch of nothing: no error")
	}
}

func TestTail(t *testing.T) {
	var kept tail
	for range 100 {
		_, _ = kept.Write(bytes.Repeat([]byte("x"), 1000))
	}
	_, _ = kept.Write([]byte("end\n"))
	if text := kept.String(); len(text) > tailLength || !strings.HasSuffix(text, "xend") {
		t.Errorf("%d bytes kept, ending in %q", len(text), text[len(text)-5:])
	}
}

func TestPauseIn(t *testing.T) {
	started := time.Now().Add(-100 * time.Millisecond)
	line := func(after time.Duration, message string) string {
		return fmt.Sprintf("time=%s level=INFO msg=%q\n", started.Add(after).Format(time.RFC3339Nano), message)
	}
	log := line(-time.Second, "of the life before") + line(time.Millisecond, "joining") + "no line of ours\n" +
		line(81*time.Millisecond, "assigned") + line(82*time.Millisecond, "recovered")
	if got := pauseIn(log, started); !strings.Contains(got, "joining") || !strings.Contains(got, "assigned") || !strings.HasPrefix(got, "0.08 s") {
		t.Errorf("the longest silence is %s", got)
	}
	if got := pauseIn(line(time.Millisecond, "joining"), started.Add(-time.Minute)); !strings.Contains(got, "the start") {
		t.Errorf("a silence before the first line: %s", got)
	}
	if got := pauseIn("what a JVM says\n", started); got != "no log" {
		t.Errorf("no log: %s", got)
	}
}
