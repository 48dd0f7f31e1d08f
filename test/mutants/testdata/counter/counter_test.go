package counter

import (
	"os"
	"testing"
)

func TestCount(t *testing.T) {
	if os.Getenv("EOSBRIDGE_PROOF_RESULTS") != "" {
		t.Fatal("a broken build would record its results")
	}
	t.Run("one", func(t *testing.T) {
		if got := Count(1); got != 2 {
			t.Errorf("Count(1) = %d", got)
		}
	})
}
