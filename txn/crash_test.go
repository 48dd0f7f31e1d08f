package txn

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/eosbridge/eosbridge/internal/crashpoint"
)

// TestEveryTransitionIsAPoint: a transition that is added to the table is also died at, before and after it, and
// one that is gone is not waited for.
func TestEveryTransitionIsAPoint(t *testing.T) {
	points := map[string]bool{}
	for _, name := range crashpoint.Points() {
		if strings.HasPrefix(name, "slot: ") {
			points[name] = true
		}
	}
	for s, events := range transitions {
		for e := range events {
			for _, when := range []string{"before", "after"} {
				name := fmt.Sprintf("slot: %s %s, %s", s, e, when)
				if !points[name] {
					t.Errorf("%q is not in the table of crash points", name)
				}
				delete(points, name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(points)) {
		t.Errorf("the crash point %q belongs to no transition", name)
	}
}
