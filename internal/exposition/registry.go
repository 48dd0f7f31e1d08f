// Package exposition answers scrapes: the metrics of a process in Prometheus' text format.
//
// It is client_golang's registry with another way to read it. That one starts a goroutine for each collector and gives its
// turn away after each start; where the cores are taken, each turn is a wait, and its handler adds one more, a message of
// protocol buffers for each series, and a compressor. Here a scrape is two goroutines that hand over to each other, and text.
package exposition

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// contentType is what each Prometheus can read, whatever else it asks for.
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// atOnce is how many scrapes are answered at the same time: more that pile up would take the memory of the records.
const atOnce = 4

// Registry holds collectors, and is the handler that shows what they collect. It is safe for several goroutines.
type Registry struct {
	checked *prometheus.Registry // knows which collectors clash
	log     *slog.Logger
	turns   chan struct{} // full: atOnce scrapes are under way

	mu         sync.Mutex
	collectors []registered
	families   map[*prometheus.Desc]*family // of the descriptions that the collectors have given
	byName     map[string]*family
}

// registered is a collector with what it is found by: two with the same descriptions are the same to a registry.
type registered struct {
	prometheus.Collector
	id string
}

// New returns a registry that has nothing yet, and tells log of collectors that fail.
func New(log *slog.Logger) *Registry {
	return &Registry{
		checked: prometheus.NewRegistry(), log: log, turns: make(chan struct{}, atOnce),
		families: map[*prometheus.Desc]*family{}, byName: map[string]*family{},
	}
}

// Register implements prometheus.Registerer. The error is client_golang's: a clash with what is there already.
func (r *Registry) Register(c prometheus.Collector) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.checked.Register(c); err != nil {
		return err //nolint:wrapcheck // callers look for prometheus.AlreadyRegisteredError
	}
	descriptions := describe(c)
	for _, d := range descriptions {
		if f, err := r.familyOf(d); err == nil {
			r.families[d] = f
		}
	}
	r.collectors = append(r.collectors, registered{c, identity(descriptions)})
	return nil
}

// MustRegister implements prometheus.Registerer.
func (r *Registry) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

// Unregister implements prometheus.Registerer: a collector is found by its descriptions, not by its address.
func (r *Registry) Unregister(c prometheus.Collector) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.checked.Unregister(c) {
		return false
	}
	id := identity(describe(c))
	r.collectors = slices.DeleteFunc(r.collectors, func(old registered) bool {
		if old.id != id {
			return false
		}
		for _, d := range describe(old) {
			delete(r.families, d)
		}
		return true
	})
	return true
}

// Gather implements prometheus.Gatherer, as client_golang does it: slower, and checked once more.
func (r *Registry) Gather() ([]*dto.MetricFamily, error) {
	return r.checked.Gather() //nolint:wrapcheck // this is its method
}

// ServeHTTP answers a scrape. A collector that fails is left out and logged; without any other, or with too many scrapes
// under way, the status is 500 or 503.
func (r *Registry) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	select {
	case r.turns <- struct{}{}:
		defer func() { <-r.turns }()
	default:
		http.Error(w, fmt.Sprintf("%d scrapes are under way already", atOnce), http.StatusServiceUnavailable)
		return
	}
	body, err := r.text()
	if err != nil {
		r.log.Warn("metrics are not complete", "err", err)
		if len(body) == 0 {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	header := w.Header()
	header.Set("Content-Type", contentType)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // a client that went away is nobody's concern
}

// text is what all collectors have now, and why some of it is missing.
func (r *Registry) text() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.byName {
		f.series = f.series[:0]
	}
	// The collectors run in one goroutine, one after the other, and this one writes: whoever waits for the other is woken
	// as the next of this core, so neither waits for its turn behind the lanes.
	metrics := make(chan prometheus.Metric, 512)
	var broken error // written before metrics is closed
	collectors := r.collectors
	go func() {
		defer close(metrics)
		for _, c := range collectors {
			broken = errors.Join(broken, collect(c, metrics))
		}
	}()
	var errs []error
	var read dto.Metric
	for m := range metrics {
		if err := r.write(m, &read); err != nil {
			errs = append(errs, err)
		}
	}
	names, size := make([]string, 0, len(r.byName)), 0
	for name, f := range r.byName {
		if len(f.series) > 0 {
			names, size = append(names, name), size+len(f.head)+len(f.series)
		}
	}
	slices.Sort(names)
	body := make([]byte, 0, size)
	for _, name := range names {
		f := r.byName[name]
		body = append(append(body, f.head...), f.series...)
	}
	return body, errors.Join(append(errs, broken)...)
}

// write adds a series to its family; read is scratch.
func (r *Registry) write(m prometheus.Metric, read *dto.Metric) error {
	f, known := r.families[m.Desc()]
	if !known { // a registerer that adds labels describes anew each time
		var err error
		if f, err = r.familyOf(m.Desc()); err != nil {
			return err
		}
	}
	read.Label, read.Counter, read.Gauge, read.Histogram, read.Summary, read.Untyped = nil, nil, nil, nil, nil, nil
	if err := m.Write(read); err != nil {
		return fmt.Errorf("metric %s: %w", f.name, err)
	}
	return f.add(read)
}

// collect runs a collector. One that panics must not end the bridge.
func collect(c prometheus.Collector, out chan<- prometheus.Metric) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a collector of metrics panicked: %v", p)
		}
	}()
	c.Collect(out)
	return nil
}

// familyOf finds or makes the family that a description belongs to.
func (r *Registry) familyOf(d *prometheus.Desc) (*family, error) {
	name, help, err := nameOf(d)
	if err != nil {
		return nil, err
	}
	f := r.byName[name]
	if f == nil {
		f = &family{name: name, help: help}
		r.byName[name] = f
	}
	return f, nil
}

// nameOf reads a description's name and help out of its text, the only place where it tells them to others.
func nameOf(d *prometheus.Desc) (name, help string, err error) {
	text := d.String()
	for _, field := range []struct {
		before string
		value  *string
	}{{"Desc{fqName: ", &name}, {", help: ", &help}} {
		rest, ok := strings.CutPrefix(text, field.before)
		quoted, err := strconv.QuotedPrefix(rest)
		if !ok || err != nil {
			return "", "", fmt.Errorf("no %q in the description of a metric: %s", field.before, d)
		}
		if *field.value, err = strconv.Unquote(quoted); err != nil {
			return "", "", fmt.Errorf("%q in the description of a metric: %w", field.before, err)
		}
		text = rest[len(quoted):]
	}
	return name, help, nil
}

// describe returns a collector's descriptions.
func describe(c prometheus.Collector) []*prometheus.Desc {
	out := make(chan *prometheus.Desc)
	go func() {
		defer close(out)
		c.Describe(out)
	}()
	var all []*prometheus.Desc
	for d := range out {
		all = append(all, d)
	}
	return all
}

func identity(descriptions []*prometheus.Desc) string {
	lines := map[string]bool{}
	for _, d := range descriptions {
		lines[d.String()] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(lines)), "\n")
}
