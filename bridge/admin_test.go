package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eosbridge/eosbridge/internal/exposition"
	"github.com/eosbridge/eosbridge/txn"
)

func testLog(t testing.TB) *slog.Logger {
	t.Helper()
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// sampleSources are those of a bridge in the middle of its work.
func sampleSources(t testing.TB) (adminSources, *handClock) {
	t.Helper()
	clock := newHandClock()
	b, h, reg := sampleBoard(clock), newHistory(10), exposition.New(testLog(t))
	m := mustMetrics(t, reg, b)
	for _, s := range sampleEpochs() {
		h.add(s)
		m.epoch(s)
	}
	b.progress()
	return adminSources{
		board: b, history: h, metrics: reg,
		maxSilence: 30 * time.Second, epochTimeout: 15 * time.Second, log: testLog(t),
	}, clock
}

// ask sends one request to the routes, without a network.
func ask(t *testing.T, routes http.Handler, method, target string) *httptest.ResponseRecorder {
	t.Helper()
	answer := httptest.NewRecorder()
	routes.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), method, target, http.NoBody))
	return answer
}

func TestAdminPaths(t *testing.T) {
	sources, _ := sampleSources(t)
	routes := adminRoutes(sources)
	const text, jsonType = "text/plain; charset=utf-8", "application/json"
	for _, tc := range []struct {
		path        string
		status      int
		contentType string
		body        string // contained
	}{
		{"/", 200, "text/html; charset=utf-8", "/api/status"},
		{"/page.css", 200, "text/css; charset=utf-8", "color-scheme"},
		{"/page.js", 200, "text/javascript; charset=utf-8", "'use strict'"},
		{"/livez", 200, text, "ok\n"},
		{"/livez?verbose", 200, text, "[+]loop ok\nlivez check passed\n"},
		{"/livez?verbose=1", 200, text, "[+]loop ok\n"},
		{"/readyz", 200, text, "ok\n"},
		{"/readyz?verbose", 200, text, "[+]state ok\n[+]commit ok\n[+]poll ok\nreadyz check passed\n"},
		{"/metrics", 200, "text/plain; version=0.0.4", "eosbridge_epochs_total{class=\"\",outcome=\"committed\"} 1\n"},
		{"/api/status", 200, jsonType, `"state": "running"`},
		{"/api/epochs", 200, jsonType, `"epochs": [`},
		{"/api/epochs/42", 200, jsonType, `"outcome": "carried"`},
		{"/api/epochs/99", 404, jsonType, `"error": "epoch 99 has not ended or is not among the last 10"`},
		{"/api/epochs/0", 400, jsonType, `not a number from 1`},
		{"/api/epochs/-1", 400, jsonType, `not a number from 1`},
		{"/api/epochs/x", 400, jsonType, `epoch \"x\" is not a number from 1`},
		{"/api/epochs/99999999999999999999", 400, jsonType, `not a number from 1`},
		{"/api/epochs/", 404, text, "404 page not found"},
		{"/api/epochs/42/x", 404, text, "404 page not found"},
		{"/api", 404, text, "404 page not found"},
		{"/livez/x", 404, text, "404 page not found"},
		{"/debug/pprof/", 404, text, "404 page not found"},
		{"/favicon.ico", 404, text, "404 page not found"},
	} {
		t.Run(tc.path, func(t *testing.T) {
			answer := ask(t, routes, http.MethodGet, tc.path)
			if answer.Code != tc.status {
				t.Errorf("status %d, want %d", answer.Code, tc.status)
			}
			if got := answer.Header().Get("Content-Type"); !strings.HasPrefix(got, tc.contentType) {
				t.Errorf("content type %q, want %q", got, tc.contentType)
			}
			if got := answer.Header().Get("Cache-Control"); got != "no-store" {
				t.Errorf("cache control %q", got)
			}
			if !strings.Contains(answer.Body.String(), tc.body) {
				t.Errorf("body %q, want %q in it", answer.Body, tc.body)
			}
		})
	}
}

func TestAdminOnlyReads(t *testing.T) {
	sources, _ := sampleSources(t)
	before, epochs := sources.board.snapshot(), sources.history.latest()
	for name, routes := range map[string]http.Handler{
		"admin": adminRoutes(sources),
		"pprof": newPprof("127.0.0.1:0", sources.log).server.Handler,
	} {
		for _, path := range []string{
			"/", "/page.css", "/page.js", "/livez", "/readyz", "/metrics", "/api/status", "/api/epochs", "/api/epochs/42", "/nothing",
			"/debug/pprof/", "/debug/pprof/symbol",
		} {
			for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW"} {
				answer := ask(t, routes, method, path)
				if answer.Code != http.StatusMethodNotAllowed || answer.Header().Get("Allow") != "GET, HEAD" {
					t.Errorf("%s: %s %s: status %d, allow %q", name, method, path, answer.Code, answer.Header().Get("Allow"))
				}
			}
		}
	}
	if !reflect.DeepEqual(before, sources.board.snapshot()) || !reflect.DeepEqual(epochs, sources.history.latest()) {
		t.Error("a request changed what it reads")
	}
}

