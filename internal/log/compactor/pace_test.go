package compactor

import (
	"testing"
	"testing/synctest"
	"time"

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
