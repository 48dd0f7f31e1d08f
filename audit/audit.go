package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/eosbridge/eosbridge/offsets"
)

// Options say which pipeline to audit, and how.
type Options struct {
	Group   string
	Inputs  []string       // topics; empty when Pattern is set
	Pattern *regexp.Regexp // anchored
	Output  string         // topic, may hold {topic}
	Routes  []string       // further topics that transforms may write to
	DLQ     string         // topic of dead letters; empty if there are none

	Identity   bool // nothing is changed, dropped, added or routed
	ByKey      bool // partitioned by murmur2 of the key, else the partition is kept
	Provenance bool // outputs carry provenance headers
	Start      offsets.Start
	AtMostOnce bool // positions are committed before the output

	// Every is the user's word that each input has at least one output, so that one without is missing.
	Every bool
	// From says where the bridge began; the zero value leaves it to Start.
	From From

	Client   []kgo.Opt // brokers, security
	Parallel int       // comparisons at a time; at least 1
	Examples int       // findings of each kind that the report holds
	// Patience is how long to wait for transactions that are open on the target.
	Patience time.Duration
	Limits   Limits
	Progress *Progress
	Log      *slog.Logger
}

// Progress shows how far an audit is, in offsets of both sides. A zero Progress is ready; it may be read at any time.
type Progress struct {
	Read, Total atomic.Int64
}

// fetchTotal is what all fetch answers under way may take together, in bytes as the broker sends them.
const fetchTotal = 32 << 20

// Run audits a pipeline. The error is about what kept it from being audited; faults of the pipeline are in the
// report. It ends with ctx, whose cause is the error then.
func Run(ctx context.Context, o Options) (*Report, error) {
	r, err := run(ctx, o)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return r, err
}

