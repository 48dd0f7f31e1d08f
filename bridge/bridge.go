package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/internal/link"
	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/transform"
	"github.com/eosbridge/eosbridge/txn"
)

// Delivery is the guarantee for the records between the input and the output.
type Delivery string

// The three guarantees.
const (
	ExactlyOnce Delivery = "exactly-once"
	AtLeastOnce Delivery = "at-least-once"
	AtMostOnce  Delivery = "at-most-once"
)

// Options is everything a Bridge needs to know. cli makes it from the configuration.
type Options struct {
	Version string // of the program, for the status page

	Group    string // group.id
	Instance string // group.instance.id, and the middle of the transactional ids
	Prefix   string // of the transactional ids
	Consumer bool   // group protocol "consumer" (KIP-848) instead of classic

	Inputs  []string       // topics; empty when Pattern is set
	Pattern *regexp.Regexp // anchored
	Output  string         // topic, may hold {topic}
	ByKey   bool           // partition by murmur2 of the key instead of keeping the partition
	Chain   *transform.Spec
	// Provenance adds headers to each output that name its input; see docs/audit.md.
	Provenance bool

	// OnError is what becomes of inputs that cannot be bridged; empty = Fail. DLQ is the topic for DeadLetter, which is
	// neither input nor output. ErrorLimit bounds the failures in a row; 0 = any number.
	OnError    OnError
	DLQ        string
	ErrorLimit int
	// Restore replays dead letters: Inputs is their topic, Output is empty, Chain is the identity.
	Restore *Restore

	Delivery Delivery
	Start    offsets.Start

	EpochInterval time.Duration
	// EpochMaxInterval is how far the interval grows while the source is behind; at most EpochInterval = not at all.
	EpochMaxInterval time.Duration
	IntervalChosen   bool // EpochInterval was set by the user: keep it below transaction.version 2 as well
	EpochTimeout     time.Duration
	EpochMinPause    time.Duration
	EpochMaxRecords  int64
	EpochMaxBytes    int64

	TxnTimeout       time.Duration
	SessionTimeout   time.Duration
	RebalanceTimeout time.Duration
	LeaveOnStop      bool
	StopTimeout      time.Duration

	Lanes  int
	Memory int64 // bytes for the process as a whole

	RestartMaxDelay time.Duration
	RestartLimit    int // consecutive restarts without a commit

	// PassThrough hands batches on as they are, where a pipeline changes nothing of them; see raw.go.
	PassThrough bool
	// Compression is that of batches which PassThrough has to make anew. Recompress demands it of all of them; nil
	// leaves those that are handed on as they are.
	Compression kgo.CompressionCodec
	Recompress  *kgo.CompressionCodecType

	UntilEnd bool // stop once the positions at the start are committed

	Client    []kgo.Opt    // for every client: brokers, security, client id, logger
	Link      *link.Dialer // if not nil, Client has its Dial, and it carries what is passed through
	Fetching  []kgo.Opt    // for the consumer: rack, metrics
	Producing []kgo.Opt    // for the producers: compression, metrics

	HTTPAddr, PprofAddr string
	Settings            []Setting // shown on the status page, secrets masked
	Registerer          prometheus.Registerer
	Metrics             http.Handler // answers /metrics with what Registerer has; nil = nothing does
	// Ended, if not nil, is told of each epoch that has ended, before the next commit begins: it must not wait for anything.
	Ended func(EpochSummary)
	Log   *slog.Logger
}

// settleAfter is how long positions without output may wait for the next transaction to carry them.
const settleAfter = time.Second

// interval1 is the default epoch interval below transaction.version 2, where each epoch makes a client anew.
const interval1 = time.Second

// Bridge is one pipeline in one process.
type Bridge struct {
	opts    Options
	log     *slog.Logger
	board   *board
	history *history
	metrics *metrics
	budget  atomic.Pointer[budget] // of the newest session
	pace    pace

	// Owned by Run.
	client   *kgo.Client // admin requests; lives as long as the process
	admin    *kadm.Client
	epoch    txn.Epoch           // last epoch number that was used
	left     bool                // the name was taken over from whoever held it, once
	member   string              // our last member id
	started  bool                // where topics without a position begin is decided
	first    offsets.Positions   // start positions that only a member can commit
	topicIDs map[string][16]byte // of the input, from the last session
	targets  offsets.Positions   // run --until-end: where the input ended at the start

	refusals refusals // what brokers have refused

	// Counted over all sessions; see txn.Credential.
	lost, revoked atomic.Uint64
	timed         atomic.Bool // it was said that an output gives records new times
	large         atomic.Bool // a record was larger than an ordinary batch
	decoding      atomic.Bool // an output was refused: batches are not passed through any more
	lettersTold   atomic.Bool // it was said that the topic for dead letters refuses some times
	pathTold      atomic.Bool // it was said whether batches are passed through
}

