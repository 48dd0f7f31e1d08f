package bridge

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/eosbridge/eosbridge/txn"
)

// scenes are the states in which people look at the page.
func scenes() map[string]func(adminSources, *handClock) {
	return map[string]func(adminSources, *handClock){
		"healthy": func(from adminSources, clock *handClock) {
			from.board.openTxn(clock.now())
			clock.pass(40 * time.Millisecond)
			from.board.progress()
		},
		"recovering": func(from adminSources, clock *handClock) {
			abortedEpoch(from, clock, 95, ClassInDoubt)
			from.board.failed(fmt.Errorf("%w: commit epoch 95: read tcp 10.0.0.7:41022->10.0.0.3:9092: connection reset by peer", txn.ErrInDoubt))
			from.board.restarted()
			from.board.enter(StateRecovering)
			clock.pass(1200 * time.Millisecond)
		},
		"fenced": func(from adminSources, clock *handClock) {
			abortedEpoch(from, clock, 95, ClassFenced)
			from.board.failed(fmt.Errorf("%w: commit epoch 95: EndTxn of orders-bridge.bridge-0.1: PRODUCER_FENCED", txn.ErrFenced))
			from.board.enter(StateStopped)
			clock.pass(300 * time.Millisecond)
		},
		"failing": func(from adminSources, clock *handClock) {
			for i := range 4 {
				abortedEpoch(from, clock, 95+i, ClassAborted)
				from.board.failed(fmt.Errorf("%w: produce to orders-clean[2]: NOT_ENOUGH_REPLICAS: messages are rejected since there are fewer in-sync replicas than required", txn.ErrAborted))
				from.board.restarted()
				clock.pass(6 * time.Second)
				from.board.progress()
			}
			from.board.enter(StateRecovering)
			clock.pass(500 * time.Millisecond)
		},
	}
}

// abortedEpoch adds an epoch that was aborted.
func abortedEpoch(from adminSources, clock *handClock, n int, class string) {
	e := sampleEpochs()[0]
	e.Epoch, e.Triggered = txn.Epoch(n), clock.now()
	e.Outcome, e.Class, e.Flushed, e.OffsetsSent, e.Committed = OutcomeAborted, class, 0, 0, 0
	from.history.add(e)
}

func scene(t testing.TB, name string) adminSources {
	t.Helper()
	from, clock := sampleSources(t)
	from.history = newHistory(100)
	for _, s := range sampleEpochs() {
		from.history.add(s)
	}
	for i := range 45 {
		e := sampleEpochs()[0]
		e.Epoch, e.Triggered = txn.Epoch(50+i), clock.now().Add(time.Duration(i-45)*100*time.Millisecond)
		e.Committed += time.Duration(i*i%17) * time.Millisecond
		if i == 20 {
			e.Outcome, e.Class, e.Committed = OutcomeAborted, ClassAborted, 0
		}
		from.history.add(e)
	}
	from.board.update(func(s *Status) { s.Epoch, s.IntervalSeconds = 95, 0.1 })
	from.board.openTxn(time.Time{})
	from.board.committed(94)
	from.settings = []Setting{{"KAFKA_BOOTSTRAP_SERVERS", "kafka-1:9092,kafka-2:9092"}, {"KAFKA_SASL_PASSWORD", "***"}, {"BRIDGE_START", ""}}
	scenes()[name](from, clock)
	return from
}

// What each state looks like, in words.
func TestPageWords(t *testing.T) {
	for name, want := range map[string][]string{
		"healthy": {
			"✓</span> Ready</h1>", "It reads 3 partitions", "<title>Ready – orders-bridge", "✕ aborted: aborted", "✓ committed", "→ carried",
			"Running epoch</dt><dd>95<small>a barrier every 100 ms", "Assigned</dt><dd>3<small>partitions of 2 topics", "Last committed</dt><dd>94<small>40 ms ago", "Open transaction</dt><dd>40 ms<small>0 % of its timeout of 40 s",
			"Lag</dt><dd>35<small>records", "<th scope=\"row\">orders</th><td>2</td><td>30</td>", "Lanes</dt><dd>4", "Epochs aborted</dt><dd>2",
			"Epochs committed</dt><dd>45", "Records in</dt><dd>45,005", "KAFKA_SASL_PASSWORD</dt><dd>***", "Memory of batches</dt><dd>3.0 MiB<small>of 512.0 MiB",
			"committed again since: epoch 94", "<a href=\"api/epochs/94\">94</a>",
		},
		"recovering": {"↻</span> Recovering</h1>", "<b>state</b> recovering for 1.2s", "connection reset by peer", "10.0.0.7:41022-&gt;10.0.0.3:9092", "<b>in doubt</b>", "What to do:", "Running epoch</dt><dd>none"},
		"fenced":     {"✕</span> Fenced</h1>", "PRODUCER_FENCED", "ends with status 75", "BRIDGE_INSTANCE_ID"},
		"failing":    {"✕</span> Failing</h1>", "<b>commit</b> no commit for", "NOT_ENOUGH_REPLICAS", "nothing committed since", "Restarts</dt><dd>5<small>4 since the last commit"},
	} {
		answer := ask(t, adminRoutes(scene(t, name)), http.MethodGet, "/")
		for _, words := range want {
			if !strings.Contains(answer.Body.String(), words) {
				t.Errorf("%s: %q is not on the page", name, words)
			}
		}
		if t.Failed() {
			t.Log(answer.Body)
			break
		}
	}
}

