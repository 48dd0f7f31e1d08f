// Package otlp sends spans to an OpenTelemetry collector: OTLP over HTTP in its JSON form
// (https://opentelemetry.io/docs/specs/otlp), written by hand, because the OpenTelemetry SDK would add megabytes to the
// binary for one kind of message.
//
// Decision: what is sent is made from things that have ended (T of Exporter). Whoever offers one hands over a copy and
// goes on; the spans, their encoding and the network belong to the goroutine of Run. A collector that is away costs the
// oldest of what waits, a counter and a line of log, never time.
package otlp

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"
)

// TraceID names a trace. All zero is invalid.
type TraceID [16]byte

// SpanID names a span within its trace. All zero is invalid, and stands for no parent.
type SpanID [8]byte

// NewTraceID returns a random id.
func NewTraceID() (id TraceID) {
	fill(id[:])
	return id
}

// NewSpanID returns a random id.
func NewSpanID() (id SpanID) {
	fill(id[:])
	return id
}

// fill needs no secrecy, only ids that differ: Go's generator is seeded by the system.
func fill(id []byte) {
	for {
		ones := byte(0)
		for i := range id {
			id[i] = byte(rand.Uint32())
			ones |= id[i]
		}
		if ones != 0 {
			return
		}
	}
}

// MarshalText writes hexadecimal digits: OTLP's JSON departs here from that of protobuf, which would be base64.
func (id TraceID) MarshalText() ([]byte, error) { return hexadecimal(id[:]), nil }

// MarshalText writes hexadecimal digits, none if there is no span.
func (id SpanID) MarshalText() ([]byte, error) {
	if id == (SpanID{}) {
		return nil, nil
	}
	return hexadecimal(id[:]), nil
}

func hexadecimal(id []byte) []byte {
	text := make([]byte, hex.EncodedLen(len(id)))
	hex.Encode(text, id)
	return text
}

// Kind is the role of a span (opentelemetry.proto.trace.v1.Span.SpanKind).
type Kind int

// The kinds that are used here.
const (
	Internal Kind = 1 // within the process
	Client   Kind = 3 // waits for another one's answer
)

// Span is a step that has ended.
type Span struct {
	Trace      TraceID
	ID, Parent SpanID
	Name       string
	Kind       Kind
	Start, End time.Time
	Attributes []Attribute
	Failed     bool
	Message    string // what went wrong, if it failed
}

// Attribute is a name with a text or a number.
type Attribute struct {
	Key    string
	text   string
	number int64
	isText bool
}

// Text returns an attribute with a text.
func Text(key, value string) Attribute { return Attribute{Key: key, text: value, isText: true} }

// Number returns an attribute with a whole number.
func Number(key string, value int64) Attribute { return Attribute{Key: key, number: value} }

// MarshalJSON writes a KeyValue. A 64-bit integer is a string in the JSON of protobuf.
func (a Attribute) MarshalJSON() ([]byte, error) {
	w := wireAttribute{Key: a.Key}
	if a.isText {
		w.Value.Text = &a.text
	} else {
		w.Value.Number = &a.number
	}
	return json.Marshal(w)
}

type wireAttribute struct {
	Key   string `json:"key"`
	Value struct {
		Text   *string `json:"stringValue,omitempty"`
		Number *int64  `json:"intValue,omitempty,string"`
	} `json:"value"`
}

// What is sent is an ExportTraceServiceRequest (opentelemetry/proto/collector/trace/v1) with one resource and one scope.
type (
	wireRequest struct {
		ResourceSpans []wireResourceSpans `json:"resourceSpans"`
	}
	wireResourceSpans struct {
		Resource   wireResource     `json:"resource"`
		ScopeSpans []wireScopeSpans `json:"scopeSpans"`
	}
	wireResource struct {
		Attributes []Attribute `json:"attributes"`
	}
	wireScopeSpans struct {
		Scope wireScope  `json:"scope"`
		Spans []wireSpan `json:"spans"`
	}
	wireScope struct {
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
	}
	wireSpan struct {
		Trace      TraceID     `json:"traceId"`
		ID         SpanID      `json:"spanId"`
		Parent     SpanID      `json:"parentSpanId,omitzero"`
		Name       string      `json:"name"`
		Kind       Kind        `json:"kind"`
		Start      int64       `json:"startTimeUnixNano,string"`
		End        int64       `json:"endTimeUnixNano,string"`
		Attributes []Attribute `json:"attributes,omitempty"`
		Status     *wireStatus `json:"status,omitempty"`
	}
	wireStatus struct {
		Message string `json:"message,omitempty"`
		Code    int    `json:"code"`
	}
)

// statusError is opentelemetry.proto.trace.v1.Status.STATUS_CODE_ERROR. A span that went well has no status: OK is
// for people who judge it.
const statusError = 2

func encode(resource []Attribute, scope wireScope, spans []Span) ([]byte, error) {
	wire := make([]wireSpan, len(spans))
	for i, s := range spans {
		wire[i] = wireSpan{
			Trace: s.Trace, ID: s.ID, Parent: s.Parent, Name: s.Name, Kind: s.Kind,
			Start: s.Start.UnixNano(), End: max(s.End.UnixNano(), s.Start.UnixNano()), Attributes: s.Attributes,
		}
		if s.Failed {
			wire[i].Status = &wireStatus{Message: s.Message, Code: statusError}
		}
	}
	body, err := json.Marshal(wireRequest{[]wireResourceSpans{{
		Resource:   wireResource{resource},
		ScopeSpans: []wireScopeSpans{{Scope: scope, Spans: wire}},
	}}})
	if err != nil {
		return nil, fmt.Errorf("encode %d spans: %w", len(spans), err)
	}
	return body, nil
}
