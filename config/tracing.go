package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// The prefixes of OpenTelemetry's variables. The last one is about traces alone, and wins.
const (
	tracingPrefix = "OTEL_"
	otlpPrefix    = "OTEL_EXPORTER_OTLP_"
	tracesPrefix  = "OTEL_EXPORTER_OTLP_TRACES_"
)

// The words of OpenTelemetry's settings that are known here.
const (
	otlpJSON     = "http/json"
	otlpProtobuf = "http/protobuf"
	otlpGRPC     = "grpc"
)

// defaultOTLPTimeout is that of OpenTelemetry's specification.
const defaultOTLPTimeout = 10 * time.Second

// Pair is a name with a value.
type Pair struct{ Name, Value string }

// NamedFile is the path of a file and the variable that it is from. Both are empty if there is none.
type NamedFile struct{ Variable, Path string }

// Tracing says where traces go: the variables for traces alone where they are set, else those for everything.
type Tracing struct {
	URL     string        // whole
	Timeout time.Duration // of one request
	Gzip    bool
	TLS     bool // the URL is https
	// Protobuf says that the user has asked for a form that is not sent.
	Protobuf bool
	// Headers says that there are some; Config.TraceHeaders has them.
	Headers bool
	// Resource is what the user has to say of this process.
	Resource []Pair

	Certificate, ClientCertificate, ClientKey NamedFile
}

// Traced says whether traces are sent.
func (c *Config) Traced() bool {
	return c.OTLPTraces.Endpoint+c.OTLP.Endpoint != "" && !c.OTel.SDKDisabled && !strings.EqualFold(c.OTel.TracesExporter, "none")
}

// Tracing returns where traces go; nil if none are sent. What breaks a law is zero.
func (c *Config) Tracing() *Tracing {
	if !c.Traced() {
		return nil
	}
	one, all := &c.OTLPTraces, &c.OTLP
	file := func(suffix, first, second string) NamedFile {
		switch {
		case first != "":
			return NamedFile{tracesPrefix + suffix, first}
		case second != "":
			return NamedFile{otlpPrefix + suffix, second}
		}
		return NamedFile{}
	}
	t := &Tracing{
		Timeout:           cmp.Or(time.Duration(cmp.Or(one.Timeout, all.Timeout))*time.Millisecond, defaultOTLPTimeout),
		Gzip:              strings.EqualFold(cmp.Or(one.Compression, all.Compression), "gzip"),
		Protobuf:          strings.EqualFold(cmp.Or(one.Protocol, all.Protocol), otlpProtobuf),
		Headers:           cmp.Or(one.Headers, all.Headers) != "",
		Certificate:       file("CERTIFICATE", one.Certificate, all.Certificate),
		ClientCertificate: file("CLIENT_CERTIFICATE", one.ClientCertificate, all.ClientCertificate),
		ClientKey:         file("CLIENT_KEY", one.ClientKey, all.ClientKey),
	}
	if u, err := url.Parse(cmp.Or(one.Endpoint, all.Endpoint)); err == nil {
		if one.Endpoint == "" {
			u = u.JoinPath("v1/traces")
		} else if u.Path == "" {
			u.Path = "/"
		}
		t.URL, t.TLS = u.String(), u.Scheme == "https"
	}
	t.Resource, _ = pairs(c.OTel.ResourceAttributes)
	if c.OTel.ServiceName != "" {
		t.Resource = append(t.Resource, Pair{"service.name", c.OTel.ServiceName})
	}
	return t
}

// TraceHeaders returns the headers of a request with traces as they are now: a file with them is read again.
func (c *Config) TraceHeaders() ([]Pair, error) {
	name, loaded := tracesPrefix+"HEADERS", c.OTLPTraces.Headers
	if loaded == "" {
		name, loaded = otlpPrefix+"HEADERS", c.OTLP.Headers
	}
	text, err := c.current(name, loaded)
	if err != nil {
		return nil, err
	}
	headers, err := headerPairs(text)
	if err != nil {
		return nil, fmt.Errorf("%s %w", name, err)
	}
	return headers, nil
}

