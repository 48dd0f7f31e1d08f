//go:build !race

package bridge

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// screens is where TestPageInABrowser leaves its pictures:
//
//	go test ./bridge -run InABrowser -args -screens /tmp/screens
var screens = flag.String("screens", "", "write the screenshots of the status page into this directory")

// browser is one page of a headless Chromium, driven over the pipe of its DevTools protocol.
type browser struct {
	t       *testing.T
	in      *bufio.Reader
	out     *os.File
	session string
	last    int
	events  []devtools // not looked at yet
}

// devtools is a message of the protocol: a command, its answer, or an event.
type devtools struct {
	ID      int             `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// newBrowser starts Chromium. Like real Kafka it may be missing on a developer's machine, and never in CI.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no chromium (Debian: apt-get install chromium)")
		}
		t.Skip("no chromium (Debian: apt-get install chromium)")
	}
	toBrowser, commands, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, fromBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // an answer that never comes ends here
	cmd := exec.CommandContext(ctx, program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
		"--no-first-run", "--hide-scrollbars", "--user-data-dir="+t.TempDir(), "--remote-debugging-pipe")
	cmd.ExtraFiles = []*os.File{toBrowser, fromBrowser} // 3 and 4, where it looks for them
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // with its children
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := &browser{t: t, in: bufio.NewReader(answers), out: commands}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // killed
		for _, f := range []*os.File{commands, answers} {
			f.Close()
		}
	})
	toBrowser.Close()
	fromBrowser.Close()

	var made struct {
		Target  string `json:"targetId"`
		Session string `json:"sessionId"`
	}
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &made)
	b.call("Target.attachToTarget", map[string]any{"targetId": made.Target, "flatten": true}, &made)
	b.session = made.Session
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

// call sends a command and waits for its answer.
func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	b.last++
	command, err := json.Marshal(devtools{ID: b.last, Method: method, Session: b.session, Params: params})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.out.Write(append(command, 0)); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	for {
		m := b.read()
		if m.ID != b.last {
			b.events = append(b.events, m)
			continue
		}
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error.Message)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				b.t.Fatalf("%s: %v", method, err)
			}
		}
		return
	}
}

func (b *browser) read() (m devtools) {
	b.t.Helper()
	text, err := b.in.ReadBytes(0)
	if err != nil {
		b.t.Fatalf("chromium has ended: %v", err)
	}
	if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
		b.t.Fatal(err)
	}
	return m
}

// visit opens a page and waits until it is loaded. What the browser has to complain about fails the test.
func (b *browser) visit(url string) {
	b.t.Helper()
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	for {
		events := b.events
		b.events = nil
		for _, e := range events {
			switch e.Method {
			case "Log.entryAdded", "Runtime.exceptionThrown":
				b.t.Errorf("the browser complains: %v", e.Params)
			case "Page.loadEventFired":
				return
			}
		}
		b.events = append(b.events, b.read())
	}
}

// evaluate runs an expression in the page, and waits for it if it is a promise.
func evaluate[T any](b *browser, expression string) (value T) {
	b.t.Helper()
	var answer struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception json.RawMessage `json:"exceptionDetails"`
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &answer)
	if err := json.Unmarshal(answer.Result.Value, &value); err != nil || answer.Exception != nil {
		b.t.Fatalf("%s: %v %s", expression, err, answer.Exception)
	}
	return value
}

// look sets the size of the window and what the reader prefers.
func (b *browser) look(width int, scheme string) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// picture takes the whole page, and keeps it if asked to.
func (b *browser) picture(name string) {
	b.t.Helper()
	var shot struct {
		Data []byte `json:"data"`
	}
	b.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true, "clip": evaluate[map[string]float64](b,
		`({x: 0, y: 0, width: innerWidth, height: Math.min(document.documentElement.scrollHeight, 3000), scale: 1})`)}, &shot)
	if len(shot.Data) < 5000 { // one colour compresses to less
		b.t.Errorf("%s: a picture of %d bytes: is anything drawn?", name, len(shot.Data))
	}
	if *screens != "" {
		if err := os.WriteFile(filepath.Join(*screens, name+".png"), shot.Data, 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
}

// outside finds what sticks out to the right, save in what scrolls by itself.
const outside = `[...document.querySelectorAll('body *')].filter(e => !e.closest('.wide, svg') && e.getBoundingClientRect().right > innerWidth + 0.5)
	.map(e => e.outerHTML.slice(0, 200)).concat(document.documentElement.scrollWidth > innerWidth ? ['the page scrolls sideways'] : [])`

// drawn finds what should be seen and takes no room, and text that is hardly set off from what is behind it.
const drawn = `(() => {
	const luminance = c => c.match(/[\d.]+/g).slice(0, 3).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
		.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/, 0\)$/.test(c)) return c } return 'rgb(255, 255, 255)' };
	const faults = [];
	for (const e of document.querySelectorAll('h1, h2, p, dt, dd, td, th, li, small, pre, a, code, figcaption')) {
		if (e.closest('[hidden], details:not([open]) dl') || !e.textContent.trim()) continue;
		const box = e.getBoundingClientRect();
		if (box.width < 4 || box.height < 8) faults.push('no room: ' + e.outerHTML.slice(0, 200));
		const [dark, light] = [luminance(getComputedStyle(e).color), luminance(behind(e))].sort((a, b) => a - b);
		if ((light + 0.05) / (dark + 0.05) < 4.5) faults.push('contrast ' + ((light + 0.05) / (dark + 0.05)).toFixed(1) + ': ' + e.outerHTML.slice(0, 200));
	}
	for (const e of document.querySelectorAll('.timeline, .timeline rect')) {
		const box = e.getBoundingClientRect();
		if (box.width < 3 || box.height <= 0) faults.push('not drawn: ' + e.outerHTML.slice(0, 200));
	}
	return faults;
})()`

// TestPageInABrowser looks at the page as people do: on a phone and on a desk, by day and by night, in four states.
func TestPageInABrowser(t *testing.T) {
	b := newBrowser(t)
	for name, word := range map[string]string{"healthy": "Ready", "recovering": "Recovering", "fenced": "Fenced", "failing": "Failing"} {
		server := httptest.NewServer(adminRoutes(scene(t, name)))
		for _, width := range []int{360, 1280} {
			backs := map[string]bool{}
			for _, scheme := range []string{"light", "dark"} {
				b.look(width, scheme)
				b.visit(server.URL)
				title := fmt.Sprintf("%s-%d-%s", name, width, scheme)
				if words := evaluate[string](b, `document.querySelector('h1').innerText`); !strings.Contains(words, word) {
					t.Errorf("%s: headed %q", title, words)
				}
				for _, fault := range append(evaluate[[]string](b, outside), evaluate[[]string](b, drawn)...) {
					t.Errorf("%s: %s", title, fault)
				}
				backs[evaluate[string](b, `getComputedStyle(document.body).backgroundColor`)] = true
				b.picture(title)
			}
			if len(backs) != 2 {
				t.Errorf("%s: the same background by day and by night: %v", name, backs)
			}
		}
		server.Close()
	}
}

// TestPageIsAlive: the page follows the bridge, keeps what its reader has opened, and says when nothing answers.
func TestPageIsAlive(t *testing.T) {
	b := newBrowser(t)
	from := scene(t, "healthy")
	server := httptest.NewServer(adminRoutes(from))
	defer server.Close()
	b.look(1280, "light")
	b.visit(server.URL)
	evaluate[bool](b, `document.getElementById('settings').open = true`)
	from.board.enter(StateStopping)
	if words := evaluate[string](b, `new Promise(found => new MutationObserver(() => {
		const h = document.querySelector('h1').innerText;
		if (!h.includes('Ready')) found(h);
	}).observe(document.body, {childList: true}))`); !strings.Contains(words, "Stopping") {
		t.Errorf("headed %q", words)
	}
	if !evaluate[bool](b, `document.getElementById('settings').open && document.title.startsWith('Stopping')`) {
		t.Error("what was open is closed, or the title is old")
	}
	server.CloseClientConnections()
	server.Close()
	if words := evaluate[string](b, `new Promise(found => {
		const stale = document.getElementById('stale');
		new MutationObserver(() => { if (!stale.hidden) found(stale.innerText) }).observe(stale, {attributes: true});
	})`); !strings.Contains(words, "No answer since") {
		t.Errorf("says %q", words)
	}
	b.picture("gone")
}

// TestPageWithoutScripts: everything is there, and the page reloads itself.
func TestPageWithoutScripts(t *testing.T) {
	b := newBrowser(t)
	server := httptest.NewServer(adminRoutes(scene(t, "healthy")))
	defer server.Close()
	b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	b.visit(server.URL)
	var root struct {
		Root struct {
			ID int `json:"nodeId"`
		} `json:"root"`
	}
	b.call("DOM.getDocument", nil, &root)
	for selector, least := range map[string]int{"noscript > meta[http-equiv=refresh]": 1, "#epochs tbody tr": pageEpochs, ".timeline rect": pageTimeline} {
		var found struct {
			IDs []int `json:"nodeIds"`
		}
		b.call("DOM.querySelectorAll", map[string]any{"nodeId": root.Root.ID, "selector": selector}, &found)
		if len(found.IDs) < least {
			t.Errorf("%d of %s", len(found.IDs), selector)
		}
	}
}
