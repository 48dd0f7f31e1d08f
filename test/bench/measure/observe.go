package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// face is the HTTP face of a child.
type face struct{ addr string }

func (f face) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.addr+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, response.Status, body)
	}
	return body, err
}

// told is what the bridges of a run have said of themselves up to a moment, summed over them.
type told struct {
	stall, held float64 // seconds, over all lanes
	splits      bool    // held is told
	committed   float64 // epochs
	passed, all float64 // batches that went through as they were, and all that pass-through has seen
}

// tell asks the children that have a face.
func tell(ctx context.Context, children []*child) (t told, err error) {
	for _, c := range children {
		if !c.variant.Face {
			continue
		}
		body, err := c.face.get(ctx, "/metrics")
		if err != nil {
			return t, err
		}
		text := string(body)
		stall, err := sumOf(text, "eosbridge_lane_stall_seconds_total", "")
		if err != nil {
			return t, err
		}
		t.stall += stall
		if held, err := sumOf(text, "eosbridge_lane_held_seconds_total", ""); err == nil {
			t.held, t.splits = t.held+held, true
		}
		if n, err := sumOf(text, "eosbridge_epochs_total", `outcome="committed"`); err == nil {
			t.committed += n
		}
		if n, err := sumOf(text, "eosbridge_batches_total", ""); err == nil {
			passed, _ := sumOf(text, "eosbridge_batches_total", `path="passed"`) // 0 if there are none
			t.all, t.passed = t.all+n, t.passed+passed
		}
	}
	return t, nil
}

// collect remembers the newest epochs of the children that have a face.
func collect(ctx context.Context, children []*child) error {
	for _, c := range children {
		if !c.variant.Face {
			continue
		}
		if err := c.history.collect(ctx, c.face); err != nil {
			return err
		}
	}
	return nil
}

// sumOf adds up all series of a metric in Prometheus' text format that have this label.
func sumOf(text, name, label string) (sum float64, err error) {
	found := false
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), name)
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' || !strings.Contains(rest, label) {
			continue
		}
		value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", name, err)
		}
		sum, found = sum+value, true
	}
	if !found {
		return 0, fmt.Errorf("no metric %s", name)
	}
	return sum, nil
}

// epochSummary is what is used of one entry of /api/epochs.
type epochSummary struct {
	Epoch     int64     `json:"epoch"`
	Outcome   string    `json:"outcome"`
	Triggered time.Time `json:"triggered"`
	Committed float64   `json:"committed_ms"` // milliseconds since Triggered
}

// history collects epochs over a run, for the bridge remembers only the last hundred.
type history map[int64]epochSummary

func (h history) collect(ctx context.Context, f face) error {
	body, err := f.get(ctx, "/api/epochs")
	if err != nil {
		return err
	}
	var answer struct {
		Epochs []epochSummary `json:"epochs"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("/api/epochs: %w", err)
	}
	for _, e := range answer.Epochs {
		h[e.Epoch] = e
	}
	return nil
}

// merge takes in the epochs of another bridge; numbers mean nothing afterwards.
func (h history) merge(other history) {
	for _, e := range other {
		h[int64(len(h))] = e
	}
}

// commits are how long the commits of the epochs took whose barrier came after a moment, in milliseconds, and how many
// epochs were aborted.
func (h history) commits(after time.Time) (took []float64, aborted int) {
	for _, e := range h {
		switch {
		case !e.Triggered.After(after):
		case e.Outcome == "committed":
			took = append(took, e.Committed)
		case e.Outcome == "aborted":
			aborted++
		}
	}
	return took, aborted
}

// keep writes a profile into a file.
func (f face) keep(ctx context.Context, path, file string) error {
	body, err := f.get(ctx, path)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	return os.WriteFile(file, body, 0o644)
}

// freeAddr is a loopback address on which nothing listens now.
func freeAddr() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
