package bridge

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/transform"
)

// oneSchema is a registry with the schema 1 that may be away: then a question is left without an answer until the one who
// asks gives up, or the patience of a client runs out.
type oneSchema struct {
	away     atomic.Bool
	patience time.Duration
	asked    atomic.Int64
}

func (s *oneSchema) ByID(ctx context.Context, _ int) (transform.Schema, error) {
	s.asked.Add(1)
	if s.away.Load() {
		ctx, cancel := context.WithTimeout(ctx, s.patience)
		defer cancel()
		<-ctx.Done()
		return transform.Schema{}, &transform.UnavailableError{Err: &net.OpError{Op: "dial", Err: errors.New("refused")}}
	}
	return transform.Schema{ID: 1, Type: transform.SchemaAvro, Text: `"string"`}, nil
}

func (s *oneSchema) ByVersion(context.Context, string, int) (transform.Schema, error) {
	return transform.Schema{}, transform.ErrNoSchema
}

func (s *oneSchema) Register(context.Context, string, transform.Schema) (int, int, error) {
	return 0, 0, transform.ErrNoSchema
}

func (s *oneSchema) chain(t *testing.T, expression string) func(*Options) {
	t.Helper()
	spec, err := transform.ParseWith(expression, transform.Environment{Source: s})
	if err != nil {
		t.Fatal(err)
	}
	return func(o *Options) { o.Chain = spec }
}

// TestSchemasAway: a registry without an answer is nobody's fault: epochs are aborted until it is back, then every record
// goes out once.
func TestSchemasAway(t *testing.T) {
	for name, test := range map[string]struct {
		patience time.Duration
		action   OnError
	}{
		"a client gives up":      {2 * time.Second, Fail},
		"the epoch's time is up": {time.Hour, Fail},
		"nothing is skipped":     {2 * time.Second, Skip},
		"no dead letter":         {2 * time.Second, DeadLetter},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(1, "in", "out", "dlq")
				registry := &oneSchema{patience: test.patience}
				registry.away.Store(true)
				b := w.start(w.options(registry.chain(t, "schema_decode"), onError(test.action)))
				w.assigned(b, 1)
				for _, text := range []string{"a", "b", "c"} {
					r := &kgo.Record{Topic: "in", Value: append([]byte{0, 0, 0, 0, 1, 2}, text...)}
					if err := w.cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
						t.Fatal(err)
					}
				}
				w.pass(15 * time.Second)
				if n := registry.asked.Load(); n < 2 {
					t.Errorf("asked %d times: nothing was tried again", n)
				}
				if n := w.behind("g", "in"); n != 3 {
					t.Errorf("%d records are not committed, want all 3", n)
				}
				registry.away.Store(false)
				w.caughtUp("in")
				b.stopped()
				var got []string
				for _, r := range w.read("out")[0] {
					got = append(got, string(r.Value))
				}
				if strings.Join(got, " ") != `"a" "b" "c"` {
					t.Errorf("read %q", got)
				}
				if n := len(w.read("dlq")[0]); n > 0 {
					t.Errorf("%d dead letters", n)
				}
			})
		})
	}
}

// TestSchemasAwayAtAStop: a lane that waits for a registry does not hold up the end.
func TestSchemasAwayAtAStop(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "out")
		registry := &oneSchema{patience: time.Hour}
		registry.away.Store(true)
		b := w.start(w.options(registry.chain(t, "schema_decode"), func(o *Options) { o.EpochTimeout, o.TxnTimeout = time.Minute, 4*time.Minute }))
		w.assigned(b, 1)
		r := &kgo.Record{Topic: "in", Value: []byte{0, 0, 0, 0, 1, 2, 'a'}}
		if err := w.cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		w.until("the lane waits", func() bool { return registry.asked.Load() > 0 })
		began := time.Now()
		b.stop()
		b.abort()
		_ = b.wait()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the end took %s", took)
		}
	})
}
