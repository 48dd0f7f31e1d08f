package cli

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eosbridge/eosbridge/bridge"
	"github.com/eosbridge/eosbridge/config"
	"github.com/eosbridge/eosbridge/internal/otlp"
)

// traceGrace is how long a stop waits at most for the last traces.
const traceGrace = 2 * time.Second

// tracing sends a trace of each epoch to an OpenTelemetry collector. A nil one sends nothing.
type tracing struct {
	exporter *otlp.Exporter[endedEpoch]
}

// endedEpoch is what is kept of an epoch until its trace is made.
type endedEpoch struct {
	bridge.EpochSummary
	at time.Time // when it ended
}

// newTracing has the bridge tell of its epochs, if the configuration says where their traces go. The error is a
// *config.Problems.
func newTracing(cfg *config.Config, o *bridge.Options) (*tracing, error) {
	to := cfg.Tracing()
	if to == nil {
		return nil, nil //nolint:nilnil // a nil *tracing is one that is off
	}
	transport := &http.Transport{IdleConnTimeout: time.Minute, DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext}
	if to.TLS {
		dialer, err := dialerFor(traceTLSFiles(to), o.Log)
		if err != nil {
			return nil, err
		}
		transport.DialTLSContext = dialer.dial
	}
	out := otlp.Options{
		URL: to.URL, Timeout: to.Timeout, Gzip: to.Gzip, Transport: transport,
		Resource: traceResource(to, o), Scope: "eosbridge", Version: o.Version,
		Counted: traceCounter(o.Registerer), Log: o.Log,
	}
	if to.Headers {
		out.Headers = func() (map[string]string, error) {
			pairs, err := cfg.TraceHeaders()
			headers := make(map[string]string, len(pairs))
			for _, p := range pairs {
				headers[p.Name] = p.Value
			}
			return headers, err
		}
	}
	warnOfTracing(to, o.Log)
	t := &tracing{exporter: otlp.New(out, newTraceMaker(o).spans)}
	o.Ended = func(s bridge.EpochSummary) { t.exporter.Offer(endedEpoch{s, time.Now()}) }
	return t, nil
}

// start sends until the returned function is called, which waits for the last traces, and not at all once abort has ended.
func (t *tracing) start(abort context.Context) (stop func()) {
	if t == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(abort))
	ended := make(chan struct{})
	go func() { // stop ends it and waits for it
		defer close(ended)
		t.exporter.Run(ctx, traceGrace)
	}()
	return func() {
		cancel()
		select {
		case <-ended:
		case <-abort.Done(): // the process ends, and what is under way with it
		}
	}
}

// warnOfTracing tells what the user may not expect.
func warnOfTracing(to *config.Tracing, log *slog.Logger) {
	if to.Protobuf {
		log.Warn("traces are sent as json, not as protobuf", "variable", "OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	u, err := url.Parse(to.URL)
	if err != nil || to.TLS || !to.Headers {
		return
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		log.Warn("the headers of traces are sent without encryption", "variable", "OTEL_EXPORTER_OTLP_HEADERS")
	}
}

func traceTLSFiles(to *config.Tracing) tlsFiles {
	return tlsFiles{ca: to.Certificate, cert: to.ClientCertificate, key: to.ClientKey}
}

// checkTracing reports TLS files for the collector that can be read and hold the wrong thing.
func checkTracing(cfg *config.Config) []config.Problem {
	to := cfg.Tracing()
	if to == nil || !to.TLS || (to.ClientCertificate.Path == "") != (to.ClientKey.Path == "") {
		return nil
	}
	var wrong *config.Problems
	if _, err := traceTLSFiles(to).load(); errors.As(err, &wrong) {
		return wrong.List
	}
	return nil
}

// traceResource says who we are; what the user says wins.
func traceResource(to *config.Tracing, o *bridge.Options) []otlp.Attribute {
	all := append([]config.Pair{{Name: "service.name", Value: "eosbridge"}, {Name: "service.version", Value: o.Version}, {Name: "service.instance.id", Value: o.Instance}}, to.Resource...)
	at := map[string]int{}
	var resource []otlp.Attribute
	for _, p := range all {
		attribute := otlp.Text(p.Name, p.Value)
		if i, twice := at[p.Name]; twice {
			resource[i] = attribute
			continue
		}
		at[p.Name] = len(resource)
		resource = append(resource, attribute)
	}
	return resource
}

// traceCounter counts epochs by what became of their traces. The metric exists only where traces are sent.
func traceCounter(reg prometheus.Registerer) func(delivered bool, n int) {
	epochs := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "eosbridge", Name: "traced_epochs_total",
		Help: "Epochs whose trace a collector has taken (delivered), or was given up (lost): refused, or too old while the collector was away.",
	}, []string{"outcome"})
	reg.MustRegister(epochs)
	delivered, lost := epochs.WithLabelValues("delivered"), epochs.WithLabelValues("lost")
	return func(taken bool, n int) {
		if taken {
			delivered.Add(float64(n))
		} else {
			lost.Add(float64(n))
		}
	}
}

