// Package progress shows the progress of a command at a terminal.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

const (
	width = 40 // of the bar, characters
	every = 100 * time.Millisecond
)

// Bar is a line that shows how much is done. A nil Bar shows nothing. Its methods may be called
// concurrently.
type Bar struct {
	w      io.Writer
	what   string
	total  int64
	number func(int64) string
	start  time.Time

	mu    sync.Mutex // guards the fields below
	done  int64
	drawn time.Time
}

// New returns a bar of total steps (-1: unknown), or nil if w is not a terminal. number formats the
// steps; nil: as they are.
func New(w io.Writer, what string, total int64, number func(int64) string) *Bar {
	if f, ok := w.(*os.File); !ok || total == 0 || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	if number == nil {
		number = func(n int64) string { return fmt.Sprint(n) }
	}
	return &Bar{w: w, what: what, total: total, number: number, start: time.Now()}
}

// Add records further steps.
func (b *Bar) Add(n int64) {
	if b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.set(b.done + n)
	}
}

// Set records the number of steps so far.
func (b *Bar) Set(n int64) {
	if b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.set(n)
	}
}

func (b *Bar) set(n int64) {
	b.done = n
	now := time.Now()
	if now.Sub(b.drawn) < every {
		return
	}
	b.drawn = now
	line, took := b.what, now.Sub(b.start)
	if b.total > 0 {
		part := min(float64(n)/float64(b.total), 1)
		full := int(part * width)
		line += fmt.Sprintf(" %3.0f%% |%s%s| %s/%s", 100*part, strings.Repeat("█", full), strings.Repeat(" ", width-full), b.number(n), b.number(b.total))
		if n > 0 {
			line += fmt.Sprint(", ", (time.Duration(float64(took)*(1/part-1)) + time.Second - 1).Truncate(time.Second), " left")
		}
	} else {
		line += " " + b.number(n)
	}
	fmt.Fprintf(b.w, "\r%s, %s/s\x1b[K", line, b.number(int64(float64(n)/max(took.Seconds(), 0.001))))
}

// Clear removes the line. The next step shows it again.
func (b *Bar) Clear() {
	if b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !b.drawn.IsZero() {
			fmt.Fprint(b.w, "\r\x1b[K")
		}
		b.drawn = time.Time{}
	}
}
