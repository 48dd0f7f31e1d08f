package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/eosbridge/eosbridge/config"
	"github.com/eosbridge/eosbridge/transform"
)

const (
	// schemaAttempt bounds one request to a schema registry.
	schemaAttempt = 5 * time.Second
	// schemaFirstDelay and schemaMaxDelay are between attempts; it doubles in between.
	schemaFirstDelay = 50 * time.Millisecond
	schemaMaxDelay   = 2 * time.Second
	// maxSchemaAnswer bounds what is read of an answer, in bytes.
	maxSchemaAnswer = 16 << 20
	// maxRegistryMessage bounds what is shown of a registry's own words, in bytes.
	maxRegistryMessage = 300
)

// schemaRegistry answers the transforms' questions by asking a registry over HTTP. It keeps nothing: the transforms do.
type schemaRegistry struct {
	name     string // for people
	client   *sr.Client
	patience time.Duration // of one question, all attempts together
	log      *slog.Logger
	away     atomic.Bool // the last attempt got no answer
}

// schemaRegistries makes the clients of both registries. A question takes less time than an epoch may: so what is told
// after a failure is what did not answer, and not which epoch came to nothing by it.
func schemaRegistries(cfg *config.Config, log *slog.Logger) (transform.Environment, error) {
	var e transform.Environment
	patience := cfg.Bridge.EpochTimeout / 3 * 2
	if len(cfg.SchemaRegistry.URL) > 0 {
		source, err := newSchemaRegistry(cfg, false, patience, log)
		if err != nil {
			return e, err
		}
		e.Source = source
	}
	if len(cfg.TargetSchemaRegistry.URL) > 0 {
		target, err := newSchemaRegistry(cfg, true, patience, log)
		if err != nil {
			return e, err
		}
		e.Target = target
	}
	return e, nil
}

func newSchemaRegistry(cfg *config.Config, target bool, patience time.Duration, log *slog.Logger) (*schemaRegistry, error) {
	settings, files := &cfg.SchemaRegistry, schemaTLSFiles(cfg, target)
	s := &schemaRegistry{name: "schema registry", patience: patience, log: log}
	if target {
		settings, s.name = &cfg.TargetSchemaRegistry, "target schema registry"
	}
	s.name += " at " + strings.Join(settings.URL, ", ")
	transport := &http.Transport{MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute}
	if usesTLS(settings) {
		dialer, err := dialerFor(files, log)
		if err != nil {
			return nil, err
		}
		transport.DialTLSContext = dialer.dial
	}
	options := []sr.ClientOpt{
		sr.URLs(settings.URL...),
		sr.UserAgent("eosbridge"),
		sr.HTTPClient(&http.Client{Timeout: min(schemaAttempt, patience), Transport: boundedAnswers{transport}}),
	}
	if settings.Username != "" {
		options = append(options, sr.PreReq(func(req *http.Request) error {
			password, err := cfg.SchemaPassword(target)
			req.SetBasicAuth(settings.Username, password.Reveal())
			return err
		}))
	}
	var err error
	s.client, err = sr.NewClient(options...)
	return s, err
}

func usesTLS(s *config.SchemaRegistry) bool {
	return slices.ContainsFunc(s.URL, func(text string) bool { return strings.HasPrefix(strings.ToLower(text), "https:") })
}

func schemaTLSFiles(cfg *config.Config, target bool) tlsFiles {
	s, prefix := &cfg.SchemaRegistry, "SCHEMA_REGISTRY_"
	if target {
		s, prefix = &cfg.TargetSchemaRegistry, "TARGET_SCHEMA_REGISTRY_"
	}
	return namedTLSFiles(prefix, s.TLSCAFile, s.TLSCertFile, s.TLSKeyFile)
}

// checkSchemas reports a chain that asks a registry which is not configured, and TLS files that hold the wrong thing.
func checkSchemas(cfg *config.Config, chain *transform.Spec) []config.Problem {
	var problems []config.Problem
	source, target := chain.Registries()
	for _, r := range []struct {
		variable string
		needed   bool
		settings *config.SchemaRegistry
		files    tlsFiles
	}{
		{"SCHEMA_REGISTRY_URL", source, &cfg.SchemaRegistry, schemaTLSFiles(cfg, false)},
		{"TARGET_SCHEMA_REGISTRY_URL", target, &cfg.TargetSchemaRegistry, schemaTLSFiles(cfg, true)},
	} {
		if r.needed && len(r.settings.URL) == 0 {
			problems = append(problems, config.Problem{Variable: r.variable, Message: "not set, but the chain has a transform that asks this schema registry: set it, for example " +
				r.variable + "=https://registry:8081"})
		}
		if usesTLS(r.settings) {
			var wrong *config.Problems
			if _, err := r.files.load(); errors.As(err, &wrong) {
				problems = append(problems, wrong.List...)
			}
		}
	}
	return problems
}

// resolveSchemas has the chain look up what it needs before the first record.
func resolveSchemas(ctx context.Context, chain *transform.Spec) error {
	err := chain.Resolve(ctx)
	var away *transform.UnavailableError
	switch {
	case err == nil:
		return nil
	case schemaDenied(err):
		return &exitError{exitDenied, err}
	case errors.As(err, &away):
		return &exitError{exitUnavailable, err}
	}
	return &exitError{exitConfig, err}
}

// boundedAnswers cuts off answers that are too long.
type boundedAnswers struct{ next http.RoundTripper }

func (b boundedAnswers) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(req)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxSchemaAnswer), resp.Body}
	}
	return resp, err
}

