package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// longestAnswer bounds what is read of an answer, in bytes.
	longestAnswer = 64 << 10
	// longestMessage bounds what is shown of a collector's own words, in bytes.
	longestMessage = 200
)

// answer is what became of a request.
type answer struct {
	err   error
	again bool          // another attempt may help
	after time.Duration // the collector wants to be left alone for so long

	rejected int64  // spans that were left out of what was taken
	message  string // why
}

// post sends one request.
func (e *Exporter[T]) post(ctx context.Context, body []byte) answer {
	ctx, cancel := context.WithTimeoutCause(ctx, e.o.Timeout, fmt.Errorf("no answer within %s", e.o.Timeout))
	defer cancel()
	req, secrets, err := e.request(ctx, body)
	if err != nil {
		return answer{err: err, again: true} // a file of secrets may be back soon
	}
	resp, err := e.client.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return answer{err: err, again: true}
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, longestAnswer))
	if err != nil && resp.StatusCode == http.StatusOK {
		return answer{err: fmt.Errorf("read the answer of %s: %w", e.o.URL, err), again: true}
	}
	return judge(e.o.URL, resp, text, secrets)
}

// request also returns the values that must not be shown.
func (e *Exporter[T]) request(ctx context.Context, body []byte) (*http.Request, []string, error) {
	encoding := ""
	if e.o.Gzip {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, err := w.Write(body)
		if err = errors.Join(err, w.Close()); err != nil {
			return nil, nil, fmt.Errorf("compress a request: %w", err)
		}
		body, encoding = packed.Bytes(), "gzip"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.o.URL, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	var secrets []string
	if e.o.Headers != nil {
		headers, err := e.o.Headers()
		if err != nil {
			return nil, nil, err
		}
		for name, value := range headers {
			req.Header.Set(name, value)
			secrets = append(secrets, value)
			if _, credential, ok := strings.Cut(value, " "); ok { // of "Bearer ..."
				secrets = append(secrets, credential)
			}
		}
	}
	req.Header.Set("User-Agent", e.o.Scope+"/"+e.o.Version)
	req.Header.Set("Content-Type", "application/json")
	if encoding != "" {
		req.Header.Set("Content-Encoding", encoding)
	}
	return req, secrets, nil
}

// judge reads an answer as the specification of OTLP/HTTP says: 429, 502, 503 and 504 pass, other failures do not.
func judge(url string, resp *http.Response, text []byte, secrets []string) answer {
	if resp.StatusCode/100 == 2 {
		var partial struct {
			PartialSuccess struct {
				RejectedSpans json.RawMessage `json:"rejectedSpans"` // "3", and some write 3
				ErrorMessage  string          `json:"errorMessage"`
			} `json:"partialSuccess"`
		}
		if json.Unmarshal(text, &partial) != nil { // it took them, whatever else it says
			return answer{}
		}
		rejected, _ := strconv.ParseInt(strings.Trim(string(partial.PartialSuccess.RejectedSpans), `"`), 10, 64)
		return answer{rejected: rejected, message: shown(partial.PartialSuccess.ErrorMessage, secrets)}
	}
	a := answer{err: fmt.Errorf("%s answers %s%s", url, resp.Status, remedy(resp.StatusCode))}
	var status struct { // google.rpc.Status
		Message string `json:"message"`
	}
	if json.Unmarshal(text, &status) == nil && status.Message != "" {
		a.err = fmt.Errorf("%w: %s", a.err, shown(status.Message, secrets))
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		a.again, a.after = true, retryAfter(resp.Header.Get("Retry-After"), time.Now())
	}
	return a
}

func remedy(status int) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return " (look at OTEL_EXPORTER_OTLP_HEADERS)"
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return " (OTEL_EXPORTER_OTLP_ENDPOINT is without /v1/traces, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT with it)"
	case http.StatusUnsupportedMediaType:
		return " (it has to take OTLP over HTTP as JSON)"
	}
	return ""
}

// shown makes a collector's own words fit to be logged: short, on one line, and without what we have sent it as a header.
func shown(message string, secrets []string) string {
	for _, s := range secrets {
		if s != "" {
			message = strings.ReplaceAll(message, s, "***")
		}
	}
	message = strings.Join(strings.Fields(strings.ToValidUTF8(message, "")), " ")
	if len(message) > longestMessage {
		message = strings.ToValidUTF8(message[:longestMessage], "") + "…"
	}
	return message
}

// retryAfter reads the header of this name: a number of seconds, or a time.
func retryAfter(text string, now time.Time) time.Duration {
	after := time.Duration(0)
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		after = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		after = at.Sub(now)
	}
	return min(max(after, 0), longestRetryAfter)
}
