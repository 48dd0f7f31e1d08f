package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/test/browser"
	"github.com/eosbridge/eosbridge/test/kafka"
)

// pictures is where TestStatusPage leaves what it has seen: make status-pictures.
var pictures = flag.String("pictures", "", "write pictures of the status page, of a bridge on real Kafka in its states, into this directory")

// shot is the page as a process has answered it.
type shot struct {
	html, css string
	ready     int // status of /readyz at that time
	status    struct {
		Verdict string
		Problem []string `json:"problems"`
	}
}

var verdictOf = regexp.MustCompile(`<h1 class="verdict [a-z]+"><span[^>]*>[^<]*</span> ([^<]*)</h1>`)

// get asks a process, and answers "" when nothing answers.
func get(t *testing.T, addr, path string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, ""
	}
	return resp.StatusCode, string(text)
}

// shows waits until the page is headed by a word.
func shows(t *testing.T, addr, word string) (s shot) {
	t.Helper()
	eventually(t, "a page headed "+word, func() bool {
		_, s.html = get(t, addr, "/")
		found := verdictOf.FindStringSubmatch(s.html)
		return found != nil && found[1] == word
	})
	s.ready, _ = get(t, addr, "/readyz")
	_, s.css = get(t, addr, "/page.css")
	_, text := get(t, addr, "/api/status")
	if err := json.Unmarshal([]byte(text), &s.status); err != nil {
		t.Fatal(err)
	}
	return s
}

