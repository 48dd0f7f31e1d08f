package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
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

// stalled is eosbridge_lane_stall_seconds_total.
func (f face) stalled(ctx context.Context) (float64, error) {
	text, err := f.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	return sumOf(string(text), "eosbridge_lane_stall_seconds_total")
}

// sumOf adds up all series of a metric in Prometheus' text format.
func sumOf(text, name string) (sum float64, err error) {
	found := false
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), name)
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
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
	Trigger   string    `json:"trigger"`
	// Milliseconds since Triggered.
	Aligned     float64 `json:"aligned_ms"`
	Flushed     float64 `json:"flushed_ms"`
	OffsetsSent float64 `json:"offsets_sent_ms"`
	Committed   float64 `json:"committed_ms"`
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

// summary describes the epochs whose barrier came after a moment.
func (h history) summary(after time.Time) epochs {
	var numbers []int64
	for n, e := range h {
		if e.Triggered.After(after) {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	s := epochs{Triggers: map[string]int{}}
	var between, commits, aligns, flushes, positions, ends []float64
	for _, n := range numbers {
		e := h[n]
		s.Triggers[e.Trigger]++
		switch e.Outcome {
		case "committed":
			s.Committed++
			commits = append(commits, e.Committed)
			aligns = append(aligns, e.Aligned)
			flushes = append(flushes, e.Flushed-e.Aligned)
			positions = append(positions, e.OffsetsSent-e.Flushed)
			ends = append(ends, e.Committed-e.OffsetsSent)
		case "aborted":
			s.Aborted++
		}
		if before, ok := h[n-1]; ok {
			between = append(between, milliseconds(e.Triggered.Sub(before.Triggered)))
		}
	}
	s.Interval, s.CommitP50, s.CommitP99 = quantile(between, 0.5), quantile(commits, 0.5), quantile(commits, 0.99)
	s.Align, s.Flush = quantile(aligns, 0.5), quantile(flushes, 0.5)
	s.Offsets, s.End = quantile(positions, 0.5), quantile(ends, 0.5)
	return s
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
