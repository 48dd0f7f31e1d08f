package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/config"
)

func TestLogFormats(t *testing.T) {
	for format, pattern := range map[string]string{
		"json": `^{"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z","level":"INFO","msg":"state changed","elapsed":"1.5s","err":"x","time":"2026-01-31T00:00:00Z"}\n$`,
		"auto": `^{"time":`, // a buffer is no terminal
		"text": `^time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z level=INFO msg="state changed" elapsed=1\.5s err=x time=2026-01-31T00:00:00Z\n$`,
	} {
		var b bytes.Buffer
		newLogger(&b, config.Log{Level: "info", Format: format}).Info("state changed", "elapsed", 1500*time.Millisecond, "err", errors.New("x"), "time", "2026-01-31T00:00:00Z")
		if !regexp.MustCompile(pattern).MatchString(b.String()) {
			t.Errorf("%s: %s", format, &b)
		}
	}
}

func TestLogLevels(t *testing.T) {
	for level, want := range map[string]int{"debug": 4, "info": 3, "warn": 2, "error": 1} {
		var b bytes.Buffer
		log := newLogger(&b, config.Log{Level: level, Format: "text"})
		log.Debug("x")
		log.Info("x")
		log.Warn("x")
		log.Error("x")
		if got := strings.Count(b.String(), "\n"); got != want {
			t.Errorf("%s: %d lines, want %d:\n%s", level, got, want, &b)
		}
	}
}

func TestLogTimeInGroupStays(t *testing.T) {
	var b bytes.Buffer
	at := time.Date(2026, 1, 31, 1, 0, 0, 5, time.FixedZone("", 3600))
	newLogger(&b, config.Log{Level: "info", Format: "json"}).Info("x", slog.Group("g", "time", at))
	var got struct{ G struct{ Time time.Time } }
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || !got.G.Time.Equal(at) {
		t.Errorf("%v, %s", err, &b)
	}
}

func TestIsTerminal(t *testing.T) {
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if isTerminal(file) || isTerminal(io.Discard) {
		t.Error("not a terminal")
	}
}

// logLines is a handler that keeps level and message of what it gets.
type logLines struct {
	level slog.Level
	mu    sync.Mutex
	lines []string
}

func (l *logLines) Enabled(_ context.Context, level slog.Level) bool { return level >= l.level }
func (l *logLines) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l *logLines) WithGroup(string) slog.Handler                    { return l }

func (l *logLines) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	return nil
}

func (l *logLines) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.lines
	l.lines = nil
	return taken
}

func TestClientLogLevels(t *testing.T) {
	for level, want := range map[kgo.LogLevel]string{
		kgo.LogLevelError: `WARN kafka client event=x topic=t partition=3 err=y`,
		kgo.LogLevelWarn:  `WARN kafka client event=x topic=t partition=3 err=y`,
		kgo.LogLevelInfo:  `DEBUG kafka client event=x topic=t partition=3 err=y`,
		kgo.LogLevelDebug: "",
		kgo.LogLevelNone:  "",
	} {
		lines := &logLines{level: slog.LevelDebug}
		newClientLog(slog.New(lines)).Log(level, "x", "topic", "t", "partition", 3, "err", errors.New("y"))
		if got := strings.Join(lines.take(), "\n"); got != want {
			t.Errorf("%v: %q, want %q", level, got, want)
		}
	}
	for level, want := range map[slog.Level]kgo.LogLevel{slog.LevelDebug: kgo.LogLevelInfo, slog.LevelInfo: kgo.LogLevelWarn, slog.LevelError: kgo.LogLevelWarn} {
		if got := newClientLog(slog.New(&logLines{level: level})).Level(); got != want {
			t.Errorf("level %v: %v, want %v", level, got, want)
		}
	}
}

func TestClientLogRepeatsOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := &logLines{level: slog.LevelInfo}
		log := newClientLog(slog.New(lines))
		refused := func() []string {
			log.Log(kgo.LogLevelWarn, "unable to open connection to broker", "addr", "a:1")
			return lines.take()
		}
		if got := refused(); len(got) != 1 {
			t.Errorf("the first: %v", got)
		}
		if got := refused(); got != nil {
			t.Errorf("at once again: %v", got)
		}
		log.Log(kgo.LogLevelError, "unable to initialize sasl")
		if got := lines.take(); len(got) != 1 {
			t.Errorf("another event is held back too: %v", got)
		}
		<-time.After(clientLogPause - time.Nanosecond)
		if got := refused(); got != nil {
			t.Errorf("just before the minute is over: %v", got)
		}
		<-time.After(time.Nanosecond)
		if got := refused(); len(got) != 1 {
			t.Errorf("after a minute: %v", got)
		}
		lines.level = slog.LevelDebug
		if got := refused(); !slices.Equal(got, []string{"DEBUG kafka client event=unable to open connection to broker addr=a:1"}) {
			t.Errorf("what is held back is missing at debug: %v", got)
		}
	})
}

func TestClientLogForgets(t *testing.T) {
	log := newClientLog(slog.New(slog.DiscardHandler))
	for i := range 10 * clientLogMessages {
		log.Log(kgo.LogLevelWarn, fmt.Sprintf("broker replied with %d topics", i))
		if len(log.shown) > clientLogMessages {
			t.Fatalf("remembers %d events", len(log.shown))
		}
	}
}

func TestClientLogIsConcurrent(t *testing.T) {
	log := newClientLog(slog.New(&logLines{}))
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for range 100 {
				log.Log(kgo.LogLevelWarn, fmt.Sprint(i))
				log.Level()
			}
		})
	}
	group.Wait()
}
