package bridge

import (
	"embed"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What the page links to. Scripts and styles are files of their own, so that the policy below may forbid all others.
//
//go:embed page/page.css page/page.js
var pageFiles embed.FS

// pagePolicy lets the page load from its own origin only, and nothing that stands inside it run.
const pagePolicy = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// How much the page shows. The JSON has the rest.
const (
	pageEpochs     = 20 // rows
	pageTimeline   = 48 // bars
	pagePartitions = 50
)

// Setting is a setting as it may be shown: secrets are masked by whoever hands it in.
type Setting struct{ Name, Value string }

// adminPaths are the routes that people and programs ask for; the page lists them.
func adminPaths() []Setting {
	return []Setting{
		{"/livez", "is the process alive? (?verbose)"},
		{"/readyz", "does it do its work? (?verbose)"},
		{"/metrics", "Prometheus metrics"},
		{"/api/status", "what it is doing, JSON"},
		{"/api/epochs", "the last epochs, newest first, JSON"},
		{"/api/epochs/{n}", "one of them, JSON"},
	}
}

// pageRoutes are the page and its two files.
func pageRoutes(mux *http.ServeMux, from adminSources) {
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", pagePolicy)
		header.Set("Referrer-Policy", "no-referrer")
		writeBody(w, http.StatusOK, "text/html; charset=utf-8", []byte(newPage(from).html()))
	})
	for name, contentType := range map[string]string{
		"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8",
	} {
		mux.HandleFunc("/"+name, func(w http.ResponseWriter, _ *http.Request) {
			body, err := pageFiles.ReadFile("page/" + name)
			if err != nil { // it is compiled in
				writeText(w, http.StatusInternalServerError, err.Error()+"\n")
				return
			}
			writeBody(w, http.StatusOK, contentType, body)
		})
	}
}

// page is the status page of one moment.
type page struct {
	markup
	now      time.Time
	status   Status
	verdict  verdict
	checks   []healthCheck
	epochs   []EpochSummary // newest first
	totals   Totals
	settings []Setting
}

func newPage(from adminSources) *page {
	p := &page{
		now: from.board.stamp(), status: from.board.snapshot(), epochs: from.history.latest(), totals: from.history.sums(),
		settings: from.settings,
		checks:   append(from.board.live(from.maxSilence), from.board.ready(from.epochTimeout)...),
	}
	p.verdict = judge(p.status, p.checks)
	return p
}

