package counter

import "testing"

func TestCount(t *testing.T) {
	t.Run("one", func(t *testing.T) {
		if got := Count(1); got != 2 {
			t.Errorf("Count(1) = %d", got)
		}
	})
}
