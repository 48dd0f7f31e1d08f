package bridge

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestAdminAnswersForItself: on loopback a request in a foreign name is refused, in front of everything; on an address that
// others reach any name may be ours.
func TestAdminAnswersForItself(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "page") })
	for _, where := range []struct {
		addr  string
		local bool
	}{{"127.0.0.1:0", true}, {"localhost:0", true}, {":0", false}} {
		a := newListener(where.addr, "BRIDGE_HTTP_ADDR", page, slog.New(slog.DiscardHandler))
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for host, fits := range map[string]bool{
			"127.0.0.1:9464": true, "localhost:9464": true, "LOCALHOST": true, "localhost.": true, "[::1]:9464": true, "10.1.2.3": true, "": true,
			"evil.example": false, "evil.example:9464": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false,
		} {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Host = host
			w := httptest.NewRecorder()
			a.server.Handler.ServeHTTP(w, r)
			body, err := io.ReadAll(w.Result().Body)
			if err != nil {
				t.Fatal(err)
			}
			if served := string(body) == "page"; served != (fits || !where.local) {
				t.Errorf("%s asked as %q: status %d, %s", where.addr, host, w.Code, body)
			}
			if where.local && !fits && (w.Code != http.StatusMisdirectedRequest || !strings.Contains(string(body), "BRIDGE_HTTP_ADDR")) {
				t.Errorf("%s asked as %q: status %d, %s", where.addr, host, w.Code, body)
			}
		}
		if err := a.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
