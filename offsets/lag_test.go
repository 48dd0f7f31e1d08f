package offsets

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestLags(t *testing.T) {
	b := newBroker(t, kfake.SeedTopics(4, "in"), kfake.SeedTopics(1, "a", "ignored"))
	part := func(n int32) TopicPartition { return TopicPartition{"in", n} }
	for _, tp := range []TopicPartition{part(0), part(1), part(2), {"a", 0}, {"ignored", 0}} {
		produce(t, b.cl, tp, 10, time.Now())
	}
	open := b.begin(t, "id")
	produce(t, open, part(0), 5, time.Now()) // beyond the last stable offset
	if err := b.DeleteRecords("in", 1, 6); err != nil {
		t.Fatal(err)
	}
	b.commit(t, "g", Positions{part(0): {4, -1}, part(1): {4, -1}, {"a", 0}: {10, -1}, {"ignored", 0}: {1, -1}})

	check := func(group string, want ...Lag) {
		t.Helper()
		got, err := Lags(t.Context(), b.adm, group, []string{"in", "a"})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("Lags(%s) = %+v, %v, want %+v", group, got, err, want)
		}
	}
	check("g",
		Lag{TopicPartition{"a", 0}, 10, 10, 10, 0, 0},
		Lag{part(0), 4, 10, 15, 0, 6},   // not 11: the open transaction does not count
		Lag{part(1), 4, 10, 10, 6, 4},   // retention has overtaken the position
		Lag{part(2), -1, 10, 10, 0, 10}, // no position
		Lag{part(3), -1, 0, 0, 0, 0},
	)
	check("nobody",
		Lag{TopicPartition{"a", 0}, -1, 10, 10, 0, 10},
		Lag{part(0), -1, 10, 15, 0, 10},
		Lag{part(1), -1, 10, 10, 6, 4},
		Lag{part(2), -1, 10, 10, 0, 10},
		Lag{part(3), -1, 0, 0, 0, 0},
	)
	// A position held back by a transaction is shown as it is committed, at once.
	b.stage(t, open, "g", part(0), 9)
	unstable := b.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.OffsetFetch}, Observe: true, Count: -1,
		When: func(r kmsg.Request) bool { return r.(*kmsg.OffsetFetchRequest).RequireStable },
	})
	if got, err := Lags(t.Context(), b.adm, "g", []string{"in"}); err != nil || got[0].Committed != 4 {
		t.Errorf("beside an open transaction: %+v, %v", got, err)
	}
	if unstable.Hits() > 0 {
		t.Error("Lags asked for stable positions")
	}
	// The committed transaction moves the last stable offset past its records and its marker.
	end(t, open, kgo.TryCommit)
	if got, err := Lags(t.Context(), b.adm, "g", []string{"in"}); err != nil || got[0].Committed != 9 || got[0].LastStable != 16 || got[0].Lag != 7 {
		t.Errorf("after the commit: %+v, %v", got, err)
	}
}

func TestLagString(t *testing.T) {
	l := Lag{TopicPartition{"in", 1}, 4, 10, 10, 6, 4}
	if got, want := l.String(), "in-1: lag 4 (committed 4, last stable 10, end 10, log start 6)"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
}

func TestLagsOfNothing(t *testing.T) {
	b := newBroker(t, kfake.SeedTopics(1, "in"))
	if got, err := Lags(t.Context(), b.adm, "g", nil); err != nil || len(got) != 0 {
		t.Errorf("no topics: %v, %v", got, err)
	}
	if got, err := Lags(t.Context(), b.adm, "g", []string{"nowhere"}); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("missing topic: %v, %v", got, err)
	}
}

func TestLagsPartitionCodes(t *testing.T) {
	b := newBroker(t, kfake.SeedTopics(2, "in"))
	b.commit(t, "g", Positions{{"in", 0}: {0, -1}})
	b.ControlKey(int16(kmsg.OffsetFetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		return oneBadPartition(r, b.TopicInfo("in").TopicID, kerr.InvalidRequest.Code), nil, true
	})
	if got, err := Lags(t.Context(), b.adm, "g", []string{"in"}); !errors.Is(err, kerr.InvalidRequest) {
		t.Errorf("a refused position: %v, %v", got, err)
	}
	b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Group: "g", Err: kerr.GroupAuthorizationFailed})
	if got, err := Lags(t.Context(), b.adm, "g", []string{"in"}); !errors.Is(err, kerr.GroupAuthorizationFailed) {
		t.Errorf("denied: %v, %v", got, err)
	}
}