// lastWords asks a process again and again until it has ended, on some connections at once, and answers the page that was
// headed by a word, if one was. A fenced process shows its page for less than a millisecond before it ends.
func lastWords(t *testing.T, addr string, p *Process, word string) (html string) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { // ended by the process
			for p.Alive() {
				_, text := get(t, addr, "/")
				if found := verdictOf.FindStringSubmatch(text); found != nil && found[1] == word {
					mu.Lock()
					html = text
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return html
}

// freeAddr is a loopback address that nobody listens on at the moment.
func freeAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// feedPage writes some records a second into the input, with a time of now, until the test's end.
func (r *rig) feedPage(t *testing.T, partitions int32) {
	t.Helper()
	cl := r.cluster.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { // ended by cancel
		defer close(done)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for n := int32(0); ; n++ {
			select {
			case <-tick.C:
				cl.Produce(ctx, &kgo.Record{Topic: r.in, Partition: n % partitions, Value: bytes.Repeat([]byte("v"), 200+int(n)%300)}, nil)
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// TestStatusPage: what the page of a bridge on real Kafka says while it is well, while it recovers from a lost answer, while
// no output is acknowledged; for the pictures also when another process has taken its name.
func TestStatusPage(t *testing.T) {
	t.Parallel()
	c := kafka.Shared(t, kafka.V44)
	proxy, err := StartProxy(c.Bootstrap())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	addr := freeAddr(t)
	r := &rig{cluster: c, adm: c.Admin(t), in: "orders", out: "orders-clean", group: "orders-bridge", plan: plan{
		address: proxy.Addr(), preserve: true,
		settings: map[string]string{"BRIDGE_EPOCH_TIMEOUT": "1s", "BRIDGE_RESTART_MAX_DELAY": "2s", "BRIDGE_TRANSFORM": "set_header(via=eosbridge)"},
	}}
	if *pictures != "" {
		c.CreateTopic(t, r.in, 3)
		c.CreateTopic(t, r.out, 3)
	} else {
		r.in, r.out = c.Topic(t, 3), c.Topic(t, 3)
		r.group = r.out + "-group"
	}
	t.Cleanup(func() { r.cleanUp(t) })
	const instance = "orders-bridge-0"
	p := r.startWith(t, instance, map[string]string{"BRIDGE_HTTP_ADDR": addr})
	awaitAssigned(t, p)
	r.feedPage(t, 3)
	awaitCommit(t, p, 0)
	shots := map[string]shot{}
	if *pictures != "" {
		pause(t, 12*time.Second) // for a picture with more than a few epochs
	}
	shots["ready"] = shows(t, addr, "Ready")

	// The answer to a commit is lost, and then the coordinator does not answer either.
	mark := p.Log.Len()
	proxy.SetJudge(func(key kmsg.Key, _ []byte, answer bool) (Rule, bool) {
		switch key {
		case kmsg.EndTxn:
			return Rule{Fault: CutReset}, answer
		case kmsg.InitProducerID:
			return Rule{Fault: Swallow}, answer
		}
		return Rule{}, false
	})
	shots["recovering"] = shows(t, addr, "Recovering")
	proxy.SetJudge(nil)
	awaitCommit(t, p, mark)

	mark = p.Log.Len()
	proxy.SetJudge(func(key kmsg.Key, _ []byte, answer bool) (Rule, bool) {
		return Rule{Fault: Swallow}, answer && key == kmsg.Produce
	})
	shots["failing"] = shows(t, addr, "Failing")
	proxy.SetJudge(nil)
	awaitCommit(t, p, mark)
	shows(t, addr, "Ready")

	if *pictures != "" {
		eventually(t, "a fenced bridge that is asked in its last moment", func() bool {
			elsewhere := freeAddr(t)
			newcomer := r.startWith(t, instance, map[string]string{"BRIDGE_HTTP_ADDR": elsewhere})
			s := shot{html: lastWords(t, addr, p, "Fenced"), css: shots["ready"].css}
			exits(t, p, 75)
			if awaitCommit(t, newcomer, 0); s.html != "" {
				shots["fenced"] = s
			}
			p, addr = newcomer, elsewhere
			return s.html != ""
		})
	}
	stop(t, p)

	words := map[string][]string{
		"ready":      {"It reads 3 partitions and commits.", "partitions of 1 topic", "✓ committed", "BRIDGE_TXN_TIMEOUT</dt><dd>40s"},
		"recovering": {"Recovering</h1>", "in doubt", "nothing committed since", "What to do:", "1 since the last commit", "✕ aborted: in doubt", "Running epoch</dt><dd>none", "Lag</dt><dd>unknown"},
		"failing":    {"Failing</h1>", "<b>commit</b> no commit for ", "has taken longer than BRIDGE_EPOCH_TIMEOUT (1s)", "nothing committed since", "✕ aborted: aborted"},
		"fenced":     {"Fenced</h1>", "<b>fenced</b>", "this process ends with status 75", "Running epoch</dt><dd>none", "instance <b>" + instance},
	}
	answers := map[string]int{"ready": 200, "recovering": 503, "failing": 503} // and a fenced one has gone
	for name, s := range shots {
		for _, w := range words[name] {
			if !strings.Contains(s.html, w) {
				t.Errorf("%s: %q is not on the page:\n%s", name, w, s.html)
			}
		}
		if s.ready != answers[name] {
			t.Errorf("%s: /readyz answered %d, want %d", name, s.ready, answers[name])
		}
	}
	if *pictures != "" {
		paint(t, shots)
	}
}

// paint takes the pictures of docs/status.md, and all others, into a folder beside them.
func paint(t *testing.T, shots map[string]shot) {
	t.Helper()
	b := browser.New(t)
	taken := map[string][]byte{}
	for name, s := range shots {
		mux := http.NewServeMux()
		mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(w, strings.Replace(s.html, `<script src="page.js" defer></script>`, "", 1)) // as it was at that moment
		})
		mux.HandleFunc("/page.css", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/css; charset=utf-8")
			fmt.Fprint(w, s.css)
		})
		server := httptest.NewServer(mux)
		for _, width := range []int{360, 1280} {
			for _, scheme := range []string{"light", "dark"} {
				title := fmt.Sprintf("%s-%d-%s", name, width, scheme)
				b.Look(width, scheme)
				b.Visit(server.URL)
				for _, fault := range b.Faults() {
					t.Errorf("%s: %s", title, fault)
				}
				taken[title] = b.Picture(map[int]int{360: 1000, 1280: 1060}[width])
				keep(t, filepath.Join("all", title+".png"), b.Picture(4000))
			}
		}
		server.Close()
	}
	keep(t, "ready.png", beside(t, taken["ready-1280-light"]))
	keep(t, "failing.png", beside(t, taken["failing-1280-dark"]))
	keep(t, "phones.png", beside(t, taken["recovering-360-light"], taken["fenced-360-light"], taken["failing-360-dark"]))
}

// keep writes a picture.
func keep(t *testing.T, name string, picture []byte) {
	t.Helper()
	path := filepath.Join(*pictures, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, picture, 0o644); err != nil {
		t.Fatal(err)
	}
}

// beside puts pictures into one, next to each other, as few bytes as the library can.
func beside(t *testing.T, all ...[]byte) []byte {
	t.Helper()
	const gap = 10
	var parts []image.Image
	wide, high := -gap, 0
	for _, data := range all {
		part, err := png.Decode(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, part)
		wide, high = wide+gap+part.Bounds().Dx(), max(high, part.Bounds().Dy())
	}
	whole, x := image.NewRGBA(image.Rect(0, 0, wide, high)), 0
	draw.Draw(whole, whole.Bounds(), image.Black, image.Point{}, draw.Src)
	for _, part := range parts {
		draw.Draw(whole, part.Bounds().Add(image.Pt(x, 0)), part, image.Point{}, draw.Src)
		x += part.Bounds().Dx() + gap
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, whole); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
