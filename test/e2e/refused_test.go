package e2e

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/test/kafka"
)

// TestRecordTooLarge has one record in the input that the output topic refuses.
// The epoch with it never commits: nothing of it is visible, the positions stay
// before it, and the process ends and names the record. So does the next one.
func TestRecordTooLarge(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		const limit = 300_000
		r := newRig(t, c, plan{in: 1, out: 1, preserve: true, config: []string{fmt.Sprintf("max.message.bytes=%d", limit)}})
		p := r.start(t, "a")
		r.feedNow(t, 500)
		r.settle(t)

		// Bytes that no codec makes smaller.
		noise := make([]byte, 2*limit)
		rng := rand.NewChaCha8([32]byte{1})
		_, _ = rng.Read(noise) // never fails
		large := c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
		at, err := large.ProduceSync(within(t, patience), &kgo.Record{Topic: r.in, Value: noise}).First()
		if err != nil {
			t.Fatal(err)
		}
		r.feedNow(t, 500)

		for range 2 {
			exits(t, p, 1)
			for _, coordinate := range []string{r.in, fmt.Sprint(at.Offset)} {
				if !p.Log.Contains(coordinate) {
					t.Errorf("the log does not name %q", coordinate)
				}
			}
			if got := r.position(t, 0); got > at.Offset {
				t.Errorf("position %d is beyond the refused record at %d", got, at.Offset)
			}
			p = r.start(t, "a")
		}
		exits(t, p, 1)
		if err := r.watch.Sample(within(t, patience)); err != nil {
			t.Fatal(err)
		}
		v := r.verdict(t)
		if v.Out != 500 || v.Lost.Count != 500 || v.Duplicated.Count != 0 || !v.Undamaged() {
			t.Errorf("want 500 visible and 500 not yet: %s", v)
		}
		if err := r.watch.Err(); err != nil {
			t.Error(err)
		}
	})
}