// A bridge that has done nothing yet has a page, too.
func TestPageFresh(t *testing.T) {
	from, _ := sampleSources(t)
	from.board, from.history = newBoard(Status{Version: "dev"}, newHandClock().now, nil), newHistory(3)
	got := ask(t, adminRoutes(from), http.MethodGet, "/").Body.String()
	for _, words := range []string{"Recovering</h1>", "None has ended yet", "not asked yet", "Last committed</dt><dd>none"} {
		if !strings.Contains(got, words) {
			t.Errorf("%q is not on the page", words)
		}
	}
	for _, words := range []string{"NaN", "Inf", "0001-01-01", "%!", "Configuration"} {
		if strings.Contains(got, words) {
			t.Errorf("%q is on the page", words)
		}
	}
}

// tags returns the tags of a page in order, without the values of their attributes.
func tags(page string) []string {
	found := regexp.MustCompile(`<[^>]*>`).FindAllString(page, -1)
	for i, tag := range found {
		found[i] = regexp.MustCompile(`"[^"]*"`).ReplaceAllString(tag, `""`)
	}
	return found
}

// Whatever names, errors and settings hold, the page has the same tags as with harmless ones.
func TestPageEscapes(t *testing.T) {
	write := func(text string) string {
		from, _ := sampleSources(t)
		from.settings = []Setting{{text, text}}
		from.board.failed(fmt.Errorf("%w: %s", txn.ErrAborted, text))
		from.board.looked(errors.New(text))
		from.board.enter(StateRecovering)
		from.board.assign(map[string][]int32{text: {0}})
		from.board.update(func(s *Status) {
			s.Group, s.Instance, s.MemberID, s.Version, s.Delivery = text, text, text, text, text
			s.Lag.Partitions = []PartitionLag{{Topic: text}}
		})
		e := sampleEpochs()[2]
		e.Err, e.Class, e.Trigger, e.Outcome = text, text, text, text
		from.history.add(e)
		e.Outcome = OutcomeAborted
		from.history.add(e)
		return ask(t, adminRoutes(from), http.MethodGet, "/").Body.String()
	}
	plain := tags(write("harmless"))
	for _, text := range []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onload='alert(1)`, `</title><script>`, `</pre></main>`, `<!--`, `]]>`,
		`&lt;script&gt;`, `%s%d%!`, "\x00<\x1b[31m", "\xff\xfe<b>", "\u202egnp.exe", "</svg><script>", "`${alert(1)}`",
	} {
		page := write(text)
		if got := tags(page); !slices.Equal(got, plain) {
			t.Errorf("%q changes the tags of the page", text)
		}
		if strings.Contains(page, text) && (strings.ContainsAny(text, "<>\"'&\x00\u202e") || !utf8.ValidString(text)) {
			t.Errorf("%q stands on the page as it is", text)
		}
	}
}

// The policy forbids what stands inside the page to run or to style; so nothing of that kind may be needed.
func TestPagePolicy(t *testing.T) {
	for name := range scenes() {
		answer := ask(t, adminRoutes(scene(t, name)), http.MethodGet, "/")
		if got := answer.Header().Get("Content-Security-Policy"); !strings.HasPrefix(got, "default-src 'self';") || strings.Contains(got, "unsafe") {
			t.Errorf("policy %q", got)
		}
		page := answer.Body.String()
		if found := regexp.MustCompile(`(?i)<[^>]*\s(on\w+|style)=|<style|<script>|javascript:|https?://`).FindString(page); found != "" {
			t.Errorf("%s: %q on the page", name, found)
		}
		if strings.Count(page, "<script") != 1 {
			t.Errorf("%s: %d scripts", name, strings.Count(page, "<script"))
		}
	}
}

// Every link of the page leads somewhere, and every route is on it.
func TestPageLinks(t *testing.T) {
	routes := adminRoutes(scene(t, "healthy"))
	page := ask(t, routes, http.MethodGet, "/").Body.String()
	links := regexp.MustCompile(`(?:href|src)="([^"]*)"`).FindAllStringSubmatch(page, -1)
	if len(links) < 20 {
		t.Errorf("%d links", len(links))
	}
	for _, link := range links {
		if link[1] == "data:," {
			continue
		}
		if answer := ask(t, routes, http.MethodGet, "/"+link[1]); answer.Code != http.StatusOK {
			t.Errorf("%s of the page answers %d", link[1], answer.Code)
		}
	}
	if len(adminPaths()) != 6 {
		t.Errorf("the page names %v", adminPaths())
	}
	for _, path := range adminPaths() {
		if answer := ask(t, routes, http.MethodGet, strings.ReplaceAll(path.Name, "{n}", "94")); answer.Code != http.StatusOK {
			t.Errorf("%s answers %d", path.Name, answer.Code)
		}
	}
}

