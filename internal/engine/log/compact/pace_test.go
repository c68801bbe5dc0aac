package compact

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
)

// TestPace checks how long paced work rests after each step.
func TestPace(t *testing.T) {
	for _, c := range []struct {
		on         bool
		work, rest time.Duration
	}{
		{true, time.Millisecond, paceRest * time.Millisecond},
		{true, time.Second, pauseMax}, // for example of a remote store
		{false, time.Millisecond, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			var p pace
			p.start(c.on)
			for range 2 {
				begin := time.Now()
				time.Sleep(c.work)
				p.add(paceStep - 1)
				check.Equalf(t, time.Since(begin), c.work, "%+v: time of less than a step", c)
				p.add(1)
				check.Equalf(t, time.Since(begin), c.work+c.rest, "%+v: time of a step", c)
			}
		})
	}
}

// TestMergingRests checks that a merge rests until so many ranges wait that it must catch up.
func TestMergingRests(t *testing.T) {
	for ranges, rests := range map[int]bool{0: true, 19: true, 20: false} {
		synctest.Test(t, func(t *testing.T) {
			m := Open(Options{
				Log: &viewLog{s: state.Genesis(record.ID{1}, 0)}, Every: time.Second / 2,
				Ranges: func() int { return ranges }, Policy: Policy{Backlog: 10},
			})
			time.Sleep(m.opt.Every + m.opt.Every/2) // one check
			m.Close()
			check.Equalf(t, m.pace.on, rests, "%d ranges: rests", ranges)
		})
	}
}
