package cli

import "testing"

// TestCollectorLimit: it leaves room for what the runtime does not count, and grows with the memory.
func TestCollectorLimit(t *testing.T) {
	t.Parallel()
	const mebibyte = 1 << 20
	before := int64(0)
	for _, row := range []struct{ memory, least, most int64 }{ // MiB
		{32, 10, 22},
		{64, 36, 44},
		{128, 90, 108},
		{256, 180, 208},
		{512, 180, 256},
		{4096, 1024, 2048},
	} {
		got := collectorLimit(row.memory * mebibyte)
		if got < row.least*mebibyte || got > row.most*mebibyte {
			t.Errorf("%d MiB: %d MiB, want %d to %d", row.memory, got/mebibyte, row.least, row.most)
		}
		if got < before {
			t.Errorf("%d MiB: %d MiB, less than for less memory", row.memory, got/mebibyte)
		}
		before = got
	}
}