// html returns the whole page. What a bridge cannot tell yet is left out or said to be so.
func (p *page) html() string {
	p.Grow(64 << 10)
	p.put(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>%s – %s – eosbridge</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="page.css">
<script src="page.js" defer></script>
<noscript><meta http-equiv="refresh" content="5"></noscript>
</head>
<body>
<p id="stale" role="alert" hidden></p>
<main id="page">
`, p.verdict.word, p.status.Group)
	p.head()
	over := p.status.LastError == nil || p.status.LastCommitted.At.After(p.status.LastError.At)
	if !over {
		p.lastError()
	}
	p.moment()
	p.history()
	p.partitions()
	p.counters()
	if over { // of interest, and nothing to act on
		p.lastError()
	}
	p.configuration()
	p.foot()
	p.put("</main>\n</body>\n</html>\n")
	return p.String()
}

func (p *page) head() {
	s := p.status
	p.put(`<header>
<p class="name">eosbridge <small>%s</small></p>
<h1 class="verdict %s"><span class="sign" aria-hidden="true">%s</span> %s</h1>
<p>%s</p>
<p class="who"><b>%s</b> · instance <b>%s</b> · %s · <time datetime="%s">%s</time></p>
`, s.Version, p.verdict.kind, p.verdict.sign, p.verdict.word, p.verdict.text, s.Group, s.Instance, s.Delivery,
		p.now.Format(time.RFC3339), p.now.Format("2006-01-02 15:04:05 UTC"))
	if failed := slices.DeleteFunc(slices.Clone(p.checks), func(c healthCheck) bool { return c.reason == "" }); len(failed) > 0 {
		p.put("<ul class=\"checks\">\n")
		for _, c := range failed {
			p.put("<li><b>%s</b> %s</li>\n", c.name, c.reason)
		}
		p.put("</ul>\n")
	}
	p.put("</header>\n")
}

func (p *page) lastError() {
	e := p.status.LastError
	if e == nil {
		return
	}
	p.put(`<section class="error" aria-labelledby="h-error">
<h2 id="h-error">Last error</h2>
<p><b>%s</b>, %s ago (<time datetime="%s">%s</time>)%s</p>
<pre>%s</pre>
<p><b>What to do:</b> %s</p>
</section>
`, e.Class, p.ago(e.At), e.At.Format(time.RFC3339), e.At.UTC().Format("15:04:05 UTC"), p.over(e.At), e.Err, remedy(e.Class))
}

// over says whether work has gone on since an error.
func (p *page) over(at time.Time) string {
	if c := p.status.LastCommitted; c.At.After(at) {
		return fmt.Sprintf("; committed again since: epoch %d", c.Epoch)
	}
	return "; nothing committed since"
}

// moment is what runs now.
func (p *page) moment() {
	s := p.status
	p.put("<section aria-labelledby=\"h-now\">\n<h2 id=\"h-now\">Now</h2>\n<dl class=\"tiles\">\n")
	tile := func(name, value, note string) {
		p.put("<div><dt>%s</dt><dd>%s<small>%s</small></dd></div>\n", name, value, note)
	}
	tile("State", string(s.State), "for "+p.ago(s.Since))
	if s.Epoch > 0 && s.State != StateRecovering && s.State != StateStopped {
		tile("Running epoch", number(int64(s.Epoch)), "a barrier every "+seconds(s.IntervalSeconds))
	} else {
		tile("Running epoch", "none", "nothing is read")
	}
	if s.LastCommitted.Epoch > 0 {
		tile("Last committed", number(int64(s.LastCommitted.Epoch)), p.ago(s.LastCommitted.At)+" ago")
	} else {
		tile("Last committed", "none", "in this process")
	}
	switch {
	case s.Lag.At.IsZero():
		tile("Lag", "unknown", "not asked yet")
	default:
		tile("Lag", number(s.Lag.Total), "records, "+p.ago(s.Lag.At)+" ago")
	}
	tile("Assigned", number(int64(s.assignedPartitions())), plural(s.assignedPartitions(), "partition", "partitions")+" of "+plural(len(s.Assigned), "1 topic", "%d topics"))
	if s.OpenTxn.Since.IsZero() {
		tile("Open transaction", "none", fmt.Sprintf("timeout %s", seconds(s.OpenTxn.TimeoutSeconds)))
	} else {
		tile("Open transaction", seconds(s.OpenTxn.AgeSeconds), fmt.Sprintf("%.0f %% of its timeout of %s", 100*s.OpenTxn.Share, seconds(s.OpenTxn.TimeoutSeconds)))
	}
	tile("Restarts", number(s.Restarts.Total), fmt.Sprintf("%d since the last commit", s.Restarts.Consecutive))
	tile("Memory of batches", size(s.Memory.Used), "of "+size(s.Memory.Budget))
	tile("Lanes", number(int64(s.Lanes)), "that transform")
	tile("Generation", number(int64(s.Generation)), "of the group; member "+orNone(s.MemberID))
	p.put("</dl>\n</section>\n")
}

func (p *page) history() {
	p.put("<section aria-labelledby=\"h-epochs\">\n<h2 id=\"h-epochs\">Epochs <small>checkpoints</small></h2>\n")
	if len(p.epochs) == 0 {
		p.put("<p>None has ended yet.</p>\n</section>\n")
		return
	}
	drawTimeline(&p.markup, p.epochs[:min(len(p.epochs), pageTimeline)])
	p.put(`<div class="wide" id="epochs" role="region" aria-labelledby="h-epochs" tabindex="0"><table>
<thead><tr><th scope="col">Epoch</th><th scope="col">Outcome</th><th scope="col">Triggered</th><th scope="col">by</th><th scope="col">Aligned</th><th scope="col">Flushed</th><th scope="col">Offsets</th><th scope="col">Committed</th><th scope="col">Records in</th><th scope="col">out</th><th scope="col">Bytes in</th></tr></thead>
<tbody>
`)
	for _, e := range p.epochs[:min(len(p.epochs), pageEpochs)] {
		p.put(`<tr class="%s"><th scope="row"><a href="api/epochs/%s">%s</a></th><td>%s</td><td>%s</td><td>%s</td>`,
			e.Outcome, int64(e.Epoch), int64(e.Epoch), outcomeText(e), e.Triggered.UTC().Format("15:04:05.000"), e.Trigger)
		for _, step := range []time.Duration{e.Aligned, e.Flushed, e.OffsetsSent, e.Committed} {
			p.put("<td>%s</td>", stepText(step))
		}
		p.put("<td>%s</td><td>%s</td><td>%s</td></tr>\n", number(e.RecordsIn), number(e.RecordsOut), size(e.BytesIn))
	}
	p.put("</tbody></table></div>\n<p class=\"note\">Steps are counted from the barrier (triggered). <a href=\"api/epochs\">All that are kept</a>.</p>\n</section>\n")
}

// partitions shows those that are furthest behind.
func (p *page) partitions() {
	list := slices.Clone(p.status.Lag.Partitions)
	if len(list) == 0 {
		return
	}
	slices.SortStableFunc(list, func(a, b PartitionLag) int { return int(max(min(b.Lag-a.Lag, 1), -1)) })
	p.put(`<section aria-labelledby="h-lag">
<h2 id="h-lag">Partitions <small>by lag</small></h2>
<div class="wide" id="lag" role="region" aria-labelledby="h-lag" tabindex="0"><table>
<thead><tr><th scope="col">Topic</th><th scope="col">Partition</th><th scope="col">Lag</th><th scope="col">Committed</th><th scope="col">Last stable</th><th scope="col">Log start</th></tr></thead>
<tbody>
`)
	for _, l := range list[:min(len(list), pagePartitions)] {
		p.put("<tr><th scope=\"row\">%s</th><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td></tr>\n",
			l.Topic, l.Partition, number(l.Lag), number(l.Committed), number(l.LastStable), number(l.LogStart))
	}
	p.put("</tbody></table></div>\n")
	if more := len(list) - pagePartitions; more > 0 {
		p.put("<p class=\"note\">%s more are in <a href=\"api/status\">/api/status</a>.</p>\n", more)
	}
	p.put("</section>\n")
}

func (p *page) counters() {
	t := p.totals
	p.put("<section aria-labelledby=\"h-sums\">\n<h2 id=\"h-sums\">Since the start</h2>\n<dl class=\"tiles\">\n")
	for _, row := range []struct{ name, value, note string }{
		{"Epochs committed", number(t.Committed), "checkpoints completed"},
		{"Epochs aborted", number(t.Aborted), "checkpoints failed; their records came again"},
		{"Epochs carried", number(t.Carried), "wrote nothing; committed with a later one"},
		{"Records in", number(t.RecordsIn), size(t.BytesIn)},
		{"Records out", number(t.RecordsOut), size(t.BytesOut)},
		{"Records skipped", number(p.status.FailedRecords.Skipped), "that could not be bridged"},
		{"Dead letters", number(p.status.FailedRecords.DeadLetters), "records written aside"},
	} {
		p.put("<div><dt>%s</dt><dd>%s<small>%s</small></dd></div>\n", row.name, row.value, row.note)
	}
	p.put("</dl>\n</section>\n")
}

func (p *page) configuration() {
	if len(p.settings) == 0 {
		return
	}
	p.put("<section>\n<details id=\"settings\"><summary>Configuration</summary>\n<dl class=\"settings\">\n")
	for _, s := range p.settings {
		p.put("<dt>%s</dt><dd>%s</dd>\n", s.Name, orNone(s.Value))
	}
	p.put("</dl>\n</details>\n</section>\n")
}

func (p *page) foot() {
	p.put(`<footer>
<p>A checkpoint epoch is what Flink calls a checkpoint: <i>triggered</i> by a barrier, <i>aligned</i> when every lane has passed it, <i>flushed</i> when the output is acknowledged, <i>committed</i> (completed) or <i>aborted</i> (failed).</p>
<ul>
`)
	for _, path := range adminPaths() {
		if strings.Contains(path.Name, "{") {
			p.put("<li><code>%s</code> %s</li>\n", path.Name, path.Value)
			continue
		}
		p.put("<li><a href=\"%s\"><code>%s</code></a> %s</li>\n", strings.TrimPrefix(path.Name, "/"), path.Name, path.Value)
	}
	p.put("</ul>\n</footer>\n")
}

// ago is how long ago something was, as people say it.
func (p *page) ago(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return lapse(p.now.Sub(t))
}

// lapse writes a duration with the digits that matter.
func lapse(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%d days", int(d.Hours())/24)
	}
}

func seconds(s float64) string { return lapse(time.Duration(s * float64(time.Second))) }

// stepText is the time of a step of an epoch; a dash if it was not reached.
func stepText(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	if d < 100*time.Millisecond {
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	}
	return lapse(d)
}

// number groups the digits by three.
func number(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

func size(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	value, units := float64(n)/1024, []string{"KiB", "MiB", "GiB", "TiB"}
	for value >= 1024 && len(units) > 1 {
		value, units = value/1024, units[1:]
	}
	return fmt.Sprintf("%.1f %s", value, units[0])
}

// plural picks one of two words. %d in the second stands for the number.
func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return strings.ReplaceAll(many, "%d", strconv.Itoa(n))
}

func orNone(s string) string {
	if s == "" {
		return "–"
	}
	return s
}
