package cli

import (
	"slices"
	"testing"
)

// shownRecord is one record as a test lets the reader see it.
type shownRecord struct {
	partition  int32
	key, value []byte
}

// wholeOutput is what a faultless bridge shows of count records per partition,
// partition by partition.
func wholeOutput(count int64) []shownRecord {
	var out []shownRecord
	for p := range int32(demoPartitions) {
		for s := range count {
			key, value := demoRecord(p, s)
			out = append(out, shownRecord{p, key, value})
		}
	}
	return out
}

// judged runs output through a tally in which count records per partition were
// planned and sent.
func judged(output []shownRecord, count int64) verdict {
	counts := slices.Repeat([]int64{count}, demoPartitions)
	t := newTally(counts)
	offsets := make(map[int32]int64)
	for _, r := range output {
		t.record(r.partition, offsets[r.partition], r.key, r.value)
		offsets[r.partition]++
	}
	return t.judge(counts)
}

func TestTallyExact(t *testing.T) {
	for _, count := range []int64{1, 63, 64, 65, 128, 1000} {
		v := judged(wholeOutput(count), count)
		want := verdict{In: 4 * count, Out: 4 * count}
		if v != want || !v.exact() {
			t.Errorf("count %d: got %+v exact %v, want %+v", count, v, v.exact(), want)
		}
	}
}

func TestTallyFaults(t *testing.T) {
	const count = 100
	record := func(partition int32, sequence int64) shownRecord {
		key, value := demoRecord(partition, sequence)
		return shownRecord{partition, key, value}
	}
	for _, tt := range []struct {
		name  string
		fault func(out []shownRecord) []shownRecord
		want  verdict
	}{
		{
			"one copy at once",
			func(out []shownRecord) []shownRecord { return slices.Insert(out, 10, out[10]) },
			verdict{In: 400, Out: 401, Duplicated: 1},
		},
		{
			"an epoch shown twice",
			func(out []shownRecord) []shownRecord { return slices.Insert(out, 60, out[20:60]...) },
			verdict{In: 400, Out: 440, Duplicated: 40},
		},
		{
			"three copies of one",
			func(out []shownRecord) []shownRecord { return append(out, out[399], out[399], out[399]) },
			verdict{In: 400, Out: 403, Duplicated: 3},
		},
		{
			"first lost",
			func(out []shownRecord) []shownRecord { return slices.Delete(out, 0, 1) },
			verdict{In: 400, Out: 399, Lost: 1},
		},
		{
			"an epoch lost in the middle",
			func(out []shownRecord) []shownRecord { return slices.Delete(out, 110, 130) },
			verdict{In: 400, Out: 380, Lost: 20},
		},
		{
			"last lost",
			func(out []shownRecord) []shownRecord { return out[:399] },
			verdict{In: 400, Out: 399, Lost: 1},
		},
		{
			"nothing shown",
			func([]shownRecord) []shownRecord { return nil },
			verdict{In: 400, Lost: 400},
		},
		{
			"neighbours swapped",
			func(out []shownRecord) []shownRecord { out[7], out[8] = out[8], out[7]; return out },
			verdict{In: 400, Out: 400, OutOfOrder: 1},
		},
		{
			"one late by thirty",
			func(out []shownRecord) []shownRecord {
				late := out[205]
				return slices.Insert(slices.Delete(out, 205, 206), 235, late)
			},
			verdict{In: 400, Out: 400, OutOfOrder: 1},
		},
		{
			"an epoch before its predecessor",
			func(out []shownRecord) []shownRecord {
				early := slices.Clone(out[20:40])
				return slices.Insert(slices.Delete(out, 20, 40), 10, early...)
			},
			verdict{In: 400, Out: 400, OutOfOrder: 10},
		},
		{
			"lost and duplicated cancel in the sum",
			func(out []shownRecord) []shownRecord { out[50] = out[49]; return out },
			verdict{In: 400, Out: 400, Duplicated: 1, Lost: 1},
		},
		{
			"in another partition",
			func(out []shownRecord) []shownRecord { out[300].partition = 1; return out },
			verdict{In: 400, Out: 400, Lost: 1, Altered: 1},
		},
		{
			"in a partition that should not be",
			func(out []shownRecord) []shownRecord { out[300].partition = demoPartitions; return out },
			verdict{In: 400, Out: 400, Lost: 1, Altered: 1},
		},
		{
			"value changed",
			func(out []shownRecord) []shownRecord { out[3].value[len(out[3].value)-2] ^= 1; return out },
			verdict{In: 400, Out: 400, Lost: 1, Altered: 1},
		},
		{
			"key changed",
			func(out []shownRecord) []shownRecord { out[3].key = nil; return out },
			verdict{In: 400, Out: 400, Lost: 1, Altered: 1},
		},
		{
			"not JSON",
			func(out []shownRecord) []shownRecord { out[3].value = []byte("x"); return out },
			verdict{In: 400, Out: 400, Lost: 1, Altered: 1},
		},
		{
			"never sent, with a huge number",
			func(out []shownRecord) []shownRecord { return append(out, record(0, 1<<50)) },
			verdict{In: 400, Out: 401, Altered: 1},
		},
		{
			"never sent, negative",
			func(out []shownRecord) []shownRecord { return append(out, record(0, -1)) },
			verdict{In: 400, Out: 401, Altered: 1},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := judged(tt.fault(wholeOutput(count)), count)
			if v != tt.want {
				t.Errorf("got %+v, want %+v", v, tt.want)
			}
			if v.exact() {
				t.Error("the fault passed as exact")
			}
		})
	}
}

