package cli

import (
	"context"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/term"

	"github.com/eosbridge/eosbridge/config"
)

// newLogger returns the process's logger, which writes to w. Times are UTC with milliseconds, durations are text
// in both formats.
func newLogger(w io.Writer, cfg config.Log) *slog.Logger {
	options := &slog.HandlerOptions{ReplaceAttr: tidyAttr}
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err == nil { // config permits no other words than slog's
		options.Level = level
	}
	if cfg.Format == config.LogFormatText || cfg.Format == config.LogFormatAuto && isTerminal(w) {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

func tidyAttr(groups []string, a slog.Attr) slog.Attr {
	switch {
	case a.Key == slog.TimeKey && len(groups) == 0 && a.Value.Kind() == slog.KindTime:
		a.Value = slog.StringValue(a.Value.Time().UTC().Format("2006-01-02T15:04:05.000Z"))
	case a.Value.Kind() == slog.KindDuration:
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// isTerminal says whether what is written to w is shown to a person.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

const (
	// clientLogPause is the least time between two equal messages of the Kafka client at WARN.
	clientLogPause = time.Minute
	// clientLogMessages bounds how many different messages are remembered.
	clientLogMessages = 64
)

// clientLog passes on what the Kafka client logs, as one message with the client's own text in "event":
//
//	error, warn  WARN, but the same event at most once a minute, else DEBUG
//	info         DEBUG
//	debug        dropped: one line and more per request
//
// Decision: the client's ERROR is not ours, for every failure that matters reaches the bridge as an error value
// too; but at start its text is often the only hint at what is misconfigured (TLS against a plaintext listener, SASL
// refused), so it is not hidden either. A broker that is away makes the client repeat itself several times a second,
// hence the pause. While all brokers answer it has nothing to say above info: a healthy hour is silent.
//
// One clientLog serves all clients of a process, so the pause holds across restarts of the bridge too.
type clientLog struct {
	log *slog.Logger

	mu    sync.Mutex
	shown map[string]time.Time // event -> when it was last shown at WARN
}

func newClientLog(log *slog.Logger) *clientLog {
	return &clientLog{log: log, shown: map[string]time.Time{}}
}

// Level implements kgo.Logger.
func (l *clientLog) Level() kgo.LogLevel {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		return kgo.LogLevelInfo
	}
	return kgo.LogLevelWarn
}

// Log implements kgo.Logger.
func (l *clientLog) Log(level kgo.LogLevel, event string, keyvals ...any) {
	if level == kgo.LogLevelNone || level >= kgo.LogLevelDebug {
		return
	}
	severity := slog.LevelDebug
	if level <= kgo.LogLevelWarn && l.due(event) {
		severity = slog.LevelWarn
	}
	l.log.Log(context.Background(), severity, "kafka client", append([]any{"event", event}, keyvals...)...)
}

// due says whether an event may be shown again, and notes that it is.
func (l *clientLog) due(event string) bool {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if last, ok := l.shown[event]; ok && now.Sub(last) < clientLogPause {
		return false
	}
	if len(l.shown) >= clientLogMessages {
		// The client formats numbers into a few of its messages; forgetting them all only repeats some early.
		clear(l.shown)
	}
	l.shown[event] = now
	return true
}
