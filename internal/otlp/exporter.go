package otlp

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// queueLength is how many items wait at most, while the collector is away.
	queueLength = 1024
	// batchLength is how many items go into one request at most.
	batchLength = 100
	// batchDelay is how long an item waits for others. It is that of OpenTelemetry's SDKs (OTEL_BSP_SCHEDULE_DELAY).
	batchDelay = 5 * time.Second
	// firstRetry and lastRetry are the delays between attempts; it doubles in between.
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
	// longestRetryAfter bounds what a collector may ask for.
	longestRetryAfter = 5 * time.Minute
)

// Options says where spans go.
type Options struct {
	URL string // whole, such as http://collector:4318/v1/traces
	// Headers are asked for before each request, as names and values; they may hold secrets. Nil = none.
	Headers   func() (map[string]string, error)
	Timeout   time.Duration // of one request
	Gzip      bool
	Transport http.RoundTripper
	Resource  []Attribute // who we are
	Scope     string      // name of what makes the spans
	Version   string      // of it
	// Counted is told of each item once: it was delivered, or it was given up. Nil = nobody counts. It must not block.
	Counted func(delivered bool, n int)
	Log     *slog.Logger
}

// Exporter makes spans of what is offered to it and sends them.
type Exporter[T any] struct {
	o      Options
	spans  func([]Span, T) []Span
	client *http.Client

	mu    sync.Mutex
	ring  []T // fixed length
	first int // the oldest one
	used  int

	some chan struct{} // one place: something waits
	full chan struct{} // one place: a batch waits

	lost atomic.Int64 // since the last delivery

	// Run.
	away bool // the last attempt failed, which has been told
}

// New returns an exporter; spans appends those of one item to a slice. Nothing is sent before Run.
func New[T any](o Options, spans func([]Span, T) []Span) *Exporter[T] {
	return &Exporter[T]{
		o: o, spans: spans, ring: make([]T, queueLength), some: make(chan struct{}, 1), full: make(chan struct{}, 1),
		client: &http.Client{
			Transport: o.Transport,
			// Headers may be credentials, and net/http takes those it does not know along to another host.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Offer hands an item over. It never waits: where there is no room, the oldest one is given up. Any goroutine may call it.
func (e *Exporter[T]) Offer(item T) {
	e.mu.Lock()
	lost := e.used == len(e.ring)
	if lost {
		e.first = (e.first + 1) % len(e.ring)
		e.used--
	}
	e.ring[(e.first+e.used)%len(e.ring)] = item
	e.used++
	used := e.used
	e.mu.Unlock()
	if lost {
		e.giveUp(1)
	}
	if used == 1 {
		signal(e.some)
	}
	if used == batchLength {
		signal(e.full)
	}
}

// signal leaves a note where there is none yet.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run sends what is offered until ctx ends, then what still waits, for as long as grace at most and without trying
// again. What is offered later stays. It is called once.
func (e *Exporter[T]) Run(ctx context.Context, grace time.Duration) {
	defer e.client.CloseIdleConnections()
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	ending := context.AfterFunc(ctx, func() { // ends at once if there is nothing to wait for
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-sending.Done():
		}
	})
	defer ending()
	for e.gather(ctx) {
		e.deliver(ctx, sending, e.take())
	}
	for batch := e.take(); len(batch) > 0; batch = e.take() {
		if !e.deliver(ctx, sending, batch) {
			e.giveUp(e.discard())
			return
		}
	}
}

// gather waits until there is a batch: as many as fit, or what has come within the delay. It answers false when ctx ends.
func (e *Exporter[T]) gather(ctx context.Context) bool {
	for e.waiting() == 0 {
		select {
		case <-e.some: // may be an old note
		case <-ctx.Done():
			return false
		}
	}
	timer := time.NewTimer(batchDelay)
	defer timer.Stop()
	for e.waiting() < batchLength {
		select {
		case <-e.full: // may be an old note
		case <-timer.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

func (e *Exporter[T]) waiting() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.used
}

// take removes the oldest items, as many as go into one request.
func (e *Exporter[T]) take() []T {
	e.mu.Lock()
	defer e.mu.Unlock()
	batch := make([]T, min(e.used, batchLength))
	for i := range batch {
		batch[i] = e.ring[e.first]
		e.first = (e.first + 1) % len(e.ring)
	}
	e.used -= len(batch)
	return batch
}

// discard forgets what waits.
func (e *Exporter[T]) discard() (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, e.used = e.used, 0
	return n
}

// deliver sends a batch until the collector has taken or refused it. Once ctx has ended it tries no more.
func (e *Exporter[T]) deliver(ctx, sending context.Context, batch []T) bool {
	if len(batch) == 0 {
		return true
	}
	var spans []Span
	for _, item := range batch {
		spans = e.spans(spans, item)
	}
	body, err := encode(e.o.Resource, wireScope{e.o.Scope, e.o.Version}, spans)
	for delay := firstRetry; err == nil; delay = min(2*delay, lastRetry) {
		answer := e.post(sending, body)
		if answer.err == nil {
			e.took(len(batch), answer)
			return true
		}
		e.fails(answer.err)
		if !answer.again || ctx.Err() != nil || !pause(ctx, max(answer.after, jitter(delay))) && answer.after > 0 {
			break
		}
	}
	if err != nil {
		e.fails(err)
	}
	e.giveUp(len(batch))
	return false
}

// jitter keeps the instances of a pipeline from coming back in step.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2) }

// pause answers false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (e *Exporter[T]) giveUp(n int) {
	e.lost.Add(int64(n))
	e.count(false, n)
}

func (e *Exporter[T]) count(delivered bool, n int) {
	if e.o.Counted != nil && n > 0 {
		e.o.Counted(delivered, n)
	}
}

// took notes that a collector has taken a batch. It may have left out spans of it, which is told once.
func (e *Exporter[T]) took(n int, a answer) {
	e.count(true, n)
	if a.rejected > 0 {
		e.fails(fmt.Errorf("the collector has left out %d spans of a request: %s", a.rejected, a.message))
		return
	}
	lost := e.lost.Swap(0)
	if e.away {
		e.away = false
		e.o.Log.Info("traces are delivered again", "lost", lost)
	}
}

// fails tells the first failure of a row.
func (e *Exporter[T]) fails(err error) {
	if !e.away {
		e.away = true
		e.o.Log.Warn("traces cannot be delivered, which changes nothing else; epochs that end meanwhile may be missing in them", "err", err)
	}
}
