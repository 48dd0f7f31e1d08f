package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eosbridge/eosbridge/txn"
)

// adminSources is what the HTTP face shows. Nothing in it is changed.
type adminSources struct {
	board   *board
	history *history
	metrics http.Handler // nil = none
	// maxSilence is how long the loop may stand still before /livez fails.
	maxSilence time.Duration
	// epochTimeout is how long commits or polls may fail before /readyz does.
	epochTimeout time.Duration
	settings     []Setting
	log          *slog.Logger
}

// admin is one HTTP listener that only reads.
//
// Start and Shutdown are called by one goroutine, in this order. It is opened before Kafka is asked for
// anything and closed after everything else, so that the first and the last epoch can be looked at.
type admin struct {
	addr     string // as configured; empty = off
	variable string // of the configuration, for the error message
	server   *http.Server
	log      *slog.Logger
	listener net.Listener  // nil until Start
	local    bool          // it listens on loopback only; set by Start
	ended    chan struct{} // closed when the goroutine of Start has ended
}

// newAdmin returns the listener of health, metrics and status. An empty addr makes Start do nothing.
func newAdmin(addr string, from adminSources) *admin {
	return newListener(addr, "BRIDGE_HTTP_ADDR", adminRoutes(from), from.log)
}

// newPprof returns the listener of Go's profiles, which are for people who debug the process and so have an
// address of their own. An empty addr makes Start do nothing.
func newPprof(addr string, log *slog.Logger) *admin {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return newListener(addr, "BRIDGE_PPROF_ADDR", readOnly(mux), log)
}

func newListener(addr, variable string, routes http.Handler, log *slog.Logger) *admin {
	a := &admin{addr: addr, variable: variable, log: log, ended: make(chan struct{})}
	a.server = &http.Server{
		Handler: a.addressed(routes),
		// A slow or silent client must not hold a connection for ever.
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second, // pprof adds its ?seconds= to it
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	return a
}

// addressed refuses requests for another host where only this machine is listened to. A web page can let a name of its own
// stand for 127.0.0.1 and would then read, in the browser of somebody on this machine, what is served here (DNS rebinding); a
// browser says which name it was.
func (a *admin) addressed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.local && !localName(r.Host) {
			writeText(w, http.StatusMisdirectedRequest, "this address answers for localhost and IP addresses only; "+
				"set "+a.variable+" to an address that others reach if that is meant\n")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// localName says whether the Host of a request is localhost or an IP address, which no foreign name can stand for; HTTP/1.0
// may leave it out.
func localName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	return host == "" || strings.EqualFold(host, "localhost") || net.ParseIP(host) != nil
}

// Start listens and serves in a goroutine that Shutdown ends and waits for. The error names the address and
// the variable that sets it. ctx bounds only the look-up of the address.
func (a *admin) Start(ctx context.Context) error {
	if a.addr == "" {
		return nil
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", a.addr)
	if err != nil {
		return fmt.Errorf("listen on %q: %w; set %s to a free host:port of this machine", a.addr, err, a.variable)
	}
	a.listener = listener
	if tcp, ok := listener.Addr().(*net.TCPAddr); ok {
		a.local = tcp.IP.IsLoopback()
	}
	go func() {
		defer close(a.ended)
		if err := a.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			// The bridge works without it; liveness probes will tell.
			a.log.Error("http listener failed", "err", err)
		}
	}()
	return nil
}

// Addr returns the address that is listened on, with the port that was chosen for port 0; empty before Start
// or when off.
func (a *admin) Addr() string {
	if a.listener == nil {
		return ""
	}
	return a.listener.Addr().String()
}

// Shutdown stops listening and waits for the answers under way until ctx ends, then cuts them off.
func (a *admin) Shutdown(ctx context.Context) error {
	if a.listener == nil {
		return nil
	}
	err := a.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, a.server.Close())
	}
	<-a.ended
	if err != nil {
		return fmt.Errorf("close http listener %s: %w", a.Addr(), err)
	}
	return nil
}

