package bridge

import (
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/eosbridge/eosbridge/txn"
)

// sampleEpochs are one epoch of each outcome, in the order in which they ended.
func sampleEpochs() []EpochSummary {
	at := time.Date(2026, 11, 3, 9, 30, 0, 0, time.FixedZone("CET", 3600))
	return []EpochSummary{
		{
			Epoch: 41, Slot: 1, Outcome: OutcomeCommitted, Trigger: TriggerInterval,
			Opened: at, Triggered: at.Add(100 * time.Millisecond),
			Aligned: 1500 * time.Microsecond, Flushed: 9 * time.Millisecond,
			OffsetsSent: 12 * time.Millisecond, Committed: 20250 * time.Microsecond,
			RecordsIn: 1000, BytesIn: 100_000, RecordsOut: 900, BytesOut: 90_000, Partitions: 3,
		},
		{
			Epoch: 42, Slot: 0, Outcome: OutcomeCarried, Trigger: TriggerRecords,
			Opened: at.Add(time.Second), Triggered: at.Add(1100 * time.Millisecond),
			Aligned: time.Millisecond, RecordsIn: 5, BytesIn: 50, Partitions: 1,
		},
		{
			Epoch: 43, Slot: 1, Outcome: OutcomeAborted, Class: ClassInDoubt,
			Err: "epoch in doubt: commit epoch 43: connection reset", Trigger: TriggerRebalance,
			Opened: at.Add(2 * time.Second), Triggered: at.Add(2100 * time.Millisecond),
			Aligned: 2 * time.Millisecond, Flushed: 5 * time.Millisecond, OffsetsSent: 8 * time.Millisecond,
			RecordsIn: 7, BytesIn: 70, RecordsOut: 7, BytesOut: 70, Partitions: 2,
		},
	}
}

func numbers(summaries []EpochSummary) []txn.Epoch {
	out := make([]txn.Epoch, 0, len(summaries))
	for _, s := range summaries {
		out = append(out, s.Epoch)
	}
	return out
}

func TestHistoryKeepsTheLast(t *testing.T) {
	for _, tc := range []struct {
		name      string
		size, add int
		want      []txn.Epoch
	}{
		{"empty", 3, 0, []txn.Epoch{}},
		{"partly filled", 3, 2, []txn.Epoch{2, 1}},
		{"just full", 3, 3, []txn.Epoch{3, 2, 1}},
		{"one too many", 3, 4, []txn.Epoch{4, 3, 2}},
		{"several rounds", 3, 11, []txn.Epoch{11, 10, 9}},
		{"one", 1, 2, []txn.Epoch{2}},
		{"a size that makes no sense", 0, 2, []txn.Epoch{2}},
		{"a negative size", -5, 1, []txn.Epoch{1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHistory(tc.size)
			for i := range tc.add {
				h.add(EpochSummary{Epoch: txn.Epoch(i + 1), Slot: (i + 1) % 2})
			}
			latest := h.latest()
			if latest == nil {
				t.Fatal("latest returned nil, which JSON shows as null")
			}
			if got := numbers(latest); !slices.Equal(got, tc.want) {
				t.Fatalf("latest = %v, want %v", got, tc.want)
			}
			for e := txn.Epoch(0); e <= txn.Epoch(tc.add)+1; e++ {
				s, ok := h.find(e)
				if want := slices.Contains(tc.want, e); ok != want {
					t.Errorf("find(%d) = %v, want %v", e, ok, want)
				}
				if ok && (s.Epoch != e || s.Slot != int(e%2)) {
					t.Errorf("find(%d) returned %+v", e, s)
				}
			}
		})
	}
}

func TestHistoryReturnsCopies(t *testing.T) {
	h := newHistory(2)
	h.add(EpochSummary{Epoch: 1, Outcome: OutcomeCommitted})
	h.latest()[0].Outcome = OutcomeAborted
	if s, _ := h.find(1); s.Outcome != OutcomeCommitted {
		t.Fatalf("a reader changed the history to %q", s.Outcome)
	}
}

func TestHistoryFindsTheNewestOfEqualNumbers(t *testing.T) {
	h := newHistory(4)
	h.add(EpochSummary{Epoch: 7, Outcome: OutcomeAborted})
	h.add(EpochSummary{Epoch: 7, Outcome: OutcomeCommitted})
	if s, ok := h.find(7); !ok || s.Outcome != OutcomeCommitted {
		t.Fatalf("find(7) = %+v, %v", s, ok)
	}
}

func TestHistoryWrittenAndReadAtOnce(t *testing.T) {
	const last = 500
	h := newHistory(8)
	var readers sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		readers.Go(func() {
			for {
				epochs := numbers(h.latest())
				for i := 1; i < len(epochs); i++ {
					if epochs[i-1] != epochs[i]+1 {
						t.Errorf("torn history: %v", epochs)
						return
					}
				}
				h.find(last / 2)
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for e := range txn.Epoch(last) {
		h.add(EpochSummary{Epoch: e + 1})
	}
	close(done)
	readers.Wait()
	if got := h.latest()[0].Epoch; got != last {
		t.Fatalf("newest epoch is %d, want %d", got, last)
	}
}

func TestEpochSummaryJSONRoundTrip(t *testing.T) {
	for _, want := range sampleEpochs() {
		data, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got EpochSummary
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		if !got.Opened.Equal(want.Opened) || !got.Triggered.Equal(want.Triggered) {
			t.Errorf("times changed: %v %v, want %v %v", got.Opened, got.Triggered, want.Opened, want.Triggered)
		}
		got.Opened, got.Triggered = want.Opened, want.Triggered
		if got != want {
			t.Errorf("got  %+v\nwant %+v\njson %s", got, want, data)
		}
	}
}

func TestEpochSummaryJSONShowsMilliseconds(t *testing.T) {
	data, err := json.Marshal(sampleEpochs()[1])
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	if got := fields["aligned_ms"]; got != 1.0 {
		t.Errorf("aligned_ms = %v, want 1", got)
	}
	for _, absent := range []string{"flushed_ms", "offsets_sent_ms", "committed_ms", "class", "err", "Aligned"} {
		if v, ok := fields[absent]; ok {
			t.Errorf("%s = %v, want it absent", absent, v)
		}
	}
	if got := fields["opened"]; got != "2026-11-03T08:30:01Z" {
		t.Errorf("opened = %v, want UTC", got)
	}
}

func TestEpochSummaryJSONRefusesNonsense(t *testing.T) {
	for _, text := range []string{`{"epoch":"x"}`, `{"aligned_ms":"1s"}`, `[]`} {
		s := EpochSummary{Epoch: 3}
		if err := json.Unmarshal([]byte(text), &s); err == nil {
			t.Errorf("%s was read as %+v", text, s)
		}
		if s.Epoch != 3 {
			t.Errorf("%s left half a summary behind: %+v", text, s)
		}
	}
}
