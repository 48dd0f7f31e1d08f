package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eosbridge/eosbridge/config"
	"github.com/eosbridge/eosbridge/txn"
)

// endpointOf returns a client of a token endpoint with the given behaviour.
func endpointOf(t *testing.T, answer http.HandlerFunc) *tokenEndpoint {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return newTokenEndpoint(&config.Config{Kafka: config.Kafka{
		OAuthTokenEndpoint: server.URL + "/token", OAuthClientID: "the id", OAuthClientSecret: "hunter2&=", OAuthScope: "a b",
	}})
}

func TestTokenRequest(t *testing.T) {
	var got url.Values
	var header http.Header
	e := endpointOf(t, func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		got, header = r.PostForm, r.Header
		id, secret, _ := r.BasicAuth()
		if r.Method != http.MethodPost || r.URL.Path != "/token" || id != "the+id" || secret != "hunter2%26%3D" {
			t.Errorf("%s %s as %q with %q", r.Method, r.URL, id, secret)
		}
		fmt.Fprint(w, `{"access_token":"t1","token_type":"Bearer","expires_in":3600}`)
	})
	token, err := e.token(t.Context())
	if err != nil || token != "t1" {
		t.Fatalf("%q, %v", token, err)
	}
	if got.Encode() != "grant_type=client_credentials&scope=a+b" || header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		t.Errorf("sent %q as %q", got.Encode(), header.Get("Content-Type"))
	}
	if left := time.Until(e.expiry); left < 59*time.Minute || left > time.Hour {
		t.Errorf("expires in %v", left)
	}
}

func TestTokenIsKept(t *testing.T) {
	var calls atomic.Int32
	life := 3600
	e := endpointOf(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"access_token":"t%d","expires_in":%d}`, calls.Add(1), life)
	})
	expect := func(want string) {
		t.Helper()
		if got, err := e.token(t.Context()); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() { expect("t1") })
	}
	group.Wait()
	e.expiry = time.Now().Add(tokenMargin)
	expect("t2")
	expect("t2")
	life = 0 // not said: good for one authentication
	e.expiry = time.Now()
	expect("t3")
	expect("t4")
}

func TestTokenEndpointFails(t *testing.T) {
	var bad atomic.Bool
	e := endpointOf(t, func(w http.ResponseWriter, _ *http.Request) {
		if bad.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, `{"access_token":"t1","expires_in":3600}`)
	})
	if _, err := e.token(t.Context()); err != nil {
		t.Fatal(err)
	}
	bad.Store(true)
	e.expiry = time.Now().Add(tokenMargin / 2)
	if got, err := e.token(t.Context()); err != nil || got != "t1" {
		t.Errorf("a token that is still valid: %q, %v", got, err)
	}
	e.expiry = time.Now().Add(-time.Second)
	if got, err := e.token(t.Context()); err == nil {
		t.Errorf("an expired token: %q", got)
	}
}

func TestTokenErrors(t *testing.T) {
	for name, test := range map[string]struct {
		status       int
		header, body string
		want         string
	}{
		"refused":            {401, "", `{"error":"invalid_client","error_description":"secret hunter2&= is wrong"}`, `401 Unauthorized: "invalid_client"`},
		"refused in HTML":    {403, "", `<html>hunter2</html>`, "answered 403 Forbidden"},
		"redirected":         {307, "/elsewhere", "", "answered 307 Temporary Redirect"},
		"not JSON":           {200, "", `<html>`, "not the JSON object"},
		"a list":             {200, "", `[]`, "not the JSON object"},
		"no token":           {200, "", `{"token_type":"Bearer"}`, "holds no access_token"},
		"lifetime of a word": {200, "", `{"access_token":"leaked","expires_in":"soon"}`, "not the JSON object"},
		"server error":       {500, "", `{"error":"server_error"}`, `"server_error"`},
	} {
		calls := 0
		e := endpointOf(t, func(w http.ResponseWriter, _ *http.Request) {
			calls++
			if test.header != "" {
				w.Header().Set("Location", test.header)
			}
			w.WriteHeader(test.status)
			fmt.Fprint(w, test.body)
		})
		_, err := e.token(t.Context())
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "KAFKA_SASL_OAUTH_TOKEN_ENDPOINT: ") {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "leaked")) {
			t.Errorf("%s: the error shows a secret: %v", name, err)
		}
		if calls != 1 {
			t.Errorf("%s: %d requests", name, calls)
		}
	}
}

func TestTokenLifeIsBounded(t *testing.T) {
	for text, want := range map[string]time.Duration{"1e300": maxTokenLife, "-1e300": 0, "0.5": 500 * time.Millisecond, "null": 0} {
		e := endpointOf(t, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"access_token":"t","expires_in":%s}`, text)
		})
		if _, life, err := e.request(t.Context()); err != nil || life != want {
			t.Errorf("%s: %v, %v, want %v", text, life, err, want)
		}
	}
}