// schemaBody is a schema in requests and answers. The type is text here: one that the client library does not know is
// for the transform to refuse.
type schemaBody struct {
	Schema     string            `json:"schema"`
	Type       string            `json:"schemaType,omitempty"` // AVRO where it is missing
	References []schemaReference `json:"references,omitempty"`
	ID         int               `json:"id,omitempty"`
	Version    int               `json:"version,omitempty"`
}

type schemaReference struct {
	Name    string `json:"name"`
	Subject string `json:"subject"`
	Version int    `json:"version"`
}

func (b *schemaBody) schema(id int) transform.Schema {
	s := transform.Schema{ID: id, Type: b.Type, Text: b.Schema}
	if s.Type == "" {
		s.Type = transform.SchemaAvro
	}
	for _, ref := range b.References {
		s.References = append(s.References, transform.SchemaReference(ref))
	}
	return s
}

// ByID implements transform.Schemas.
func (s *schemaRegistry) ByID(ctx context.Context, id int) (transform.Schema, error) {
	var answer schemaBody
	err := s.ask(ctx, http.MethodGet, "/schemas/ids/"+strconv.Itoa(id), nil, &answer)
	return answer.schema(id), err
}

// ByVersion implements transform.Schemas.
func (s *schemaRegistry) ByVersion(ctx context.Context, subject string, version int) (transform.Schema, error) {
	which := "latest"
	if version > 0 {
		which = strconv.Itoa(version)
	}
	var answer schemaBody
	err := s.ask(ctx, http.MethodGet, "/subjects/"+url.PathEscape(subject)+"/versions/"+which, nil, &answer)
	return answer.schema(answer.ID), err
}

// Register implements transform.Schemas. To look first needs less permission than to register, and is all there is to do
// but the first time.
func (s *schemaRegistry) Register(ctx context.Context, subject string, schema transform.Schema) (id, version int, err error) {
	body := schemaBody{Schema: schema.Text}
	if schema.Type != transform.SchemaAvro { // which old registries do not know by its name
		body.Type = schema.Type
	}
	for _, ref := range schema.References {
		body.References = append(body.References, schemaReference(ref))
	}
	path := "/subjects/" + url.PathEscape(subject)
	var answer schemaBody
	err = s.ask(ctx, http.MethodPost, path, body, &answer)
	if errors.Is(err, transform.ErrNoSchema) {
		if err = s.ask(ctx, http.MethodPost, path+"/versions", body, &answer); err == nil {
			err = s.ask(ctx, http.MethodPost, path, body, &answer) // which version that was
		}
	}
	return answer.ID, answer.Version, err
}

// ask sends a request until there is an answer, or patience has run out.
func (s *schemaRegistry) ask(ctx context.Context, method, path string, body, answer any) error {
	waiting, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	var before error
	for delay := schemaFirstDelay; ; delay = min(2*delay, schemaMaxDelay) {
		err := s.client.Do(waiting, method, path, body, answer)
		if before != nil && waiting.Err() != nil && ctx.Err() == nil {
			err = before // the attempt was cut off by our own patience, which says nothing of the registry
		}
		before = err
		if err == nil || !unavailable(err) {
			if s.away.CompareAndSwap(true, false) {
				s.log.Info("schema registry answers again", "registry", s.name)
			}
			return s.verdict(err)
		}
		if !errors.Is(err, context.Canceled) && s.away.CompareAndSwap(false, true) {
			s.log.Warn("schema registry gives no answer", "registry", s.name, "err", err)
		}
		if schemaDenied(err) { // which waiting does not mend
			return s.unavailable(err)
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-waiting.Done():
			timer.Stop()
			return s.unavailable(err)
		}
	}
}

func (s *schemaRegistry) unavailable(err error) error {
	return &transform.UnavailableError{Err: fmt.Errorf("%s: %w", s.name, err)}
}

// verdict words what the registry says.
func (s *schemaRegistry) verdict(err error) error {
	var refusal *sr.ResponseError
	if !errors.As(err, &refusal) {
		return err
	}
	text := strings.ToValidUTF8(refusal.Error(), "")
	if len(text) > maxRegistryMessage {
		text = strings.ToValidUTF8(text[:maxRegistryMessage], "") + "…"
	}
	if noSchema(refusal) {
		return fmt.Errorf("%w: %s (code %d): %s", transform.ErrNoSchema, s.name, refusal.ErrorCode, text)
	}
	return fmt.Errorf("%s refuses it (code %d): %s", s.name, refusal.ErrorCode, text)
}

// noSchema holds for codes such as 40401 (no such subject), 40402 (version) and 40403 (schema). A bare 404 comes from
// something else that answers under the address.
func noSchema(e *sr.ResponseError) bool {
	return e.StatusCode == http.StatusNotFound && e.ErrorCode/100 == http.StatusNotFound
}

// unavailable tells apart what a registry says of a schema, which it will say again, from all else: no answer, an answer
// of something in between, an overload, an access that is denied.
func unavailable(err error) bool {
	var refusal *sr.ResponseError
	if !errors.As(err, &refusal) {
		return true
	}
	refuses := refusal.StatusCode == http.StatusConflict || refusal.StatusCode == http.StatusUnprocessableEntity
	return !noSchema(refusal) && (!refuses || refusal.ErrorCode == 0)
}

// schemaDenied tells whether a registry wants other credentials.
func schemaDenied(err error) bool {
	var refusal *sr.ResponseError
	return errors.As(err, &refusal) && (refusal.StatusCode == http.StatusUnauthorized || refusal.StatusCode == http.StatusForbidden)
}
