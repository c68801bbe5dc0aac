package trigger

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestLagIsShown: events that were not read yet, and deadlines that were not passed, are a lag in seconds and a warning, now and then;
// when all is done the log says so, and the lag is zero however old the last record is.
func TestLagIsShown(t *testing.T) {
	s := step(t, newLog().broker(true), "")
	s.put(s.definition("t", "A THEN (NOT B WITHIN 1h)", nil))
	s.settle()
	if got := s.LagTime(); got != 0 {
		t.Errorf("%v behind before the first event", got)
	}
	for i := range 40 {
		s.b.post(ev(fmt.Sprint("u", i), "A"))
		s.b.advance(time.Second)
	}
	begun := s.b.now()
	s.w.Step(t.Context())
	first := s.LagTime()
	if first < 30*time.Second || first > 41*time.Second {
		t.Errorf("%v behind, of 40s of events the first few are read", first)
	}
	for range 3 {
		s.w.Step(t.Context())
	}
	if got := s.LagTime(); got >= first || s.b.now() != begun {
		t.Errorf("%v behind, then %v though more is read", first, got)
	}
	if n := strings.Count(s.logs.String(), "trigger engine behind"); n != 1 {
		t.Errorf("%d warnings in an instant\n%s", n, s.logs)
	}
	s.b.advance(2 * time.Minute)
	s.w.Step(t.Context())
	if n := strings.Count(s.logs.String(), "trigger engine behind"); n != 2 {
		t.Errorf("%d warnings, two minutes later\n%s", n, s.logs)
	}
	s.settle()
	s.b.advance(24 * time.Minute)
	if got := s.LagTime(); got != 0 || !strings.Contains(s.logs.String(), "trigger engine caught up") {
		t.Errorf("%v behind when all is read\n%s", got, s.logs)
	}
	var out strings.Builder
	s.opt.Metrics.WritePrometheus(&out)
	if !strings.Contains(out.String(), "seb_triggers_lag_seconds 0\n") {
		t.Error(out.String())
	}
	// Deadlines at once, of which few are passed in a turn.
	s.b.advance(time.Hour)
	s.b.post(ev("last", "B"))
	s.w.Step(t.Context())
	if got := s.LagTime(); got < 20*time.Minute {
		t.Errorf("%v behind with deadlines of an hour ago", got)
	}
	s.settle()
	if got := s.LagTime(); got != 0 {
		t.Errorf("%v behind at last", got)
	}
}
