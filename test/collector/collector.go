// Package collector takes traces as an OpenTelemetry collector does. It decodes them by the published definitions
// (go.opentelemetry.io/proto) and shares no code with what sends them.
package collector

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	service "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	trace "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

// Collector keeps what it is sent.
type Collector struct {
	t testing.TB

	mu      sync.Mutex
	refuse  http.HandlerFunc // nil = everything is taken
	refused int
	taken   []Request
}

// Request is what was taken at once.
type Request struct {
	Header http.Header
	Path   string
	Traces *service.ExportTraceServiceRequest
}

// New returns a collector. What it cannot decode fails the test.
func New(t testing.TB) *Collector { return &Collector{t: t} }

// Serve lets the collector listen until the test ends, and returns its URL.
func (c *Collector) Serve() string {
	server := httptest.NewServer(c)
	c.t.Cleanup(server.Close)
	return server.URL
}

// Refuse has another one answer from now on; nil takes everything again.
func (c *Collector) Refuse(how http.HandlerFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = how
}

// Refused is how many requests were answered by another one.
func (c *Collector) Refused() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}

// Taken are the requests that were taken.
func (c *Collector) Taken() []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.taken)
}

// Spans are those of all requests that were taken, in their order.
func (c *Collector) Spans() []*trace.Span {
	var list []*trace.Span
	for _, r := range c.Taken() {
		for _, resource := range r.Traces.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				list = append(list, scope.GetSpans()...)
			}
		}
	}
	return list
}

// ServeHTTP implements http.Handler.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	c.mu.Lock()
	refuse := c.refuse
	if refuse != nil {
		c.refused++
	}
	c.mu.Unlock()
	if refuse != nil {
		refuse(w, r)
		return
	}
	var traces *service.ExportTraceServiceRequest
	if err == nil {
		traces, err = decode(r, body)
	}
	if err != nil {
		c.t.Errorf("the collector gets what it cannot read: %v\n%s", err, body)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	c.taken = append(c.taken, Request{Header: r.Header, Path: r.URL.Path, Traces: traces})
	c.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, "{}") // nobody is left to be told
}

func decode(r *http.Request, body []byte) (*service.ExportTraceServiceRequest, error) {
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		return nil, fmt.Errorf("a %s of %q", r.Method, r.Header.Get("Content-Type"))
	}
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		if body, err = io.ReadAll(unpacked); err != nil {
			return nil, err
		}
	}
	return Decode(body)
}

// Decode reads a request in the JSON of OTLP, which is that of protobuf but for two things: ids are hexadecimal, and
// enumerations are numbers. A field that the definitions do not have is an error.
func Decode(body []byte) (*service.ExportTraceServiceRequest, error) {
	var tree any
	numbers := json.NewDecoder(bytes.NewReader(body))
	numbers.UseNumber()
	if err := numbers.Decode(&tree); err != nil {
		return nil, err
	}
	if err := adapt(tree); err != nil {
		return nil, err
	}
	adapted, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	traces := &service.ExportTraceServiceRequest{}
	return traces, protojson.Unmarshal(adapted, traces)
}

// adapt makes the JSON of protobuf of OTLP's.
func adapt(tree any) error {
	switch node := tree.(type) {
	case []any:
		for _, child := range node {
			if err := adapt(child); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, child := range node {
			size, isID := map[string]int{"traceId": 16, "spanId": 8, "parentSpanId": 8}[name]
			switch {
			case isID:
				text, _ := child.(string)
				id, err := hex.DecodeString(text)
				if err != nil || len(id) != size || bytes.Count(id, []byte{0}) == size {
					return fmt.Errorf("%s %v is no id of %d bytes (%w)", name, child, size, err)
				}
				node[name] = base64.StdEncoding.EncodeToString(id)
			case name == "kind" || name == "code":
				if _, number := child.(json.Number); !number {
					return fmt.Errorf("%s %v is not a number", name, child)
				}
			default:
				if err := adapt(child); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Attributes makes a map of attributes: texts and 64-bit integers. A name that occurs twice is an error.
func Attributes(list []*common.KeyValue) (map[string]any, error) {
	m := map[string]any{}
	for _, kv := range list {
		if _, twice := m[kv.GetKey()]; twice {
			return nil, errors.New(kv.GetKey() + " occurs twice")
		}
		switch v := kv.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			m[kv.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			m[kv.GetKey()] = v.IntValue
		default:
			return nil, fmt.Errorf("%s is a %T", kv.GetKey(), v)
		}
	}
	return m, nil
}