func TestTokenCallerStopsWaiting(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	e := endpointOf(t, func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		fmt.Fprint(w, `{"access_token":"t1","expires_in":3600}`)
	})
	first := make(chan error, 1)
	go func() { _, err := e.token(t.Context()); first <- err }() // waited for below
	<-arrived
	// The endpoint is busy: a second caller leaves when its own context ends.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.token(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(release)
	if err := <-first; err != nil {
		t.Errorf("the first caller: %v", err)
	}
}

func TestTokenEndpointShowsNoSecret(t *testing.T) {
	e := endpointOf(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"access_token":"tok3n","expires_in":3600}`)
	})
	if _, err := e.token(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%v %+v %#v", e, *e, *e); strings.Contains(text, "hunter2") || strings.Contains(text, "tok3n") {
		t.Errorf("printed as %s", text)
	}
}

func TestTokenFile(t *testing.T) {
	path := writeFile(t, "token", " t1\n")
	if got, err := readToken(path); err != nil || got != "t1" {
		t.Errorf("%q, %v", got, err)
	}
	if err := os.WriteFile(path, []byte("t2"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := readToken(path); err != nil || got != "t2" {
		t.Errorf("after it was replaced: %q, %v", got, err)
	}
	for _, path := range []string{writeFile(t, "token", " \n"), "/nonexistent"} {
		if got, err := readToken(path); err == nil || !strings.Contains(err.Error(), "KAFKA_SASL_OAUTH_TOKEN_FILE: ") {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
}

// TestTokenEndpointSecret: the client secret is read again for every token, and one that is refused is what a refused password is.
func TestTokenEndpointSecret(t *testing.T) {
	valid := "first"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, secret, _ := r.BasicAuth(); secret != valid {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `{"access_token":"t"}`) // used once
	}))
	t.Cleanup(server.Close)
	file := writeFile(t, "secret", "first\n")
	cfg, err := loadConfig(&Context{Hostname: "pod-0", Environ: leastEnviron("KAFKA_SECURITY_PROTOCOL", "SASL_SSL", "KAFKA_SASL_MECHANISM", "OAUTHBEARER",
		"KAFKA_SASL_ALLOW_PLAINTEXT", "true", "KAFKA_SASL_OAUTH_TOKEN_ENDPOINT", server.URL, "KAFKA_SASL_OAUTH_CLIENT_ID", "c", "KAFKA_SASL_OAUTH_CLIENT_SECRET_FILE", file)})
	if err != nil {
		t.Fatal(err)
	}
	e := newTokenEndpoint(cfg)
	if _, err := e.token(t.Context()); err != nil {
		t.Fatal(err)
	}
	valid = "second"
	if _, err := e.token(t.Context()); txn.AdmissionOf(err) != txn.CredentialsFail {
		t.Errorf("with the old secret: %v", err)
	}
	if err := os.WriteFile(file, []byte("second"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := e.token(t.Context()); err != nil {
		t.Errorf("with the new secret in its file: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := e.token(t.Context()); err == nil || !strings.Contains(err.Error(), "KAFKA_SASL_OAUTH_CLIENT_SECRET_FILE") {
		t.Errorf("without the file: %v", err)
	}
}

// TestTokenEndpointNotTrusted: its certificate is not the brokers', and what is said of theirs is not said of it.
func TestTokenEndpointNotTrusted(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	e := newTokenEndpoint(&config.Config{Kafka: config.Kafka{OAuthTokenEndpoint: server.URL, OAuthClientID: "c", OAuthClientSecret: "hunter2"}})
	_, err := e.token(t.Context())
	if !txn.Unreachable(err) || txn.AdmissionOf(err) != txn.Admitted || !strings.Contains(err.Error(), "SSL_CERT_FILE") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v", err)
	}
}
