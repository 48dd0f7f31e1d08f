package bridge

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// logbook keeps what was logged, at any level.
type logbook struct {
	mu      sync.Mutex
	entries []entry
}

type entry struct {
	slog.Record
	text string
}

// Enabled implements slog.Handler.
func (b *logbook) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (b *logbook) Handle(_ context.Context, r slog.Record) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s %s", r.Time.Format("15:04:05.000"), r.Level, r.Message)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&text, " %s=%v", a.Key, a.Value)
		return true
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries = append(b.entries, entry{r, text.String()})
	return nil
}

// WithAttrs implements slog.Handler; the rooms use no loggers of their own.
func (b *logbook) WithAttrs([]slog.Attr) slog.Handler { return b }

// WithGroup implements slog.Handler.
func (b *logbook) WithGroup(string) slog.Handler { return b }

// with answers the texts of the entries with a message.
func (b *logbook) with(message string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var texts []string
	for _, e := range b.entries {
		if e.Message == message {
			texts = append(texts, e.text)
		}
	}
	return texts
}

// loud counts what people see at the default level.
func (b *logbook) loud() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, e := range b.entries {
		if e.Level >= slog.LevelInfo {
			n++
		}
	}
	return n
}

// String writes the last entries.
func (b *logbook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all strings.Builder
	for _, e := range b.entries[max(0, len(b.entries)-300):] {
		all.WriteString(e.text)
		all.WriteByte('\n')
	}
	return all.String()
}
