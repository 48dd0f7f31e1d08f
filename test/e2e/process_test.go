package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// standInVariable makes the test's own binary behave as a process in the
// harness's tests, which need no bridge.
const standInVariable = "E2E_STAND_IN"

// standIn is that process: it says hello and ends as told.
func standIn(behaviour string) int {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	fmt.Fprintln(os.Stderr, `{"level":"INFO","msg":"state changed","state":"running"}`)
	switch behaviour {
	case "fail":
		fmt.Fprint(os.Stderr, "a last word")
		return 7
	case "term":
		<-term
		fmt.Fprintln(os.Stderr, `{"level":"INFO","msg":"state changed","state":"stopped"}`)
		return 0
	}
	select {} // until a signal that cannot be caught
}

func launchStandIn(t *testing.T, behaviour string) *Process {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := Launch(binary, []string{standInVariable + "=" + behaviour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() })
	if _, err := p.Log.Await(within(t, 20*time.Second), 0, State("running")); err != nil {
		t.Fatalf("%v\n%s", err, p.Log.Tail(20))
	}
	return p
}

func TestProcessEndsByItself(t *testing.T) {
	p := launchStandIn(t, "fail")
	if code, err := p.Wait(within(t, 20*time.Second)); code != 7 || err != nil {
		t.Errorf("status %d, %v", code, err)
	}
	if !p.Log.Contains("a last word") {
		t.Errorf("the log is cut:\n%s", p.Log.Tail(20))
	}
	if err := p.Kill(); !errors.Is(err, ErrEnded) {
		t.Errorf("kill: %v", err)
	}
	if p.Alive() {
		t.Error("alive after its end")
	}
}

func TestProcessTerminates(t *testing.T) {
	p := launchStandIn(t, "term")
	if err := p.Terminate(); err != nil {
		t.Fatal(err)
	}
	if code, err := p.Wait(within(t, 20*time.Second)); code != 0 || err != nil {
		t.Errorf("status %d, %v", code, err)
	}
	if _, err := p.Log.Await(t.Context(), 0, State("stopped")); err != nil {
		t.Error(err)
	}
}

func TestProcessIsKilled(t *testing.T) {
	p := launchStandIn(t, "stay")
	if err := p.Kill(); err != nil {
		t.Error(err)
	}
	if code, err := p.Wait(t.Context()); code != -1 || err != nil {
		t.Errorf("status %d, %v", code, err)
	}
}

// TestProcessIsFrozen: a stopped process does not even end at SIGTERM, until it goes on.
func TestProcessIsFrozen(t *testing.T) {
	p := launchStandIn(t, "term")
	if err := errors.Join(p.Stop(), p.Terminate()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(within(t, 200*time.Millisecond)); err == nil {
		t.Error("a stopped process ended")
	}
	if err := p.Continue(); err != nil {
		t.Fatal(err)
	}
	if code, err := p.Wait(within(t, 20*time.Second)); code != 0 || err != nil {
		t.Errorf("status %d, %v", code, err)
	}
}

func TestLaunchFails(t *testing.T) {
	if _, err := Launch("/nonexistent/eosbridge", nil); err == nil {
		t.Error("started nothing")
	}
}