// adminRoutes are the paths of the HTTP face.
func adminRoutes(from adminSources) http.Handler {
	mux := http.NewServeMux()
	pageRoutes(mux, from)
	mux.HandleFunc("/livez", func(w http.ResponseWriter, r *http.Request) {
		writeHealth(w, r, "livez", from.board.live(from.maxSilence))
	})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) {
		writeHealth(w, r, "readyz", from.board.ready(from.epochTimeout))
	})
	mux.HandleFunc("/api/status", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, newReport(from))
	})
	mux.HandleFunc("/api/epochs", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, Epochs{Epochs: from.history.latest()})
	})
	mux.HandleFunc("/api/epochs/{n}", func(w http.ResponseWriter, r *http.Request) {
		writeEpoch(w, r.PathValue("n"), from.history)
	})
	if from.metrics != nil {
		mux.Handle("/metrics", from.metrics)
	}
	return readOnly(mux)
}

// readOnly refuses every verb that could mean a change, on every path, before anything looks at it.
func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "no-store")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			header.Set("Allow", "GET, HEAD")
			writeText(w, http.StatusMethodNotAllowed, "only GET and HEAD\n")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Report is the answer of /api/status: the picture, what health says of it, and the counters.
type Report struct {
	Status
	// Live and Ready are what /livez and /readyz answer; Problems has the reasons, and is empty if both hold.
	Live     bool     `json:"live"`
	Ready    bool     `json:"ready"`
	Problems []string `json:"problems"`
	// Verdict is the same in a word or three, and Advice what to do about the last error, for people.
	Verdict  string `json:"verdict"`
	Advice   string `json:"advice,omitempty"`
	Counters Totals `json:"counters"`
}

func newReport(from adminSources) Report {
	live, ready := from.board.live(from.maxSilence), from.board.ready(from.epochTimeout)
	r := Report{
		Status: from.board.snapshot(), Live: true, Ready: true, Problems: []string{}, Counters: from.history.sums(),
	}
	for _, c := range live {
		r.Live = r.Live && c.reason == ""
	}
	for _, c := range ready {
		r.Ready = r.Ready && c.reason == ""
	}
	checks := slices.Concat(live, ready)
	for _, c := range checks {
		if c.reason != "" {
			r.Problems = append(r.Problems, oneLine(c.name+": "+c.reason))
		}
	}
	r.Verdict = judge(r.Status, checks).word
	if r.LastError != nil {
		r.Advice = remedy(r.LastError.Class)
	}
	return r
}

// Epochs is the answer of /api/epochs.
type Epochs struct {
	Epochs []EpochSummary `json:"epochs"` // the one that ended last first
}

func writeEpoch(w http.ResponseWriter, n string, h *history) {
	epoch, err := strconv.ParseInt(n, 10, 64)
	if err != nil || epoch < 1 {
		writeProblem(w, http.StatusBadRequest, fmt.Sprintf("epoch %q is not a number from 1", n))
		return
	}
	s, ok := h.find(txn.Epoch(epoch))
	if !ok {
		writeProblem(w, http.StatusNotFound,
			fmt.Sprintf("epoch %d has not ended or is not among the last %d", epoch, h.size()))
		return
	}
	writeJSON(w, http.StatusOK, s)
}

// writeHealth answers as Kubernetes' own components do: a failure always shows its lines, a success only when
// asked.
func writeHealth(w http.ResponseWriter, r *http.Request, name string, checks []healthCheck) {
	status, verdict := http.StatusOK, name+" check passed\n"
	var lines strings.Builder
	for _, c := range checks {
		if c.reason != "" {
			status, verdict = http.StatusServiceUnavailable, name+" check failed\n"
		}
		lines.WriteString(oneLine(c.String()) + "\n")
	}
	if status == http.StatusOK && !r.URL.Query().Has("verbose") {
		writeText(w, status, "ok\n")
		return
	}
	writeText(w, status, lines.String()+verdict)
}

// oneLine keeps the line of a check a line, whatever an error's text holds.
func oneLine(s string) string { return strings.ReplaceAll(s, "\n", "; ") }

// writeJSON is indented: people read it with curl.
func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		writeText(w, http.StatusInternalServerError, "cannot encode the answer: "+err.Error()+"\n")
		return
	}
	writeBody(w, status, "application/json", append(body, '\n'))
}

func writeProblem(w http.ResponseWriter, status int, text string) {
	writeJSON(w, status, struct {
		Error string `json:"error"`
	}{text})
}

func writeText(w http.ResponseWriter, status int, text string) {
	writeBody(w, status, "text/plain; charset=utf-8", []byte(text))
}

// writeBody sends a whole answer. A client that went away is nobody's concern.
func writeBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
