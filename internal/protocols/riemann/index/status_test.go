package index

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
)

// TestStatus: events that come while the worker waits for an append are the lag, for the time of that
// append.
func TestStatus(t *testing.T) {
	timed(t, func(t *testing.T) {
		l := newLog(2)
		b := l.broker()
		l.elect(b)
		x := open(t, b, "")
		if s := x.Status(); s.LagRecords != 0 || s.LagTime != 0 {
			t.Errorf("without events: %+v", s)
		}
		l.post(0, `a s {"ttl":3}`, `b s {"ttl":3600}`)
		pass(time.Second)
		if s := x.Status(); s.Entries != 2 || s.Bytes < 2*entryBytes || s.LagRecords != 0 || s.LagTime != 0 || s.Err != nil {
			t.Errorf("with two events: %+v", s)
		}
		var during, late Status
		l.mu.Lock()
		l.before = func() {
			l.mu.Lock()
			l.before = nil
			l.mu.Unlock()
			l.post(1, `c s {"ttl":3600}`, `d s {"ttl":3600}`)
			during = x.Status()
			time.Sleep(20 * time.Second)
			late = x.Status()
		}
		l.mu.Unlock()
		pass(time.Minute)
		if during.LagRecords != 2 || during.LagTime != 0 || late.LagRecords != 2 || late.LagTime != 20*time.Second {
			t.Errorf("during an append: %+v, and 20 s later %+v", during, late)
		}
		if s := x.Status(); s.Entries != 3 || s.LagRecords != 0 || s.LagTime != 0 {
			t.Errorf("after it: %+v", s)
		}
	})
}

// TestStatusOfALongRead: between two transactions the lag is the age of the last event that was read.
func TestStatusOfALongRead(t *testing.T) {
	timed(t, func(t *testing.T) {
		l := newLog(1)
		for range 3 {
			l.post(0, `a s {}`)
			time.Sleep(10 * time.Second)
		}
		x := newIndex(Options{Path: filepath.Join(t.TempDir(), "riemann.db"), Log: l.broker(), Topic: "riemann", ReadBytes: 1})
		defer x.Close()
		for i := range 3 {
			x.loop.Step(t.Context())
			want := Status{LagRecords: int64(2 - i), LagTime: time.Duration(3-i) * 10 * time.Second}
			if i == 2 {
				want.LagTime = 0
			}
			if s := x.Status(); s.LagRecords != want.LagRecords || s.LagTime != want.LagTime {
				t.Errorf("after turn %d: %+v, want %+v", i+1, s, want)
			}
		}
	})
}

func TestStatusWithoutAFile(t *testing.T) {
	l := newLog(1)
	path := filepath.Join(t.TempDir(), "file", "riemann.db")
	must.NoError(t, os.WriteFile(filepath.Dir(path), nil, 0o600))
	l.post(0, `a s {}`)
	x := newIndex(Options{Path: path, Log: l.broker(), Topic: "riemann"})
	defer x.Close()
	x.loop.Step(t.Context())
	if s := x.Status(); s.LagRecords != 1 || !errors.Is(s.Err, ErrUnavailable) {
		t.Errorf("%+v", s)
	}
}
