package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Recorder writes a history and passes each line to a Checker. Its methods may be called
// concurrently.
type Recorder struct {
	start time.Time

	mu      sync.Mutex // guards the fields below
	file    *os.File
	w       *bufio.Writer
	encoder *json.Encoder
	checker *Checker
	ops     int64
	last    int64
	counts  map[string]int64
	err     error

	bad     chan struct{} // closed at the first violation, or when writing the file fails
	badOnce sync.Once
}

// NewRecorder creates the file. The caller calls Close.
func NewRecorder(path string) (*Recorder, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("record history: %w", err)
	}
	r := &Recorder{start: time.Now(), file: f, w: bufio.NewWriterSize(f, 1<<20), checker: NewChecker(), counts: map[string]int64{}, bad: make(chan struct{})}
	r.encoder = json.NewEncoder(r.w)
	r.encoder.SetEscapeHTML(false)
	return r, nil
}

// Invoke writes the beginning of an operation and returns its number. Call it before anything is
// sent.
func (r *Recorder) Invoke(e Event) (op int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops++
	e.Op = r.ops
	r.put(&e)
	return e.Op
}

// Return writes the end of an operation. Call it after the answer, or after the client has stopped
// waiting for it.
func (r *Recorder) Return(op int64, e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Op = op
	r.put(&e)
}

// Note records a fault.
func (r *Recorder) Note(lane, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(&Event{Note: fmt.Sprintf(format, args...), Lane: lane})
}

func (r *Recorder) put(e *Event) {
	e.T = max(int64(time.Since(r.start)), r.last+1)
	r.last = e.T
	if e.Do != "" || e.Is != "" {
		r.counts[e.Do+e.Is]++
	}
	if r.err == nil {
		r.err = r.encoder.Encode(e)
	}
	r.checker.Add(e)
	if r.err != nil || len(r.checker.violations) > 0 {
		r.badOnce.Do(func() { close(r.bad) })
	}
}

// Bad is closed at the first violation.
func (r *Recorder) Bad() <-chan struct{} { return r.bad }

// Stats returns the counts so far.
func (r *Recorder) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.checker.Stats()
}

// Ends returns the acknowledged or shown range of a partition: [start, end).
func (r *Recorder) Ends(part int32) (start, end int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.checker.stream(part)
	return s.start, s.end
}

// Finish closes the file and returns the violations. complete means that everything was read to its
// end, so that records that were never read are lost.
func (r *Recorder) Finish(complete bool) ([]Violation, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if complete {
		r.checker.Finish()
	}
	return r.checker.Violations(), r.closeLocked()
}

// Close closes the file. It may be called twice, and after Finish.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closeLocked()
}

func (r *Recorder) closeLocked() error {
	if r.file == nil {
		return r.err
	}
	r.err = errors.Join(r.err, r.w.Flush(), r.file.Close())
	r.file = nil
	return r.err
}

// Scan reads a history line by line. An event is valid until f returns. An unfinished last line is
// ignored.
func Scan(in io.Reader, f func(*Event) error) error {
	lines := bufio.NewReaderSize(in, 1<<20)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read history: %w", err)
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("read history: line %d: %w", n, err)
		}
		if err := f(&e); err != nil {
			return err
		}
	}
}

// CheckFile checks a history file. complete means that everything was read to its end.
func CheckFile(path string, complete bool) ([]Violation, Stats, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, Stats{}, fmt.Errorf("check history: %w", err)
	}
	defer f.Close()
	c := NewChecker()
	if err := Scan(f, func(e *Event) error { c.Add(e); return nil }); err != nil {
		return nil, Stats{}, err
	}
	if complete {
		c.Finish()
	}
	return c.Violations(), c.Stats(), nil
}
