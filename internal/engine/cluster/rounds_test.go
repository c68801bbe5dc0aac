package cluster

import (
	"errors"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/check"
)

// TestRoundsComeAtTheirTime: many messages of other brokers delay no round, because a broker without
// rounds sends no beats.
func TestRoundsComeAtTheirTime(t *testing.T) {
	r := Rounds{Every: Round}
	now := time.UnixMicro(1e15)
	if !r.Begin(now) || r.Begin(now.Add(Round)) {
		t.Fatal("want a Report, and no second one before the answer")
	}
	r.Answered(nil)
	now = now.Add(Round)
	asked := 0
	for range 100 {
		now = now.Add(Round / 10)
		r.Stepped(now, &Effects{})
		if r.Wait(now, false) == 0 && r.Begin(now) {
			asked++
			r.Answered(nil)
		}
	}
	check.Equalf(t, asked, 10, "rounds in the time of ten, with ten messages in each")
}

func TestRoundsFollowWhatHappens(t *testing.T) {
	r, now := Rounds{Every: Round}, time.UnixMicro(1e15)
	if w := r.Wait(now, true); w < time.Minute {
		t.Errorf("a loop that rests waits %v", w)
	}
	if !r.Stepped(now, &Effects{Ask: true}) || r.Turned(now) {
		t.Fatal("want one Report, at once")
	}
	r.Answered(nil)
	if !r.Stepped(now, &Effects{}) {
		t.Error("a Report that was on its way when the log turned is the last one")
	}
	if r.Answered(errors.ErrUnsupported) || !r.Begin(now.Add(Round)) {
		t.Error("want no step without a Report, and another one in the next round")
	}
}
