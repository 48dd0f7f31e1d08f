package e2e

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// cast are the soak's processes, each kept running as systemd would while its
// name is wanted: except after status 75, if another one of its name lives.
type cast struct {
	t *testing.T
	r *rig

	mu       sync.Mutex
	wanted   map[string]bool
	live     []*actor
	gone     []*actor // the last ones, for the log of a failure
	starts   int
	killed   int
	ends     map[string]int // how processes ended
	problems []string
	wg       sync.WaitGroup
}

// actor is one process.
type actor struct {
	*Process
	name   string
	asked  bool // to end, by SIGTERM
	killed bool
	frozen bool
	rival  bool // another process of its name lived beside it
}

func newCast(t *testing.T, r *rig) *cast {
	c := &cast{t: t, r: r, wanted: make(map[string]bool), ends: make(map[string]int)}
	t.Cleanup(c.curtain)
	return c
}

// want starts a process and keeps the name running.
func (c *cast) want(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted[name] = true
	c.launch(name)
}

// launch is called with mu held.
func (c *cast) launch(name string) {
	p, err := Launch(bridgeBinary(c.t), c.r.environ(name, nil), "run")
	if err != nil {
		c.problems = append(c.problems, err.Error())
		return
	}
	c.starts++
	a := &actor{Process: p, name: name}
	for _, other := range c.live {
		if other.name == name {
			a.rival, other.rival = true, true
		}
	}
	c.live = append(c.live, a)
	c.wg.Go(func() { // ends with the process
		<-a.Exited()
		code, _ := a.Wait(context.Background()) // it has ended
		c.ended(a, code)
	})
}

// ended judges how a process ended, and starts the next one.
func (c *cast) ended(a *actor, code int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live = slices.DeleteFunc(c.live, func(l *actor) bool { return l == a })
	c.gone = append(c.gone, a)
	c.gone = c.gone[max(0, len(c.gone)-8):]
	how := fmt.Sprintf("status %d", code)
	switch {
	case code == -1 && a.killed:
		how = "SIGKILL"
	case code == -1 && a.asked:
		how = "SIGTERM before it could take it"
	case code == 0 && a.asked, code == 75 && a.rival:
	case code == 1 && a.asked: // the stop's deadline was over, or its last commit failed
		how = "status 1 after SIGTERM"
	default:
		c.problems = append(c.problems, fmt.Sprintf("%s ended with status %d by itself: %s", a.name, code, a.Log.Tail(3)))
	}
	c.ends[how]++
	if c.wanted[a.name] && c.find(a.name) == nil {
		c.launch(a.name)
	}
}

// find is the newest living process of a name, nil if there is none. It is called
// with mu held.
func (c *cast) find(name string) *actor {
	for _, a := range slices.Backward(c.live) {
		if a.name == name {
			return a
		}
	}
	return nil
}

// does something to the newest process of a name, or of the one that is always
// there if that guest is away, and says whether it could.
func (c *cast) does(name string, what func(*actor) error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := cmp.Or(c.find(name), c.find("a"))
	return a != nil && what(a) == nil
}

func (c *cast) kill(name string) bool { return c.does(name, c.kills) }

func (c *cast) kills(a *actor) error {
	a.killed = true
	c.killed++
	return a.Signal(syscall.SIGKILL)
}

func (c *cast) terminate(name string) bool { return c.does(name, c.asks) }

func (c *cast) asks(a *actor) error {
	a.asked = true
	return a.Terminate()
}

// stop freezes the process; the returned function lets it go on.
func (c *cast) stop(name string) (goOn func(), ok bool) {
	ok = c.does(name, func(a *actor) error {
		if a.frozen {
			return ErrEnded // it has its turn already
		}
		a.frozen = true
		goOn = func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			a.frozen = false
			_ = a.Continue() // it may have been killed
		}
		return a.Stop()
	})
	return goOn, ok
}

// leave ends a guest.
func (c *cast) leave(name string, hard bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.wanted, name)
	switch a := c.find(name); {
	case a == nil: // it has ended by another act
	case hard:
		_ = c.kills(a)
	default:
		_ = c.asks(a)
	}
}

// everybodyLeaves ends all processes in order and waits for them.
func (c *cast) everybodyLeaves(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	clear(c.wanted)
	for _, a := range c.live {
		_ = a.Continue()
		a.asked = true
		_ = a.Terminate()
	}
	c.mu.Unlock()
	done := make(chan struct{})
	go func() { // ended by the last process, at the latest by curtain
		c.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-within(t, patience).Done():
		t.Fatal("processes that were asked to end still run")
	}
}

// curtain ends what still runs and shows the last lives of a failed soak.
func (c *cast) curtain() {
	c.mu.Lock()
	clear(c.wanted)
	shown := slices.Concat(c.gone, c.live)
	for _, a := range c.live {
		a.killed = true
		_ = a.Signal(syscall.SIGKILL)
	}
	c.mu.Unlock()
	c.wg.Wait()
	if c.t.Failed() {
		for _, a := range shown {
			c.t.Logf("--- bridge %s, started %s:\n%s", a.name, a.Started.Format("15:04:05.000"), a.Log.Tail(2000))
		}
	}
}

// trouble is what processes did that none should do.
func (c *cast) trouble() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.problems, "\n")
}

// String is how processes ended.
func (c *cast) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var text strings.Builder
	fmt.Fprintf(&text, "%d processes:", c.starts)
	for _, how := range slices.Sorted(maps.Keys(c.ends)) {
		fmt.Fprintf(&text, " %s %d,", how, c.ends[how])
	}
	return strings.TrimSuffix(text.String(), ",")
}
