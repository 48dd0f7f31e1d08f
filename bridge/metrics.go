package bridge

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/eosbridge/eosbridge/offsets"
)

const metricsNamespace = "eosbridge"

// metrics are the instruments that count. Each is changed once per epoch or per restart, never per record.
// What describes a moment (state, lag, memory) is not kept here but read from the board: see pictureCollector.
type metrics struct {
	epochs   *prometheus.CounterVec // outcome, class
	records  *prometheus.CounterVec // direction
	bytes    *prometheus.CounterVec // direction
	restarts *prometheus.CounterVec // class
	carried  *prometheus.CounterVec // path, reason
	failures *prometheus.CounterVec // class, action
	letters  prometheus.Counter
	stall    prometheus.Counter
	held     prometheus.Counter

	duration  prometheus.Histogram
	alignment prometheus.Histogram
	flush     prometheus.Histogram
	commit    prometheus.Histogram
}

// newMetrics registers the instruments and the pictures of the board with reg. A nil reg registers nothing.
//
// Registering a second time goes on with the counters that are there and shows the newer board, so that a
// process may make several bridges, one after the other, over one registry. The error says which metric
// clashes with a foreign one of the same name.
func newMetrics(reg prometheus.Registerer, b *board) (*metrics, error) {
	m := &metrics{}
	var errs []error
	m.epochs = registerMetric(reg, &errs, counterVec("epochs_total",
		"Epochs that ended, by outcome (committed, aborted, carried: nothing to write) and class of failure.",
		"outcome", "class"))
	m.records = registerMetric(reg, &errs, counterVec("records_total",
		"Records read (in) and written (out) by epochs that did not abort. A replayed record counts once.",
		"direction"))
	m.bytes = registerMetric(reg, &errs, counterVec("bytes_total",
		"Bytes of keys, values and headers read (in) and written (out) by epochs that did not abort; with pass-through those of whole batches, compressed as they are.",
		"direction"))
	m.restarts = registerMetric(reg, &errs, counterVec("restarts_total",
		"Restarts inside the process, by the class of failure that led to them.", "class"))
	m.carried = registerMetric(reg, &errs, counterVec("batches_total",
		"Batches of the input that pass-through has handed on as they are (passed) or decoded and made anew (decoded), and why. "+
			"Those of aborted epochs count, too, and again when they are replayed. Nothing is counted where a pipeline decodes everything.",
		"path", "reason"))
	m.failures = registerMetric(reg, &errs, counterVec("failed_records_total",
		"Records of the input that could not be bridged as they should be, by class (transform, panic, too-large, timestamp, no-key, refused) and by what becomes of them: "+
			"skip (left out) or dlq (dead letter). Those of aborted epochs count, too, and again when they are replayed. With BRIDGE_ON_ERROR=fail the first one ends the bridge.",
		"class", "action"))
	m.letters = registerMetric(reg, &errs, prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: metricsNamespace, Name: "dead_letters_total",
		Help: "Dead letters written to BRIDGE_DLQ_TOPIC by epochs that did not abort. They count in records_total (out), too.",
	}))
	m.stall = registerMetric(reg, &errs, prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: metricsNamespace, Name: "lane_stall_seconds_total",
		Help: "Time in which input waited while a lane neither transformed nor produced, summed over the lanes: at a barrier with input behind it, or because reading paused for the memory budget or the limits of an epoch.",
	}))
	m.held = registerMetric(reg, &errs, prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: metricsNamespace, Name: "lane_held_seconds_total",
		Help: "Time in which outputs of a lane waited for the epoch before to be flushed and its input was used up, summed over the lanes. It delays outputs and costs no throughput, unless reading pauses meanwhile, which counts as a stall too.",
	}))
	m.duration = registerMetric(reg, &errs, histogram("epoch_duration_seconds",
		"From the barrier of an epoch to its acknowledged commit."))
	m.alignment = registerMetric(reg, &errs, histogram("epoch_alignment_seconds",
		"From the barrier of an epoch until every lane has passed it."))
	m.flush = registerMetric(reg, &errs, histogram("epoch_flush_seconds",
		"From the alignment of an epoch until every record of it was acknowledged."))
	m.commit = registerMetric(reg, &errs, histogram("epoch_commit_seconds",
		"From the flush of an epoch to its acknowledged commit, waiting for the epoch before included."))
	if reg != nil {
		pictures := newPictureCollector(b)
		reg.Unregister(pictures) // an older board's: it is found by its descriptions
		if err := reg.Register(pictures); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register metrics (a foreign metric of the same name is in the registry): %w", err)
	}
	m.begin()
	return m, nil
}

