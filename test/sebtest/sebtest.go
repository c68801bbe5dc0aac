// Package sebtest has helpers for the tests of many packages: waiting for a condition, readable
// logs, scenarios in text files, helpers for fuzz targets, and shorter runs with -short. It imports nothing of Seb, so every
// package's tests can use it. Package testenv starts programs and stores.
package sebtest

import (
	"bytes"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Limit is how long Eventually waits. Conditions hold much sooner, but a busy machine may need some
// of it.
const Limit = 2 * time.Minute

// Eventually polls until done returns true and fails the test after Limit. what describes the
// condition. Eventually calls done on the caller's goroutine, which must be that of the test, at
// growing intervals.
func Eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	wait := time.Millisecond
	for end := time.Now().Add(Limit); !done(); time.Sleep(wait) {
		if time.Now().After(end) {
			t.Fatalf("condition not met within %s: %s", Limit, what)
		}
		wait = min(wait+wait/4, 50*time.Millisecond)
	}
}

// Log collects the output of a logger. Its zero value is ready. Its methods may be called
// concurrently.
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

// String returns everything written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Lines returns the lines written so far.
func (l *Log) Lines() []string { return slices.Collect(strings.Lines(l.String())) }

// Contains reports whether text was written.
func (l *Log) Contains(text string) bool { return strings.Contains(l.String(), text) }

// Logger returns a logger that writes to l, without debug messages.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// Runs returns the number of repetitions of a test: full, or short with -short.
func Runs(full, short int) int {
	if testing.Short() {
		return short
	}
	return full
}

// Long skips a test with -short. why names the tests that remain, or what the test alone covers.
func Long(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: " + why)
	}
}

// Heap is the size of the heap in bytes after a garbage collection. Tests that run at the same time
// change it, so the caller is not parallel.
func Heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // frees what the first one has only moved out of pools
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