// Records that were planned but whose sending was never acknowledged must not
// be shown: the input did not promise to keep them.
func TestTallyShownButNotAcknowledged(t *testing.T) {
	planned := []int64{70, 70}
	tally := newTally(planned)
	for p := range int32(2) {
		for s := range int64(70) {
			key, value := demoRecord(p, s)
			tally.record(p, s, key, value)
		}
	}
	v := tally.judge([]int64{70, 64})
	if want := (verdict{In: 134, Out: 140, Altered: 6}); v != want {
		t.Errorf("got %+v, want %+v", v, want)
	}
}

func TestTallyTransactions(t *testing.T) {
	tally := newTally([]int64{10, 10})
	show := func(partition int32, offset, sequence int64) {
		key, value := demoRecord(partition, sequence)
		tally.record(partition, offset, key, value)
	}
	// Producer 7, epoch 0 commits on both partitions, epoch 1 is aborted on
	// partition 0 (three records at offsets 2–4, hidden), then producer 8 commits.
	show(0, 0, 0)
	tally.marker(0, 1, 7, 0, true)
	show(1, 0, 0)
	tally.marker(1, 1, 7, 0, true)
	tally.marker(0, 5, 7, 1, false)
	show(0, 6, 1)
	tally.marker(0, 7, 8, 0, true)

	if !tally.reached([]int64{8, 2}) || tally.reached([]int64{8, 3}) {
		t.Error("reached does not follow the offsets")
	}
	if got := tally.shown(); got != 3 {
		t.Errorf("shown %d, want 3", got)
	}
	v := tally.judge([]int64{2, 1})
	want := verdict{In: 3, Out: 3, RolledBack: 3, Committed: 2, Aborted: 1}
	if v != want || !v.exact() {
		t.Errorf("got %+v exact %v, want %+v", v, v.exact(), want)
	}
}

// A key must belong to one partition only, or "order per key" would mean nothing.
func TestDemoRecordKeys(t *testing.T) {
	owner := make(map[string]int32)
	for p := range int32(demoPartitions) {
		for s := range int64(1000) {
			key, _ := demoRecord(p, s)
			if other, ok := owner[string(key)]; ok && other != p {
				t.Fatalf("key %s in partitions %d and %d", key, other, p)
			}
			owner[string(key)] = p
		}
	}
	if len(owner) != 4*250 {
		t.Errorf("%d keys, want 1000", len(owner))
	}
}