// begin makes every series that will ever exist visible at zero: a rate over a series that appears with its
// first event would miss that event.
func (m *metrics) begin() {
	m.epochs.WithLabelValues(OutcomeCommitted, "")
	m.epochs.WithLabelValues(OutcomeCarried, "")
	for _, class := range classes() {
		m.epochs.WithLabelValues(OutcomeAborted, class)
		m.restarts.WithLabelValues(class)
	}
	m.carried.WithLabelValues("passed", passedAsIs)
	for _, class := range failureKinds() {
		m.failures.WithLabelValues(class, string(Skip))
		m.failures.WithLabelValues(class, string(DeadLetter))
	}
	for _, reason := range decodedReasons() {
		m.carried.WithLabelValues("decoded", reason)
	}
	for _, direction := range []string{"in", "out"} {
		m.records.WithLabelValues(direction)
		m.bytes.WithLabelValues(direction)
	}
}

// epoch counts an epoch that has ended.
//
// Records of an aborted epoch are not counted: they come again. A carried epoch counts at once although its
// positions are committed later; a restart in between reads its records, which had no output, once more.
func (m *metrics) epoch(s EpochSummary) {
	m.epochs.WithLabelValues(s.Outcome, s.Class).Inc()
	if s.Outcome != OutcomeAborted {
		m.records.WithLabelValues("in").Add(float64(s.RecordsIn))
		m.records.WithLabelValues("out").Add(float64(s.RecordsOut))
		m.bytes.WithLabelValues("in").Add(float64(s.BytesIn))
		m.bytes.WithLabelValues("out").Add(float64(s.BytesOut))
		m.letters.Add(float64(s.DeadLetters))
	}
	if s.Aligned > 0 {
		m.alignment.Observe(s.Aligned.Seconds())
	}
	if s.Flushed > 0 {
		m.flush.Observe(max(s.Flushed-s.Aligned, 0).Seconds())
	}
	if s.Committed > 0 && s.Outcome == OutcomeCommitted { // a carried epoch ends without an acknowledgement
		m.commit.Observe(max(s.Committed-s.Flushed, 0).Seconds())
		m.duration.Observe(s.Committed.Seconds())
	}
}

// batches counts batches of the input that went one way for one reason.
func (m *metrics) batches(reason string, n int) {
	path := "decoded"
	if reason == passedAsIs {
		path = "passed"
	}
	m.carried.WithLabelValues(path, reason).Add(float64(n))
}

// failure counts an input that could not be bridged.
func (m *metrics) failure(class string, action OnError) {
	m.failures.WithLabelValues(class, string(action)).Inc()
}

// restart counts a restart inside the process; err is what led to it.
func (m *metrics) restart(err error) { m.restarts.WithLabelValues(classOf(err)).Inc() }

// stalled adds time in which input waited for a lane that did nothing. Negative time is ignored.
func (m *metrics) stalled(d time.Duration) { m.stall.Add(max(d, 0).Seconds()) }

// holding adds time in which a lane had nothing but outputs that had to wait. Negative time is ignored.
func (m *metrics) holding(d time.Duration) { m.held.Add(max(d, 0).Seconds()) }

// registerMetric returns c, or the one like it that is already in reg. A clash is added to errs.
func registerMetric[C prometheus.Collector](reg prometheus.Registerer, errs *[]error, c C) C {
	if reg == nil {
		return c
	}
	err := reg.Register(c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(C); ok {
			return existing
		}
	}
	if err != nil {
		*errs = append(*errs, err)
	}
	return c
}

func counterVec(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metricsNamespace, Name: name, Help: help,
	}, labels)
}

// histogram covers a local commit (milliseconds) as well as one that waits for a coordinator to move.
func histogram(name, help string) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: metricsNamespace, Name: name, Help: help,
		Buckets: []float64{
			0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 60,
		},
	})
}

// pictureCollector turns one snapshot of the board into gauges at each scrape, so that they agree with each
// other and with /api/status.
type pictureCollector struct {
	board *board

	state, assigned, interval, committed, waiting, txnAge, lag, stable, unstable, memoryUsed, memoryBudget, interpreted, build *prometheus.Desc

	mu     sync.Mutex
	labels map[offsets.TopicPartition][]*dto.LabelPair // of partitions that were seen; they are most of what a series costs
}