// The page shows a bounded part, however much there is.
func TestPageIsBounded(t *testing.T) {
	from := scene(t, "healthy")
	ours, lags := map[string][]int32{}, []PartitionLag{}
	for i := range int32(5000) {
		ours["orders"] = append(ours["orders"], i)
		lags = append(lags, PartitionLag{Topic: "orders", Partition: i, Lag: int64(i)})
	}
	from.board.assign(ours)
	from.board.update(func(s *Status) { s.Lag.Partitions = lags })
	page := ask(t, adminRoutes(from), http.MethodGet, "/").Body.String()
	if len(page) > 100<<10 {
		t.Errorf("%d bytes", len(page))
	}
	for _, words := range []string{"<td>4999</td><td>4,999</td>", "4950 more are in"} {
		if !strings.Contains(page, words) {
			t.Errorf("%q is not on the page", words)
		}
	}
	if rows := strings.Count(page, "<td>✓ committed</td>"); rows != pageEpochs {
		t.Errorf("%d rows of epochs", rows)
	}
}

// Ready is said by the page, by /api/status and by /readyz at the same time.
func TestReportAgreesWithHealth(t *testing.T) {
	for name := range scenes() {
		from := scene(t, name)
		routes, report := adminRoutes(from), newReport(from)
		if ready := ask(t, routes, http.MethodGet, "/readyz").Code == http.StatusOK; ready != report.Ready || ready != (name == "healthy") {
			t.Errorf("%s: /readyz %t, report %t", name, ready, report.Ready)
		}
		if live := ask(t, routes, http.MethodGet, "/livez").Code == http.StatusOK; live != report.Live || !live {
			t.Errorf("%s: /livez %t, report %t", name, live, report.Live)
		}
		if report.Ready != strings.HasPrefix(report.Verdict, "Ready") || report.Ready != (len(report.Problems) == 0) {
			t.Errorf("%s: ready %t, %q, %v", name, report.Ready, report.Verdict, report.Problems)
		}
		if report.Advice == "" {
			t.Errorf("%s: no advice for %v", name, report.LastError)
		}
	}
}

func TestVerdicts(t *testing.T) {
	one := map[string][]int32{"orders": {0}}
	bad := func(name string) []healthCheck { return []healthCheck{{name: name, reason: "x"}} }
	for _, tc := range []struct {
		want   string
		status Status
		checks []healthCheck
	}{
		{"Ready", Status{State: StateRunning, Assigned: one}, nil},
		{"Ready, standing by", Status{State: StateRunning}, nil},
		{"Ready, after a failure", Status{State: StateRunning, Assigned: one, CommitFailing: &Streak{}}, nil},
		{"Failing", Status{State: StateRunning, Assigned: one}, bad("commit")},
		{"Failing", Status{State: StateRunning, Assigned: one}, bad("poll")},
		{"Failing", Status{State: StateRecovering}, bad("commit")},
		{"Stuck", Status{State: StateRunning, Assigned: one}, bad("loop")},
		{"Recovering", Status{State: StateRecovering}, bad("state")},
		{"Joining", Status{State: StateJoining}, bad("state")},
		{"Stopping", Status{State: StateStopping, Assigned: one}, bad("state")},
		{"Stopped", Status{State: StateStopped}, bad("state")},
		{"Fenced", Status{State: StateStopped, LastError: &Failure{Class: ClassFenced}}, bad("state")},
		{"Stopped", Status{State: StateStopped, LastError: &Failure{Class: ClassFatal}}, bad("state")},
	} {
		got := judge(tc.status, tc.checks)
		if got.word != tc.want || got.text == "" || got.kind == "" || got.sign == "" {
			t.Errorf("%+v %v: %+v, want %q", tc.status, tc.checks, got, tc.want)
		}
	}
	said := map[string]bool{}
	for _, class := range classes() {
		said[remedy(class)] = true
	}
	if len(said) != len(classes()) {
		t.Errorf("%d remedies for %d classes", len(said), len(classes()))
	}
}

func TestPageNumbers(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0 ms", 999 * time.Millisecond: "999 ms", 1500 * time.Millisecond: "1.5 s", 59 * time.Second: "59 s",
		10 * time.Minute: "10 min", 25 * time.Hour: "25 h 0 min", 72 * time.Hour: "3 days",
	} {
		if got := lapse(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567"} {
		if got := number(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 64 << 20: "64.0 MiB", 1 << 60: "1048576.0 TiB"} {
		if got := size(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// The cost of one answer. A page that is open asks every two seconds, Prometheus every 15 or so.
func BenchmarkAdmin(b *testing.B) {
	for _, path := range []string{"/", "/metrics", "/api/status", "/api/epochs"} {
		b.Run(path, func(b *testing.B) {
			routes := adminRoutes(scene(b, "healthy"))
			b.ReportAllocs()
			for b.Loop() {
				answer := httptest.NewRecorder()
				routes.ServeHTTP(answer, httptest.NewRequestWithContext(b.Context(), http.MethodGet, path, http.NoBody))
				if answer.Code != http.StatusOK {
					b.Fatal(answer.Code)
				}
			}
		})
	}
}
