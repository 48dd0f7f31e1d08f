// Package browser drives a headless Chromium, so that tests can look at the status page as people do.
package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// Page is one page of a headless Chromium, driven over the pipe of its DevTools protocol.
type Page struct {
	t       testing.TB
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

// New starts Chromium. Like real Kafka it may be missing on a developer's machine, and never in CI.
func New(t testing.TB) *Page {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no chromium (Debian: apt-get install chromium)")
		}
		// A developer without a browser still has the other tests; in CI it has failed above.
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
	b := &Page{t: t, in: bufio.NewReader(answers), out: commands}
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
	b.Call("Target.createTarget", map[string]any{"url": "about:blank"}, &made)
	b.Call("Target.attachToTarget", map[string]any{"targetId": made.Target, "flatten": true}, &made)
	b.session = made.Session
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.Call(domain+".enable", nil, nil)
	}
	return b
}

// Call sends a command and waits for its answer.
func (b *Page) Call(method string, params, result any) {
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

func (b *Page) read() (m devtools) {
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

// Visit opens a page and waits until it is loaded. What the browser has to complain about fails the test.
func (b *Page) Visit(url string) {
	b.t.Helper()
	b.Call("Page.navigate", map[string]any{"url": url}, nil)
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

// Evaluate runs an expression in the page, and waits for it if it is a promise.
func Evaluate[T any](b *Page, expression string) (value T) {
	b.t.Helper()
	var answer struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception json.RawMessage `json:"exceptionDetails"`
	}
	b.Call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &answer)
	if err := json.Unmarshal(answer.Result.Value, &value); err != nil || answer.Exception != nil {
		b.t.Fatalf("%s: %v %s", expression, err, answer.Exception)
	}
	return value
}

// Look sets the size of the window and what the reader prefers.
func (b *Page) Look(width int, scheme string) {
	b.t.Helper()
	b.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.Call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// Picture takes the page from its top, at most so high, as PNG.
func (b *Page) Picture(height int) []byte {
	b.t.Helper()
	clip := Evaluate[map[string]float64](b, `({x: 0, y: 0, width: innerWidth, height: document.documentElement.scrollHeight, scale: 1})`)
	clip["height"] = min(clip["height"], float64(height))
	var shot struct {
		Data []byte `json:"data"`
	}
	b.Call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true, "clip": clip}, &shot)
	if len(shot.Data) < 5000 { // one colour compresses to less
		b.t.Errorf("a picture of %d bytes: is anything drawn?", len(shot.Data))
	}
	return shot.Data
}

// Faults are what a reader would stumble over on the page that is open: what sticks out, takes no room, or can hardly be
// told from what is behind it.
func (b *Page) Faults() []string {
	b.t.Helper()
	return append(Evaluate[[]string](b, outside), Evaluate[[]string](b, drawn)...)
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
