// Package sebtest has what the tests of many packages need: waiting for a condition, logs to look into, scenarios in
// text files, and shorter runs with -short. It imports nothing of Seb, so tests of every package can use it. What starts
// programs and stores is in package testenv.
package sebtest

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Limit is how long Eventually waits. A condition that holds at all holds much sooner; a machine that is busy with other
// work may need some of it.
const Limit = 2 * time.Minute

// Eventually polls until done returns true and fails the test after Limit; what names the condition in the failure. It runs
// done on the caller's goroutine, which must be the test's own, and polls less often the longer it has waited.
func Eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	wait := time.Millisecond
	for end := time.Now().Add(Limit); !done(); time.Sleep(wait) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", Limit, what)
		}
		wait = min(wait+wait/4, 50*time.Millisecond)
	}
}

// Log is the output of a logger. Its zero value is empty and ready; its methods may be called concurrently.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write appends to the log.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String returns what was written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Lines returns the lines that were written so far.
func (l *Log) Lines() []string { return slices.Collect(strings.Lines(l.String())) }

// Contains says whether the text was written.
func (l *Log) Contains(text string) bool { return strings.Contains(l.String(), text) }

// Logger returns a logger that writes to l, without debug messages.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// Runs returns how often a test repeats something: full times, and with -short only short times.
func Runs(full, short int) int {
	if testing.Short() {
		return short
	}
	return full
}
