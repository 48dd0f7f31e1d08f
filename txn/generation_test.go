package txn

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestRenewed: after a stale generation the credential of the moment counts, if nothing but the generation has
// changed since the barrier. The new one may still be on its way.
func TestRenewed(t *testing.T) {
	old := Credential{MemberID: "m", Generation: 5, Lost: 1, Revoked: 2}
	changed := func(change func(*Credential)) Credential {
		c := old
		change(&c)
		return c
	}
	newer := changed(func(c *Credential) { c.Generation = 6 })
	for _, tc := range []struct {
		name string
		seen []Credential // one look after the other; the last stays
		ok   bool
	}{
		{"new already", []Credential{newer}, true},
		{"new at the third look", []Credential{old, old, newer}, true},
		{"never", []Credential{old}, false},
		{"another member id", []Credential{changed(func(c *Credential) { c.MemberID, c.Generation = "n", 6 })}, false},
		{"lost", []Credential{changed(func(c *Credential) { c.Lost, c.Generation = 2, 6 })}, false},
		{"revoked", []Credential{changed(func(c *Credential) { c.Revoked, c.Generation = 3, 6 })}, false},
		{"lost while it waits", []Credential{old, old, changed(func(c *Credential) { c.Lost, c.Generation = 2, 6 })}, false},
		{"revoked while it waits", []Credential{old, old, changed(func(c *Credential) { c.Revoked = 3 }), newer}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				looks := 0
				g := &groupProgress{present: func() Credential {
					looks++
					return tc.seen[min(looks, len(tc.seen))-1]
				}}
				began := time.Now()
				got, ok := g.renewed(t.Context(), old)
				if ok != tc.ok || ok && got != newer || !ok && got != old {
					t.Errorf("%v, %v", got, ok)
				}
				if took := time.Since(began); took > generationWait {
					t.Errorf("took %s", took)
				}
			})
		})
	}
}
