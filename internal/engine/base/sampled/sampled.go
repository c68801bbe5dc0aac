// Package sampled limits the lines of the log that a client can repeat.
package sampled

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"
)

const (
	// every is the shortest time between two lines of a key.
	every = time.Minute
	// keysMax bounds the keys. Those beyond it share one.
	keysMax = 256
)

// Lines are log lines of which each source gets at most one per message and minute. The next one
// counts the others. The zero value is ready. Methods may be called concurrently.
type Lines struct {
	// Now is the clock; nil uses the machine's.
	Now func() time.Time

	mu   sync.Mutex // guards keys
	keys map[key]*window
}

type key struct{ source, message string }

// window is the minute after a line.
type window struct {
	end    time.Time
	others int // lines that were not logged
}

// Log logs a line, unless the source has had one with this message within a minute. The source is what
// repeats the line: a client, mostly its Host.
func (l *Lines) Log(to *slog.Logger, level slog.Level, source, message string, args ...any) {
	if others, ok := l.begin(key{source, message}); ok {
		to.Log(context.Background(), level, message, append(args, "others_before", others)...)
	}
}

// Warn is Log with slog.LevelWarn.
func (l *Lines) Warn(to *slog.Logger, source, message string, args ...any) {
	l.Log(to, slog.LevelWarn, source, message, args...)
}

// begin reports whether a line is due, and how many of its key were not logged before it.
func (l *Lines) begin(k key) (others int, ok bool) {
	now := time.Now
	if l.Now != nil {
		now = l.Now
	}
	at := now()
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.keys[k]
	if w == nil && len(l.keys) >= keysMax {
		for k, w := range l.keys {
			if !at.Before(w.end) {
				delete(l.keys, k)
			}
		}
		if len(l.keys) >= keysMax {
			k = key{}
			w = l.keys[k]
		}
	}
	switch {
	case w == nil:
		if l.keys == nil {
			l.keys = map[key]*window{}
		}
		w = &window{}
		l.keys[k] = w
	case at.Before(w.end):
		w.others++
		return 0, false
	}
	others = w.others
	*w = window{end: at.Add(every)}
	return others, true
}

// Host is the source of an address with a port.
func Host(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