// HEAD over a real connection: the status and headers of GET, without the body.
func TestAdminHead(t *testing.T) {
	sources, _ := sampleSources(t)
	server := httptest.NewServer(adminRoutes(sources))
	defer server.Close()
	for path, want := range map[string]int{
		"/": 200, "/livez": 200, "/readyz?verbose": 200, "/metrics": 200, "/api/status": 200,
		"/api/epochs": 200, "/api/epochs/41": 200, "/api/epochs/7": 404, "/x": 404,
	} {
		status, _, body := fetchOver(t, server.Client(), http.MethodHead, server.URL+path)
		if status != want || body != "" {
			t.Errorf("HEAD %s: %d %q, want %d without a body", path, status, body, want)
		}
		if status, _, body := fetchOver(t, server.Client(), http.MethodGet, server.URL+path); status != want || body == "" {
			t.Errorf("GET %s: %d %q, want %d with a body", path, status, body, want)
		}
	}
}

func fetchOver(t *testing.T, client *http.Client, method, url string) (int, http.Header, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, string(body)
}

func TestAdminHealthFailures(t *testing.T) {
	sources, clock := sampleSources(t)
	routes := adminRoutes(sources)
	sources.board.failed(errors.Join(txn.ErrInDoubt, errors.New("second line")))
	sources.board.enter(StateRecovering)
	clock.pass(31 * time.Second)
	for path, want := range map[string]string{
		"/livez": "[-]loop failed: no progress for 31s, allowed are 30s\nlivez check failed\n",
		"/readyz": "[-]state failed: recovering for 31s, last error: epoch in doubt; second line\n" +
			"[-]commit failed: no commit for 31s: epoch in doubt; second line\n[+]poll ok\nreadyz check failed\n",
	} {
		for _, query := range []string{"", "?verbose"} {
			answer := ask(t, routes, http.MethodGet, path+query)
			if answer.Code != http.StatusServiceUnavailable || answer.Body.String() != want {
				t.Errorf("%s%s: %d\n%swant 503\n%s", path, query, answer.Code, answer.Body, want)
			}
		}
	}
}

func TestAdminJSONGolden(t *testing.T) {
	sources, _ := sampleSources(t)
	fresh := sources
	fresh.board, fresh.history = newBoard(Status{Version: "dev"}, newHandClock().now, nil), newHistory(3)
	for _, tc := range []struct {
		name, path string
		from       adminSources
	}{
		{"status", "/api/status", sources},
		{"status_fresh", "/api/status", fresh},
		{"epochs", "/api/epochs", sources},
		{"epochs_fresh", "/api/epochs", fresh},
		{"epoch", "/api/epochs/43", sources},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := ask(t, adminRoutes(tc.from), http.MethodGet, tc.path).Body.Bytes()
			golden(t, "testdata/"+tc.name+".json", got)
			if bytes.Contains(got, []byte("null")) {
				t.Error("null where a reader expects a list or an object")
			}
		})
	}
}

// golden compares with a file, or writes it with -update.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("differs from %s (-update rewrites it):\n%s", path, got)
	}
}

// What HTTP answers can be read back into the exported types.
func TestAdminJSONReadBack(t *testing.T) {
	sources, _ := sampleSources(t)
	routes := adminRoutes(sources)
	var status Report
	if err := json.Unmarshal(ask(t, routes, "GET", "/api/status").Body.Bytes(), &status); err != nil {
		t.Fatal(err)
	}
	if want := newReport(sources); !reflect.DeepEqual(status, want) {
		t.Errorf("status\n%+v, want\n%+v", status, want)
	}
	var epochs Epochs
	if err := json.Unmarshal(ask(t, routes, "GET", "/api/epochs").Body.Bytes(), &epochs); err != nil {
		t.Fatal(err)
	}
	if got := numbers(epochs.Epochs); !reflect.DeepEqual(got, []txn.Epoch{43, 42, 41}) {
		t.Errorf("epochs %v", got)
	}
}

func TestAdminMetricsSurviveABrokenCollector(t *testing.T) {
	sources, _ := sampleSources(t)
	reg := exposition.New(testLog(t))
	mustMetrics(t, reg, sources.board)
	reg.MustRegister(brokenCollector{prometheus.NewDesc("broken", "Broken.", nil, nil)})
	sources.metrics = reg
	answer := ask(t, adminRoutes(sources), http.MethodGet, "/metrics")
	if answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), "eosbridge_state") {
		t.Fatalf("%d %s", answer.Code, answer.Body)
	}
}

func TestAdminWithoutMetrics(t *testing.T) {
	sources, _ := sampleSources(t)
	sources.metrics = nil
	if answer := ask(t, adminRoutes(sources), http.MethodGet, "/metrics"); answer.Code != http.StatusNotFound {
		t.Fatalf("%d %s", answer.Code, answer.Body)
	}
}

type brokenCollector struct{ desc *prometheus.Desc }

func (c brokenCollector) Describe(out chan<- *prometheus.Desc) { out <- c.desc }
func (c brokenCollector) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.NewInvalidMetric(c.desc, errors.New("broken"))
}