// New checks the options. Nothing is sent before Run.
func New(o Options) (*Bridge, error) {
	if o.Lanes < 1 || o.Memory < 1 || o.Log == nil || o.Chain == nil {
		return nil, errors.New("bridge options: lanes, memory, log and chain are required")
	}
	if err := o.checkLetters(); err != nil {
		return nil, err
	}
	b := &Bridge{opts: o, log: o.Log, history: newHistory(100)}
	b.opts.OnError = cmp.Or(o.OnError, Fail)
	b.refusals.limit = o.ErrorLimit
	b.opts.Client = append(slices.Clip(o.Client), kgo.MetadataMinAge(250*time.Millisecond)) // a moved leader is looked up soon
	b.budget.Store(newBudget(budgetBytes(o.Memory, 0, false)))
	b.pace.unknown.Store(!o.Chain.Identity())
	b.board = newBoard(Status{
		Version: o.Version, Group: o.Group, Instance: o.Instance, Delivery: string(o.Delivery), Lanes: o.Lanes,
		OpenTxn:     OpenTxn{TimeoutSeconds: o.TxnTimeout.Seconds()},
		Interpreted: o.Chain.Interpreted(),
	}, nil, func() Memory {
		budget := b.budget.Load()
		return Memory{Budget: budget.limit.Load(), Used: budget.used.Load()}
	})
	var err error
	if b.metrics, err = newMetrics(o.Registerer, b.board); err != nil {
		return nil, err
	}
	return b, nil
}

// letters is the topic for dead letters; empty if there are none.
func (o *Options) letters() string {
	if o.OnError != DeadLetter {
		return ""
	}
	return o.DLQ
}

// checkLetters demands a topic for dead letters that nothing else is written to: what lies there is then a dead letter,
// and what lies elsewhere is none.
func (o *Options) checkLetters() error {
	switch {
	case o.OnError != DeadLetter:
		return nil
	case o.DLQ == "":
		return errors.New("BRIDGE_ON_ERROR=dlq needs a topic: set BRIDGE_DLQ_TOPIC")
	case slices.Contains(o.Inputs, o.DLQ):
		return fmt.Errorf("topic %q is both input and BRIDGE_DLQ_TOPIC: dead letters would be read again without end; name another", o.DLQ)
	case slices.Contains(o.Chain.Targets(), o.DLQ):
		return fmt.Errorf("topic %q is both BRIDGE_DLQ_TOPIC and the target of a transform: name another for the dead letters", o.DLQ)
	}
	return nil
}

// Run bridges until ctx ends, then stops in order: no more polls, a last barrier, commit within the stop
// timeout or abort, leave the group, close. abort cuts this short. Run answers nil after a clean stop; else
// the error carries the exit status (ExitCode) or wraps txn.ErrFenced.
func (b *Bridge) Run(ctx, abort context.Context) error {
	if b.opts.Chain.Interpreted() {
		b.log.Warn("a webassembly guest is interpreted, not compiled: memory of this process may not become executable (systemd: deploy/wasm.conf)")
	}
	face := newAdmin(b.opts.HTTPAddr, adminSources{
		board: b.board, history: b.history, metrics: b.opts.Metrics,
		maxSilence: b.maxSilence(), epochTimeout: b.opts.EpochTimeout, settings: b.opts.Settings, log: b.log,
	})
	pprof := newPprof(b.opts.PprofAddr, b.log)
	defer func() {
		b.enter(StateStopped)
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = face.Shutdown(closing) // last, so that the last epoch can be looked at
		_ = pprof.Shutdown(closing)
	}()
	for _, listener := range []*admin{face, pprof} {
		if err := listener.Start(ctx); err != nil {
			return &txn.FatalError{Status: txn.StatusConfig, Err: err}
		}
	}
	client, err := kgo.NewClient(b.opts.Client...)
	if err != nil {
		return &txn.FatalError{Status: txn.StatusConfig, Err: err}
	}
	defer client.Close()
	b.client, b.admin = client, kadm.NewClient(client)
	return b.supervise(ctx, abort)
}

// Written is how many records the epochs that did not abort have written.
func (b *Bridge) Written() int64 { return b.board.written.Load() }

// supervise runs one session after the other until one ends for good.
func (b *Bridge) supervise(ctx, abort context.Context) error {
	sup := newSupervisor(time.Now(), b.opts.RestartMaxDelay, b.opts.RestartLimit)
	for {
		err := b.session(ctx, abort)
		if err == nil {
			return nil
		}
		b.board.failed(err)
		if ctx.Err() != nil && !errors.Is(err, txn.ErrFatal) && !errors.Is(err, txn.ErrFenced) {
			return fmt.Errorf("stopped before the last epoch was settled: %w", err)
		}
		delay, err := sup.after(time.Now(), b.board.snapshot().LastCommitted.At, err)
		if delay == 0 {
			if !errors.Is(err, txn.ErrFenced) {
				b.leaveLate(ctx)
			}
			return err
		}
		b.board.restarted()
		b.metrics.restart(err)
		b.log.Warn("session failed, starting again", "class", classOf(err), "err", err, "delay", delay)
		b.enter(StateRecovering) // the wait before the next session is no time in which the work is done
		if !wait(ctx, delay) {
			if b.opts.LeaveOnStop {
				b.leaveLate(ctx)
			}
			return nil
		}
	}
}

// leaveLate gives up the place that a failed session has kept for the next one, when there is none: others would
// wait for the session timeout.
func (b *Bridge) leaveLate(ctx context.Context) {
	if b.member == "" {
		return
	}
	if err := b.leave(context.WithoutCancel(ctx), b.member); err != nil {
		b.log.Debug("group not left, the session timeout does it", "err", err)
	}
	b.member = ""
}

func (b *Bridge) enter(s State) {
	if b.board.enter(s) {
		b.log.Info("state changed", "state", string(s))
	}
}

// wait answers false when ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// name is our place in the group.
func (b *Bridge) name() txn.Name {
	return txn.Name{Group: b.opts.Group, Instance: b.opts.Instance}
}