func newPictureCollector(b *board) *pictureCollector {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(metricsNamespace, "", name), help, labels, nil)
	}
	return &pictureCollector{
		board: b,
		state: describe("state", "1 for the state in which the process is, 0 for the others.", "state"),
		assigned: describe("assigned_partitions",
			"Input partitions assigned to this instance."),
		interval: describe("epoch_interval_seconds",
			"Interval between barriers in force: BRIDGE_EPOCH_INTERVAL, or up to BRIDGE_EPOCH_MAX_INTERVAL while the source is behind."),
		committed: describe("last_commit_timestamp_seconds",
			"When an epoch was last committed, in seconds since 1970; 0 before the first."),
		waiting: describe("waiting_for_positions_seconds",
			"For how long assigned partitions have had no positions, because a transaction that holds some is not decided; 0 when they have them."),
		txnAge: describe("open_transaction_age_ratio",
			"Age of the oldest open transaction divided by the transaction timeout; at 1 the broker aborts it."),
		lag: describe("lag_records",
			"Offsets between the committed position and the last stable offset, per partition of this instance.",
			"topic", "partition"),
		stable: describe("last_stable_offset",
			"Last stable offset of an input partition of this instance: as far as anyone may read who is read_committed.",
			"topic", "partition"),
		unstable: describe("unstable_records",
			"Offsets between the last stable offset and the high watermark of an input partition: records of open transactions, and all behind them.",
			"topic", "partition"),
		memoryUsed:   describe("memory_used_bytes", "Decoded batches in memory whose records are not all acknowledged."),
		memoryBudget: describe("memory_budget_bytes", "Limit of memory_used_bytes; polling waits when it is reached."),
		interpreted: describe("transform_interpreted",
			"1 if a WebAssembly guest of the chain is interpreted because it cannot be compiled here, for about forty times the CPU time; else 0."),
		build: describe("build_info", "Always 1; the label tells the version.", "version"),
	}
}

// Describe implements prometheus.Collector.
func (c *pictureCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.state, c.assigned, c.interval, c.committed, c.waiting, c.txnAge, c.lag, c.stable, c.unstable, c.memoryUsed, c.memoryBudget, c.interpreted, c.build,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *pictureCollector) Collect(out chan<- prometheus.Metric) {
	s := c.board.snapshot()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for _, state := range states() {
		value := 0.0
		if state == s.State {
			value = 1
		}
		gauge(c.state, value, string(state))
	}
	gauge(c.assigned, float64(s.assignedPartitions()))
	gauge(c.interval, s.IntervalSeconds)
	committed := 0.0
	if at := s.LastCommitted.At; !at.IsZero() {
		committed = float64(at.UnixMilli()) / 1000
	}
	gauge(c.committed, committed)
	gauge(c.waiting, c.board.waited().Seconds())
	gauge(c.txnAge, s.OpenTxn.Share)
	c.partitions(s.Lag.Partitions, out)
	gauge(c.memoryUsed, float64(s.Memory.Used))
	gauge(c.memoryBudget, float64(s.Memory.Budget))
	interpreted := 0.0
	if s.Interpreted {
		interpreted = 1
	}
	gauge(c.interpreted, interpreted)
	gauge(c.build, 1, s.Version)
}

// partitions gives the gauges of each partition: with a thousand of them they are nearly all that a scrape costs.
func (c *pictureCollector) partitions(lags []PartitionLag, out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.labels) > 2*len(lags) { // partitions that have gone
		c.labels = nil
	}
	if c.labels == nil {
		c.labels = make(map[offsets.TopicPartition][]*dto.LabelPair, len(lags))
	}
	gauges := make([]partitionGauge, 3*len(lags))
	for i, l := range lags {
		name := offsets.TopicPartition{Topic: l.Topic, Partition: l.Partition}
		labels, known := c.labels[name]
		if !known {
			labels = slices.Clip(prometheus.MakeLabelPairs(c.lag, []string{l.Topic, strconv.Itoa(int(l.Partition))}))
			c.labels[name] = labels
		}
		r := gauges[3*i : 3*i+3]
		r[0].desc, r[0].value = c.lag, float64(l.Lag)
		r[1].desc, r[1].value = c.stable, float64(l.LastStable)
		r[2].desc, r[2].value = c.unstable, float64(l.End-l.LastStable)
		for j := range r {
			r[j].labels = labels
			out <- &r[j]
		}
	}
}

// partitionGauge is a gauge of one moment. It shares its labels with others.
type partitionGauge struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	value  float64
	gauge  dto.Gauge
}

// Desc implements prometheus.Metric.
func (r *partitionGauge) Desc() *prometheus.Desc { return r.desc }

// Write implements prometheus.Metric.
func (r *partitionGauge) Write(out *dto.Metric) error {
	r.gauge.Value = &r.value
	out.Label, out.Gauge = r.labels, &r.gauge
	return nil
}