// traceMaker makes the trace of an epoch.
type traceMaker struct {
	always []otlp.Attribute // of each epoch
	output otlp.Attribute
	prefix string // of the transactional id; empty if there are none
	early  bool   // positions are committed before there are outputs to flush
}

func newTraceMaker(o *bridge.Options) *traceMaker {
	m := &traceMaker{
		always: []otlp.Attribute{
			otlp.Text("messaging.system", "kafka"), otlp.Text("messaging.consumer.group.name", o.Group), otlp.Text("eosbridge.instance", o.Instance),
		},
		output: otlp.Text("messaging.destination.name", o.Output),
		early:  o.Delivery == bridge.AtMostOnce,
	}
	if strings.Contains(o.Output, "{topic}") {
		m.output = otlp.Text("messaging.destination.template", o.Output)
	}
	if o.Delivery == bridge.ExactlyOnce {
		m.prefix = o.Prefix + "." + o.Instance + "."
	}
	return m
}

// spans appends the trace of an epoch: the epoch itself, and below it the steps that it has reached and the one that
// failed. A step begins where the one before has ended, so its time has the wait for the epoch before in it.
func (m *traceMaker) spans(list []otlp.Span, e endedEpoch) []otlp.Span {
	at := func(step time.Duration) time.Time {
		if step == 0 {
			return time.Time{}
		}
		return e.Triggered.Add(step)
	}
	aligned, flushed, sent, committed := at(e.Aligned), at(e.Flushed), at(e.OffsetsSent), at(e.Committed)
	root := otlp.Span{
		Trace: otlp.NewTraceID(), ID: otlp.NewSpanID(), Name: "epoch", Kind: otlp.Internal, Start: e.begin(), Attributes: m.describe(e.EpochSummary),
		Failed: e.Outcome == bridge.OutcomeAborted, Message: e.Err,
	}
	var steps []otlp.Span
	step := func(name string, kind otlp.Kind, start, end time.Time, attributes ...otlp.Attribute) {
		if start.IsZero() || end.IsZero() {
			return
		}
		steps = append(steps, otlp.Span{Trace: root.Trace, ID: otlp.NewSpanID(), Parent: root.ID, Name: name, Kind: kind, Start: start, End: end, Attributes: attributes})
	}
	ready := latest(aligned, flushed, sent)
	sending := aligned
	if sent.After(flushed) && !flushed.IsZero() { // else they were sent while the outputs were on their way
		sending = flushed
	}
	step("transform", otlp.Internal, root.Start, aligned)
	step("flush", otlp.Client, aligned, flushed, m.output)
	step("send offsets", otlp.Client, sending, sent)
	if e.Outcome == bridge.OutcomeCommitted && m.prefix != "" {
		step("end transaction", otlp.Client, ready, committed)
	}
	root.End = latest(root.Start, ready, committed)
	if root.Failed {
		root.End = latest(root.End, e.at)
		// Of two steps beside each other the flush is named: without it nothing could have followed.
		name, kind := "end transaction", otlp.Client
		switch {
		case aligned.IsZero():
			name, kind, ready = "transform", otlp.Internal, root.Start
		case flushed.IsZero() && !m.early:
			name, ready = "flush", aligned
		case sent.IsZero() || m.prefix == "":
			name = "send offsets"
		}
		step(name, kind, ready, root.End, otlp.Text("error.type", e.Class))
		failed := &steps[len(steps)-1]
		failed.Failed, failed.Message = true, e.Err
	}
	return append(append(list, root), steps...)
}

// begin is when the epoch took its first record; one that took none begins with its barrier.
func (e *endedEpoch) begin() time.Time {
	if e.Opened.IsZero() || e.Opened.After(e.Triggered) {
		return e.Triggered
	}
	return e.Opened
}

func latest(times ...time.Time) (last time.Time) {
	for _, t := range times {
		if t.After(last) {
			last = t
		}
	}
	return last
}

// describe is what is told of an epoch, by the names of OpenTelemetry's conventions for messaging where there are some.
func (m *traceMaker) describe(s bridge.EpochSummary) []otlp.Attribute {
	list := append(make([]otlp.Attribute, 0, len(m.always)+14), m.always...)
	list = append(list,
		otlp.Number("messaging.batch.message_count", s.RecordsIn),
		otlp.Number("eosbridge.epoch", int64(s.Epoch)),
		otlp.Text("eosbridge.outcome", s.Outcome),
		otlp.Text("eosbridge.trigger", s.Trigger),
		otlp.Number("eosbridge.generation", int64(s.Generation)),
		otlp.Number("eosbridge.partitions", int64(s.Partitions)),
		otlp.Number("eosbridge.records_in", s.RecordsIn),
		otlp.Number("eosbridge.records_out", s.RecordsOut),
		otlp.Number("eosbridge.bytes_in", s.BytesIn),
		otlp.Number("eosbridge.bytes_out", s.BytesOut),
		otlp.Number("eosbridge.dead_letters", s.DeadLetters),
	)
	if m.prefix != "" && s.Outcome != bridge.OutcomeCarried {
		list = append(list, otlp.Text("eosbridge.transactional_id", m.prefix+strconv.Itoa(s.Slot)))
	}
	if s.Class != "" {
		list = append(list, otlp.Text("error.type", s.Class))
	}
	return list
}
