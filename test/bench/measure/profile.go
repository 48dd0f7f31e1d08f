package measure

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eosbridge/eosbridge/test/bench/figures"
)

// A CPU profile begins a second after the start of the process, when it is at work, and lasts some seconds.
const (
	profileAfter   = time.Second
	profileSeconds = 3
)

// profile takes a CPU profile of a child, and in the end what it has allocated, if they are asked for and the program
// offers them. done waits for it. They cost some per cent: figures of such runs are not to be kept.
func (r *Rig) profile(ctx context.Context, c *child, run figures.Run) (done func() error) {
	if r.Profiles == "" || !c.variant.Face && !c.variant.Reports {
		return func() error { return nil }
	}
	name := strings.NewReplacer(" ", "-", ",", "", "/", "-").Replace(fmt.Sprintf("%s-%s-%s-%d", run.Workload, run.Point, run.Variant, run.Round))
	stem := filepath.Join(r.Profiles, name)
	var taking errgroup.Group
	taking.Go(func() error { // ends with the profile, or the child; waited for by done
		if err := c.wait(ctx, profileAfter); err != nil {
			return err
		}
		return c.pprof.keep(ctx, fmt.Sprintf("/debug/pprof/profile?seconds=%d", profileSeconds), stem+"-cpu.pprof")
	})
	return func() error {
		if err := taking.Wait(); err != nil {
			return err
		}
		return c.pprof.keep(ctx, "/debug/pprof/allocs", stem+"-allocs.pprof")
	}
}