// obeyTracing reports what cannot work. Where no traces are sent, the variables are somebody else's.
func (c *Config) obeyTracing(r *report) {
	if !c.Traced() {
		return
	}
	const exporter, attributes = "OTEL_TRACES_EXPORTER", "OTEL_RESOURCE_ATTRIBUTES"
	if word := c.OTel.TracesExporter; word != "" && !strings.EqualFold(word, "otlp") {
		r.add(exporter, "%q is not known: write otlp, or none for no traces", word)
	}
	if _, err := pairs(c.OTel.ResourceAttributes); err != nil {
		r.add(attributes, "%v", err)
	}
	t := c.Tracing()
	secure := t.TLS || t.URL == "" // what is wrong with a URL is said of it alone
	c.OTLP.obeyOTLP(otlpPrefix, secure, r)
	c.OTLPTraces.obeyOTLP(tracesPrefix, secure, r)
	if (t.ClientCertificate.Path == "") != (t.ClientKey.Path == "") {
		r.add(cmp.Or(t.ClientCertificate.Variable, t.ClientKey.Variable), "%sCLIENT_CERTIFICATE and %sCLIENT_KEY belong together: set both or neither", otlpPrefix, otlpPrefix)
	}
}

// obeyOTLP checks one set of variables, which begin with prefix.
func (o *OTLP) obeyOTLP(prefix string, secure bool, r *report) {
	o.obeyEndpoint(prefix, r)
	switch protocol := prefix + "PROTOCOL"; strings.ToLower(o.Protocol) {
	case "", otlpJSON, otlpProtobuf:
	case otlpGRPC:
		r.add(protocol, "%q is not spoken here: write %s, and the collector's address for HTTP, which usually has port 4318", o.Protocol, otlpJSON)
	default:
		r.add(protocol, "%q is not known: write %s", o.Protocol, otlpJSON)
	}
	if word := strings.ToLower(o.Compression); word != "" && word != "none" && word != "gzip" {
		r.add(prefix+"COMPRESSION", "%q is not known: write gzip or none", o.Compression)
	}
	if name := prefix + "TIMEOUT"; r.usable(name) && (o.Timeout < 0 || time.Duration(o.Timeout) > longestTimeout/time.Millisecond) {
		r.add(name, "%d is out of range: use 1 to %d milliseconds", o.Timeout, longestTimeout.Milliseconds())
	}
	if name := prefix + "HEADERS"; r.usable(name) {
		if _, err := headerPairs(o.Headers); err != nil {
			r.add(name, "%v", err)
		}
	}
	for _, file := range []NamedFile{
		{prefix + "CERTIFICATE", o.Certificate}, {prefix + "CLIENT_CERTIFICATE", o.ClientCertificate}, {prefix + "CLIENT_KEY", o.ClientKey},
	} {
		switch {
		case file.Path == "":
		case !secure:
			r.add(file.Variable, "set, but traces go to a URL without TLS: use https, or unset this")
		default:
			readable(file.Variable, file.Path, r)
		}
	}
}

// obeyEndpoint checks a URL. One that may hold a password is not shown.
func (o *OTLP) obeyEndpoint(prefix string, r *report) {
	name := prefix + "ENDPOINT"
	u, err := url.Parse(o.Endpoint)
	switch {
	case o.Endpoint == "":
	case err != nil, u.Host == "", u.Scheme != "https" && u.Scheme != "http":
		r.add(name, "not a URL with a host: write one such as http://127.0.0.1:4318")
	case u.User != nil:
		r.add(name, "holds credentials: move them to %sHEADERS", prefix)
	case u.RawQuery != "" || u.Fragment != "":
		r.add(name, "holds a query: move what is secret in it to %sHEADERS; only the address and a path count", prefix)
	}
}

// headerPairs reads headers. The error shows nothing of them.
func headerPairs(text Secret) ([]Pair, error) {
	list, err := pairs(text.Reveal())
	if err != nil {
		return nil, err
	}
	for i, p := range list {
		strange := func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }
		switch {
		case strings.ContainsFunc(p.Name, func(c rune) bool { return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c) }):
			return nil, fmt.Errorf("has a name in entry %d that no header can have: use letters, digits and '-'", i+1)
		case strings.ContainsFunc(p.Value, strange):
			return nil, fmt.Errorf("has a line break or another control character in the value of entry %d: remove it", i+1)
		}
	}
	return list, nil
}

// pairs reads 'name=value,name=value', the form of W3C Baggage without properties. The error shows no value: it may be a
// secret.
func pairs(text string) ([]Pair, error) {
	var list []Pair
	for _, entry := range splitList(text) {
		name, value, ok := strings.Cut(entry, "=")
		name = strings.TrimSpace(name)
		if !ok || name == "" {
			return nil, fmt.Errorf("has no name and value in entry %d: write name=value,name=value", len(list)+1)
		}
		decoded, err := url.PathUnescape(strings.TrimSpace(value))
		if err != nil {
			return nil, errors.New("has a percent sign that begins no encoded character: write it as %25")
		}
		list = append(list, Pair{name, decoded})
	}
	return list, nil
}