func TestAdminStartAndShutdown(t *testing.T) {
	sources, _ := sampleSources(t)
	a := newAdmin("127.0.0.1:0", sources)
	if a.Addr() != "" {
		t.Errorf("address %q before Start", a.Addr())
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	status, header, body := fetchOver(t, client, http.MethodGet, "http://"+a.Addr()+"/livez")
	if status != 200 || body != "ok\n" || header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%d %q %v", status, body, header)
	}
	client.CloseIdleConnections()
	addr := a.Addr()
	if err := a.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-a.ended:
	default:
		t.Error("the goroutine of Start outlives Shutdown")
	}
	var dialer net.Dialer
	if conn, err := dialer.DialContext(t.Context(), "tcp", addr); err == nil {
		conn.Close()
		t.Error("still listening after Shutdown")
	}
}

func TestAdminOff(t *testing.T) {
	sources, _ := sampleSources(t)
	for name, a := range map[string]*admin{"admin": newAdmin("", sources), "pprof": newPprof("", sources.log)} {
		if err := a.Start(t.Context()); err != nil || a.Addr() != "" {
			t.Errorf("%s: %v, listening on %q", name, err, a.Addr())
		}
		if err := a.Shutdown(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAdminAddressTaken(t *testing.T) {
	sources, _ := sampleSources(t)
	first := newAdmin("127.0.0.1:0", sources)
	if err := first.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := first.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	for variable, second := range map[string]*admin{
		"BRIDGE_HTTP_ADDR":  newAdmin(first.Addr(), sources),
		"BRIDGE_PPROF_ADDR": newPprof(first.Addr(), sources.log),
		"set BRIDGE_HTTP":   newAdmin("no-port", sources),
	} {
		err := second.Start(t.Context())
		if err == nil {
			t.Fatalf("%s: two listeners on %s", variable, first.Addr())
		}
		for _, part := range []string{variable, second.addr} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not name %s", err, part)
			}
		}
		if err := second.Shutdown(t.Context()); err != nil {
			t.Errorf("shutdown of one that never listened: %v", err)
		}
	}
}

// An answer that does not end must not hold up the process for longer than the deadline.
func TestAdminShutdownDeadline(t *testing.T) {
	sources, _ := sampleSources(t)
	entered := make(chan struct{})
	release := make(chan struct{})
	defer close(release)
	a := newListener("127.0.0.1:0", "X", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(entered)
		<-release
	}), sources.log)
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+a.Addr()+"/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1) // one answer; the sender never waits
	go func() {
		answer, err := (&http.Client{Transport: &http.Transport{}}).Do(request)
		if err == nil {
			err = answer.Body.Close()
		}
		answered <- err
	}()
	<-entered
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Shutdown(over); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown = %v, want the deadline's error", err)
	}
	if err := <-answered; err == nil {
		t.Error("the hanging answer was not cut off")
	}
}

func TestAdminLimitsClients(t *testing.T) {
	sources, _ := sampleSources(t)
	for name, a := range map[string]*admin{"admin": newAdmin("x", sources), "pprof": newPprof("x", sources.log)} {
		s := a.server
		if s.ReadHeaderTimeout <= 0 || s.ReadTimeout <= 0 || s.WriteTimeout <= 0 || s.IdleTimeout <= 0 || s.MaxHeaderBytes <= 0 {
			t.Errorf("%s: a client may hold a connection for ever: %+v", name, s)
		}
	}

	a := newAdmin("127.0.0.1:0", sources)
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+a.Addr()+"/livez", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Large", strings.Repeat("x", 64<<10))
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("64 KiB of headers: %d", answer.StatusCode)
	}
}

func TestPprof(t *testing.T) {
	p := newPprof("127.0.0.1:0", testLog(t))
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	for path, want := range map[string]int{
		"/debug/pprof/": 200, "/debug/pprof/goroutine?debug=1": 200, "/debug/pprof/cmdline": 200,
		"/debug/pprof/symbol": 200, "/debug/pprof/trace?seconds=0.01": 200, "/debug/pprof/nothing": 404,
		"/metrics": 404, "/": 404,
	} {
		if status, _, _ := fetchOver(t, client, http.MethodGet, "http://"+p.Addr()+path); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	client.CloseIdleConnections()
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A trace of an hour ends with the process, not the other way round.
func TestPprofShutdownCutsATrace(t *testing.T) {
	p := newPprof("127.0.0.1:0", testLog(t))
	active := make(chan struct{})
	p.server.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateActive {
			close(active)
		}
	}
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		"http://"+p.Addr()+"/debug/pprof/trace?seconds=3600", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1) // one answer; the sender never waits
	go func() {
		answer, err := (&http.Client{Transport: &http.Transport{}}).Do(request)
		if err == nil {
			_, err = io.Copy(io.Discard, answer.Body)
			err = errors.Join(err, answer.Body.Close())
		}
		answered <- err
	}()
	<-active
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Shutdown(over); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown = %v, want the deadline's error", err)
	}
	if err := <-answered; err == nil {
		t.Error("the trace came to its end")
	}
}