func run(ctx context.Context, o Options) (*Report, error) {
	if o.Progress == nil {
		o.Progress = &Progress{}
	}
	began := time.Now()
	client, err := kgo.NewClient(append(append([]kgo.Opt{}, o.Client...), kgo.BrokerMaxReadBytes(256<<20), kgo.MetadataMinAge(250*time.Millisecond))...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if err := reach(ctx, client); err != nil {
		return nil, err
	}
	snap, err := look(ctx, &o, kadm.NewClient(client))
	if err != nil {
		return nil, err
	}
	units := plan(&o, snap)
	c := &cluster{client: client, read: &o.Progress.Read}
	defer c.readers.Wait() // each ends with its unit
	widest := 1
	for _, u := range units {
		o.Progress.Total.Add(u.length())
		widest = max(widest, len(u.sources)+len(u.targets))
	}
	parallel := max(1, o.Parallel)
	c.bytes = int32(min(max(fetchTotal/(widest*parallel*2), 64<<10), 1<<20)) //nolint:gosec // bounded
	b := newBook(max(0, o.Examples))
	if err := readLetters(ctx, &o, c, snap, units, b); err != nil {
		return nil, err
	}
	group, running := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, u := range units {
		group.Go(func() error { return u.run(running, &o, c, b) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return report(&o, snap, units, b, began), nil
}

// reach fails early if there is no broker: the client would go on trying.
func reach(ctx context.Context, client *kgo.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	if err := client.Ping(ctx); err != nil {
		return &UnreachableError{err}
	}
	return nil
}

// UnreachableError says that no broker answers.
type UnreachableError struct{ Err error }

// Error says what was tried last.
func (e *UnreachableError) Error() string { return fmt.Sprintf("brokers cannot be reached: %v", e.Err) }

// Unwrap gives the client's error.
func (e *UnreachableError) Unwrap() error { return e.Err }

// ExitCode is that of brokers that cannot be reached (EX_UNAVAILABLE).
func (e *UnreachableError) ExitCode() int { return 69 }

// run compares one unit. What retention takes away meanwhile ends the comparison of the unit, not the audit.
func (u *unit) run(ctx context.Context, o *Options, c *cluster, b *book) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	u.connect(ctx, c, b)
	err := u.compare(ctx, o, b)
	if errors.Is(err, errDeleted) {
		for _, s := range u.sources {
			s.doubt(err.Error(), 0, s.begin)
		}
		for _, t := range u.targets {
			t.doubt(err.Error(), 0, nowhere)
		}
		return nil
	}
	return err
}

func (u *unit) compare(ctx context.Context, o *Options, b *book) error {
	switch u.method {
	case byOrigin:
		if err := (&origins{sources: u.sources, targets: u.targets, book: b, every: o.Every, tail: o.AtMostOnce}).run(ctx); err != nil {
			return err
		}
		u.orphanedLetters(b)
		return nil
	case byContent:
		m := &merge{sources: u.sources, targets: u.targets, limits: o.Limits.orDefaults(), book: b, tail: o.AtMostOnce, byName: u.byName}
		if u.unaligned && !u.byName {
			fits, err := u.align(ctx)
			if err != nil || !fits {
				return err
			}
		}
		if err := m.run(ctx); err != nil {
			return err
		}
		u.orphanedLetters(b)
		return u.proveSums()
	case byCount:
	}
	return u.count(ctx)
}

func (u *unit) orphanedLetters(b *book) {
	for _, s := range u.sources {
		s.orphanedLetters(b)
	}
}

// proveSums is a second opinion on a pass: both sides have to hold equally many records of the same content.
func (u *unit) proveSums() error {
	var records int64
	var sum uint64
	for _, s := range u.sources {
		if s.verdict() != Pass {
			return nil
		}
		records, sum = records+s.records, sum+s.sum
	}
	for _, t := range u.targets {
		if t.verdict() != Pass {
			return nil
		}
		records, sum = records-t.records, sum-t.sum
	}
	if records != 0 || sum != 0 {
		return errors.New("broken invariant: nothing was found, yet the sums of both sides differ; please report it")
	}
	return nil
}

// align brings the two partitions of a unit into line, or counts if that cannot be.
func (u *unit) align(ctx context.Context) (bool, error) {
	s, t := u.sources[0], u.targets[0]
	if s.begin >= s.committed {
		u.reason = "nothing of the source is left to compare with"
		return false, u.count(ctx)
	}
	if t.side.begin >= t.end {
		u.reason = "no output is left to compare with"
		return false, u.count(ctx)
	}
	a, err := align(ctx, s, t)
	if err != nil {
		return false, err
	}
	if !a.found {
		u.reason = "the topics do not begin with the same record (retention or BRIDGE_START), and where they meet was not found; --from or provenance headers would tell"
		return false, u.count(ctx)
	}
	if a.targetBefore > 0 {
		t.aside(asideDeleted, a.targetBefore)
	}
	if a.sourceBefore > 0 {
		reason := reasonStart
		if t.headless {
			reason = reasonTargetDeleted
		}
		s.doubt(reason, a.sourceBefore, s.begin)
		s.records += a.sourceBefore
	}
	s.begin, t.side.begin = a.source, a.target
	return true, nil
}

// count counts both sides where nothing can be compared.
func (u *unit) count(ctx context.Context) error {
	for _, s := range u.sources {
		if s.begin >= s.committed {
			continue
		}
		s.doubt(u.reason, 0, s.begin)
		if err := count(ctx, s.open(s.begin), s.count); err != nil {
			return err
		}
	}
	for _, t := range u.targets {
		if t.side.begin >= t.end {
			continue
		}
		t.doubt(u.reason, 0, nowhere)
		t.committed = nowhere
		if err := count(ctx, t.open(t.side.begin), t.count); err != nil {
			return err
		}
	}
	return nil
}

func count(ctx context.Context, next pull, take func([]item) bool) error {
	for {
		chunk, err := next(ctx)
		if isEnd(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if !take(chunk) {
			return nil
		}
	}
}

// logged is the name of a partition in an error.
func logged(tp offsets.TopicPartition) string {
	return fmt.Sprintf("topic %s partition %d", tp.Topic, tp.Partition)
}
