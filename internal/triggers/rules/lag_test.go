package rules

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/check"
)

// TestLag: unread events and open deadlines give a lag in seconds, and a warning at most once a
// minute. After catching up the lag is zero, even long after the last record, and the log has a
// line about it.
func TestLag(t *testing.T) {
	s := step(t, newLog().broker(true), "")
	s.put(s.definition("t", "A THEN (NOT B WITHIN 1h)", nil))
	s.settle()
	if got := s.LagTime(); got != 0 {
		t.Errorf("lag %v before the first event", got)
	}
	for i := range 40 {
		s.b.post(ev(fmt.Sprint("u", i), "A"))
		s.b.advance(time.Second)
	}
	begun := s.b.now()
	s.w.Step(t.Context())
	first := s.LagTime()
	if first < 30*time.Second || first > 41*time.Second {
		t.Errorf("lag %v, want about 40s, with few events read", first)
	}
	for range 3 {
		s.w.Step(t.Context())
	}
	if got := s.LagTime(); got >= first || s.b.now() != begun {
		t.Errorf("lag %v, then %v with more events read", first, got)
	}
	check.Equalf(t, strings.Count(s.logs.String(), "trigger engine behind"), 1, "warnings, want 1\n%s", s.logs)
	s.b.advance(2 * time.Minute)
	s.w.Step(t.Context())
	check.Equalf(t, strings.Count(s.logs.String(), "trigger engine behind"), 2, "warnings two minutes later, want 2\n%s", s.logs)
	s.settle()
	s.b.advance(24 * time.Minute)
	if got := s.LagTime(); got != 0 || !strings.Contains(s.logs.String(), "trigger engine caught up") {
		t.Errorf("lag %v after reading all events\n%s", got, s.logs)
	}
	var out strings.Builder
	s.opt.Metrics.WritePrometheus(&out)
	check.Contains(t, out.String(), "seb_triggers_lag_seconds 0\n")
	// Many deadlines at one instant, few of which a turn passes.
	s.b.advance(time.Hour)
	s.b.post(ev("last", "B"))
	s.w.Step(t.Context())
	if got := s.LagTime(); got < 20*time.Minute {
		t.Errorf("lag %v with deadlines of an hour ago", got)
	}
	s.settle()
	check.Equalf(t, s.LagTime(), 0, "final lag")
}
