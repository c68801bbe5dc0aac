package log_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

const (
	us   = int64(1)
	sec  = 1_000_000 * us
	day  = 24 * 3600 * sec
	last = 1_700_000_000 * sec // a log's last time
)

// at returns the readings some time after the start, when the machine's clock showed wall.
func at(wall int64, passed time.Duration) log.Reading {
	return log.Reading{Mono: 5_000 + int64(passed), Wall: wall + passed.Microseconds()}
}

func TestTimePassesByTheMonotonicClock(t *testing.T) {
	var c log.Clock
	if got, err := c.Time(at(last, 0)); got != last || err != nil {
		t.Fatal(got, err)
	}
	c.Lead(0)
	for _, jump := range []int64{3650 * day, -3650 * day, sec} {
		r := at(last, time.Minute)
		r.Wall += jump
		if got, err := c.Time(r); got != last+60*sec || err != nil {
			t.Errorf("after a jump of %d us: %d, %v", jump, got, err)
		}
	}
}

func TestStarts(t *testing.T) {
	for _, c := range []struct {
		name   string
		wall   int64
		accept bool
		want   string // "": commits are allowed
		leapt  bool
	}{
		{"at once", last + 1, false, "", false},
		{"next week", last + 7*day, false, "", true},
		{"next day", last + day - 1, false, "", false},
		{"after 400 days", last + 400*day, false, "", true},
		{"after more", last + 401*day, false, "401 days ahead", false},
		{"after more, accepted", last + 3650*day, true, "", true},
		{"a moment before", last, false, "0s behind", false},
		{"ten years before", last - 3650*day, false, "87600h0m0s behind", false},
		{"ten years before, accepted", last - 3650*day, true, "", false},
		{"at the end of time", 1<<62 - 1, false, "days ahead", false},
		{"at its beginning", 0, false, "behind", false},
	} {
		clock := log.Clock{Accept: c.accept}
		clock.Lead(last)
		got, err := clock.Time(at(c.wall, 0))
		if got != c.wall || (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || !errors.Is(err, log.ErrClock)) {
			t.Errorf("%s: %d, %v", c.name, got, err)
		}
		check.Equalf(t, clock.Leapt(), c.leapt, "%s: leapt", c.name)
	}
}

func TestClockBehindCatchesUp(t *testing.T) {
	var c log.Clock
	c.Lead(last)
	must.Error(t, check.Err(c.Time(at(last-sec, 0))), "commits in the past")
	if got, err := c.Time(at(last-sec, time.Second+time.Microsecond)); got != last+1 || err != nil {
		t.Error(got, err)
	}
}

func TestEmptyLogContradictsNoClock(t *testing.T) {
	for _, empty := range []int64{0, 17} {
		var c log.Clock
		c.Lead(empty)
		if _, err := c.Time(at(last, 0)); err != nil || c.Leapt() {
			t.Error(err, c.Leapt())
		}
	}
}

func TestStoreClock(t *testing.T) {
	var c log.Clock
	c.Lead(last)
	r := log.Reading{Wall: last + day, Store: true, Skew: log.SkewMax}
	if got, err := c.Time(r); got != r.Wall || err != nil {
		t.Error(got, err)
	}
	for _, skew := range []time.Duration{log.SkewMax + 1, -log.SkewMax - 1, 3650 * 24 * time.Hour} {
		r.Skew = skew
		var wrong *log.ClockError
		if _, err := c.Time(r); !errors.As(err, &wrong) || wrong.Skew != skew {
			t.Errorf("%v: %v", skew, err)
		}
		check.Error(t, check.Err(c.Set(r)), "the clock was set although the store contradicts it")
	}
	late := log.Clock{}
	late.Lead(last)
	check.NoErrorf(t, check.Err(late.Time(log.Reading{Wall: last - day, Store: true})), "the store agrees, and the log is in the future")
}

func TestSet(t *testing.T) {
	var c log.Clock
	c.Lead(last)
	must.Error(t, check.Err(c.Time(at(last-day, 0))), "commits in the past")
	r := at(last-day, time.Second)
	r.Wall -= day // the clock was set back
	if got, err := c.Set(r); got != r.Wall || err != nil {
		t.Error(got, err)
	}
	next := r
	next.Mono += int64(time.Second)
	if got, err := c.Time(next); got != r.Wall+sec || err != nil {
		t.Error(got, err)
	}
}
