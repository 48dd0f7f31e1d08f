package txn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ErrUnsafe says that a transaction was left alone because aborting it could harm somebody.
var ErrUnsafe = errors.New("not safe to abort")

// ErrNothingOpen says that there is no transaction left to abort.
var ErrNothingOpen = errors.New("nothing to abort")

// Aborted is what Abort has done.
type Aborted struct {
	Name string `json:"name"`
	// Acted reports whether the transaction was aborted by us; Did says how, or why there was no need.
	Acted bool   `json:"acted"`
	Did   string `json:"did"`
	// Before and After are the transaction's partitions.
	Before []HeldPartition `json:"before"`
	After  []HeldPartition `json:"after"`
}

// Abort ends one transaction that Inspect has found, with the same options. It is the operator's hand: nothing in the
// bridge calls it.
//
// A transaction that has a coordinator is aborted by InitProducerID, as a new owner of the id would do it: a commit that
// was decided stays one, and the owner, if there is one, is fenced. A live bridge that loses an epoch so starts anew
// inside its process and repeats the epoch. Only what is proven to hang gets markers in the coordinator's place
// (WriteTxnMarkers, KIP-664).
//
// Both are done only to the transaction that was shown: right before, it is looked at once more. What is not safe is
// refused (ErrUnsafe) unless force is set; markers for what is not proven are refused always, for a marker beside a live
// coordinator may abort half of a transaction that is then committed.
func Abort(ctx context.Context, adm *kadm.Client, cl *kgo.Client, o InspectOptions, t Transaction, force bool) (Aborted, error) {
	done := Aborted{Name: t.Name, Before: t.Partitions}
	switch {
	case !t.Open():
		return done, fmt.Errorf("%w under %s: %s", ErrNothingOpen, t.Name, t.Because)
	case t.Kind == KindEnding:
		return done, fmt.Errorf("%w: %s: %s", ErrNothingOpen, t.Name, t.Because)
	case t.Name != t.ID && t.Kind != KindHanging:
		return done, fmt.Errorf("%w: %s is not proven to hang, and force does not change that: %s", ErrUnsafe, t.Name, t.Because)
	case !t.Safe && !force:
		return done, fmt.Errorf("%w: %s: %s", ErrUnsafe, t.Name, t.Because)
	}
	var err error
	if t.Kind == KindHanging {
		done.Did, done.Acted, err = mark(ctx, adm, cl, o, t)
	} else {
		done.Did, done.Acted, err = takeOver(ctx, adm, cl, o, t)
	}
	if err != nil {
		return done, err
	}
	done.After = released(ctx, adm, cl, o, t, done.Acted)
	return done, nil
}

// takeOver aborts what is open under the id.
func takeOver(ctx context.Context, adm *kadm.Client, cl *kgo.Client, o InspectOptions, t Transaction) (did string, acted bool, err error) {
	timeout := time.Duration(t.Timeout * float64(time.Second))
	s := &sweep{adm: adm, cl: cl, o: SweepOptions{Prefix: o.Prefix, TxnTimeout: timeout, Logger: slog.New(slog.DiscardHandler)}}
	// The coordinator has accepted this timeout for the id before, so it does again.
	shown := target{name: t.ID, start: t.Started, age: time.Duration(t.Age * float64(time.Second))}
	left := s.again(ctx, []target{shown})
	ended := len(left) == 0
	s.abort(ctx, left)
	switch {
	case errors.Is(s.failed, kerr.TransactionalIDAuthorizationFailed):
		return "", false, &FatalError{StatusDenied, fmt.Errorf("%w: grant it with: %s", s.failed, Grant("Write", "transactional-id", t.ID))}
	case s.failed != nil:
		return "", false, s.failed
	case ended:
		return "nothing: the transaction that was shown had ended by itself", false, nil
	case len(s.swept) == 0:
		return "nothing: its owner committed it first", false, nil
	default:
		return fmt.Sprintf("aborted by InitProducerID; producer %d with epoch %d is fenced", t.ProducerID, t.ProducerEpoch), true, nil
	}
}

// mark writes abort markers for a transaction that hangs, after another proof that it does.
func mark(ctx context.Context, adm *kadm.Client, cl *kgo.Client, o InspectOptions, t Transaction) (did string, acted bool, err error) {
	topic := t.Partitions[0].Topic
	o.Name, o.Topics = t.Name, func([]string) []string { return []string{topic} }
	now, err := Inspect(ctx, adm, cl, o)
	if err != nil {
		return "", false, err
	}
	if len(now.Transactions) != 1 {
		return "nothing: the transaction that was shown had ended by itself", false, nil
	}
	again := now.Transactions[0]
	if again.Kind != KindHanging || again.ProducerID != t.ProducerID || again.ProducerEpoch != t.ProducerEpoch {
		return "", false, fmt.Errorf("%w: %s is another transaction now: %s", ErrUnsafe, t.Name, again.Because)
	}
	p := again.Partitions[0]
	m := kadm.TxnMarkers{
		ProducerID: again.ProducerID, ProducerEpoch: again.ProducerEpoch, Topics: kadm.TopicsSet{},
		// A partition refuses markers of a coordinator older than the last one it has seen for this producer. It says -1
		// if it has seen none, and then takes any.
		CoordinatorEpoch: max(0, p.coordinatorEpoch),
	}
	m.Topics.Add(p.Topic, p.Partition)
	answers, err := adm.WriteTxnMarkers(ctx, m)
	if err == nil {
		a, answered := answers[m.ProducerID].Topics[p.Topic].Partitions[p.Partition]
		if err = a.Err; !answered {
			err = errors.New("the leader has not answered")
		}
	}
	switch {
	case Denied(err):
		return "", false, &FatalError{StatusDenied, fmt.Errorf("write an abort marker to %s/%d: %w: grant it with: %s",
			p.Topic, p.Partition, err, Grant("ClusterAction", "cluster", ""))}
	case err != nil:
		return "", false, fmt.Errorf("write an abort marker to %s/%d for producer %d, epoch %d: %w", p.Topic, p.Partition, m.ProducerID, m.ProducerEpoch, err)
	}
	return fmt.Sprintf("wrote an abort marker to %s/%d for producer %d, epoch %d, coordinator epoch %d (WriteTxnMarkers)",
		p.Topic, p.Partition, m.ProducerID, m.ProducerEpoch, m.CoordinatorEpoch), true, nil
}

// released tells the offsets of the transaction's partitions, once it holds none of them back any more if it was ended,
// but after ten seconds at the latest: the last stable offset follows the marker when the replicas have it.
func released(ctx context.Context, adm *kadm.Client, cl *kgo.Client, o InspectOptions, t Transaction, ended bool) []HeldPartition {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	i := &inspector{adm: adm, cl: cl, o: o}
	topics := map[string]bool{}
	for _, p := range t.Partitions {
		topics[p.Topic] = true
	}
	for {
		i.measure(ctx, slices.Collect(maps.Keys(topics)))
		after := []HeldPartition{}
		held := false
		for _, p := range t.Partitions {
			h := i.heldAt(place{p.Topic, p.Partition})
			held = held || h.Stable >= 0 && h.Stable == p.First // below it, another one holds it back
			after = append(after, h)
		}
		if !held || !ended {
			return after
		}
		select {
		case <-ctx.Done():
			return after
		case <-ticker.C:
		}
	}
}
