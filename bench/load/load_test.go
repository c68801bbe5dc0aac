package load_test

import (
	"context"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/sebbroker/seb/bench/drivers" // registers the drivers
	"github.com/sebbroker/seb/bench/load"
	"github.com/sebbroker/seb/bench/result"

	"github.com/sebbroker/seb/bench/workload"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// lateClock wakes sleepers late, like a machine that is too busy.
type lateClock struct {
	*load.StandardClock
	late time.Duration
}

func (c lateClock) SleepUntil(ctx context.Context, t int64) error {
	if t <= c.Now() {
		return nil
	}
	return c.StandardClock.SleepUntil(ctx, t+int64(c.late))
}

func TestValidity(t *testing.T) {
	t.Run("a late generator makes a run invalid", func(t *testing.T) {
		s := &simulation{service: time.Millisecond / 2}
		res := simulate(t, s, simWorkload(), func(o *load.Options) { o.Clock = lateClock{load.NewStandardClock(), 300 * time.Microsecond} })
		v := res.Validity
		if v.Valid || len(v.Reasons) != 1 || !strings.Contains(v.Reasons[0], "generator itself") {
			t.Errorf("%+v", v)
		}
		if d := time.Duration(v.LagNs); d < 299*time.Microsecond || d > 301*time.Microsecond {
			t.Errorf("lag %v, want 300µs", d)
		}
		if d, _ := res.Curves.E2ESent.At(50); d > 501*time.Microsecond {
			t.Errorf("latency from the send is %v, want 500µs", d)
		}
	})
	t.Run("its delay adds up until it has caught up", func(t *testing.T) {
		// It wakes up 3 ms late, and three more messages are due by then. None of this is caused by
		// the system.
		s := &simulation{service: time.Microsecond}
		res := simulate(t, s, simWorkload(), func(o *load.Options) { o.Clock = lateClock{load.NewStandardClock(), 3500 * time.Microsecond} })
		own, lag := histogram(t, &res.Generator.OwnLag), histogram(t, &res.Generator.Lag)
		if !own.Equal(lag) {
			t.Errorf("mean of the own lag %v, of the total lag %v", own.Mean(), lag.Mean())
		}
		if d := lag.Max(); d < 3499*time.Microsecond || d > 3505*time.Microsecond {
			t.Errorf("lag of up to %v, want 3.5ms", d)
		}
	})
	t.Run("a system that accepts no messages for a while does not", func(t *testing.T) {
		s := &simulation{service: 100 * time.Microsecond, blockAt: 5 * time.Second, block: time.Second}
		res := simulate(t, s, simWorkload())
		if !res.Validity.Valid || res.Validity.LagNs > int64(time.Microsecond) {
			t.Errorf("%+v", res.Validity)
		}
		lag := histogram(t, &res.Generator.Lag)
		if lag.Max() < 990*time.Millisecond || above(lag, time.Millisecond) < 990 {
			t.Errorf("%d messages were sent late, by up to %v", above(lag, time.Millisecond), lag.Max())
		}
		if n := above(histogram(t, res.Curves.E2EIntended), 500*time.Millisecond); n < 500 {
			t.Errorf("%d messages took more than 500 ms from the intended time", n)
		}
		check.Equalf(t, above(histogram(t, res.Curves.E2ESent), 500*time.Millisecond), 1, "messages took more than 500 ms from the send")
		if d := histogram(t, &res.Generator.Inside).Max(); d < 999*time.Millisecond {
			t.Errorf("the driver took %v at most", d)
		}
	})
	t.Run("nor does a system with too many messages in flight", func(t *testing.T) {
		w := simWorkload()
		w.InFlight = 10
		res := simulate(t, &simulation{service: 100 * time.Microsecond, stallAt: 5 * time.Second, stall: time.Second}, w)
		if !res.Validity.Valid || res.Validity.LagNs > int64(time.Microsecond) || res.Counts.Waited < 900 {
			t.Errorf("%+v, %d waited", res.Validity, res.Counts.Waited)
		}
		for i, s := range res.Seconds {
			if s.InFlight > 10 {
				t.Errorf("second %d: %d in flight", i, s.InFlight)
			}
		}
	})
	t.Run("few samples are compared by their maxima", func(t *testing.T) {
		w := simWorkload()
		w.Rate = 20 * workload.PerSecond
		res := simulate(t, &simulation{service: time.Millisecond}, w)
		if !res.Validity.Valid || !strings.Contains(strings.Join(res.Validity.Notes, "\n"), "200 messages are too few") {
			t.Errorf("%+v", res.Validity)
		}
	})
}

func TestFailures(t *testing.T) {
	t.Run("failed messages count with the timeout, and their errors are listed", func(t *testing.T) {
		refused := errors.New("no space left")
		s := &simulation{service: time.Microsecond, refuse: func(n int) error {
			if n >= 2000 && n < 2100 {
				return refused
			}
			return nil
		}}
		res := simulate(t, s, simWorkload())
		if c := res.Counts; c.Failed != 100 || c.Lost != 0 || c.Received != 10_900 || c.Expected != 10_900 {
			t.Errorf("%+v", c)
		}
		if len(res.Errors) != 1 || res.Errors[0].Count != 100 || !strings.Contains(res.Errors[0].Text, "no space left") {
			t.Errorf("%+v", res.Errors)
		}
		for _, name := range result.Names() {
			if n := above(histogram(t, res.Curves.Named(name)), 9*time.Second); n != 100 {
				t.Errorf("%s: %d samples of at least the timeout", name, n)
			}
		}
	})
	t.Run("messages that could not be sent count from their due time", func(t *testing.T) {
		s := &simulation{service: time.Microsecond, blockAt: 6 * time.Second, block: time.Hour}
		w := simWorkload()
		w.Timeout = workload.Duration(2 * time.Second)
		res := simulate(t, s, w)
		c := res.Counts
		// The blocked message fails at the end, 13 s after the start; the rest of the eleven
		// seconds is not sent.
		if c.Unsent != 4999 || c.Failed != 1 || c.Received != 6000 || c.Measured != 5001 {
			t.Errorf("%+v", c)
		}
		for _, name := range []string{result.AckIntended, result.E2EIntended} {
			h := histogram(t, res.Curves.Named(name))
			if h.Count() != 10_000 || above(h, 1999*time.Millisecond) != 5000 || h.Max() < 6990*time.Millisecond {
				t.Errorf("%s: %d samples, %d of at least 2 s, max %v", name, h.Count(), above(h, 1999*time.Millisecond), h.Max())
			}
		}
	})
	t.Run("unanswered messages count too", func(t *testing.T) {
		s := &simulation{service: time.Microsecond, stallAt: 10 * time.Second, stall: 20 * time.Second}
		w := simWorkload()
		w.Timeout = workload.Duration(5 * time.Second)
		res := simulate(t, s, w)
		if c := res.Counts; c.Unanswered != 1000 || c.Lost != 0 || c.Received != 10_000 {
			t.Errorf("%+v", c)
		}
		h := histogram(t, &res.Curves.AckIntended)
		if h.Count() != 10_000 || above(h, 4900*time.Millisecond) != 1000 {
			t.Errorf("%d samples, %d of at least the timeout", h.Count(), above(h, 4900*time.Millisecond))
		}
	})
}

func TestLimits(t *testing.T) {
	t.Run("more than two minutes are an overflow", func(t *testing.T) {
		w := simWorkload()
		w.Timeout = workload.Duration(10 * time.Minute)
		res := simulate(t, &simulation{service: time.Microsecond, stallAt: 10 * time.Second, stall: 3 * time.Minute}, w)
		if c := res.Curves.E2EIntended; c.Overflow != 1000 || c.MaxNs != int64(result.Highest) || !res.Counts.Clean() {
			t.Errorf("%d overflows, max %v, %+v", c.Overflow, time.Duration(c.MaxNs), res.Counts)
		}
	})
	t.Run("an invalid workload is refused", func(t *testing.T) {
		w := simWorkload()
		w.Publishers = 0
		check.ErrorContains(t, check.Err(load.Run(t.Context(), load.Options{Workload: w})), "publishers")
	})
	t.Run("a cancelled context ends the run", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			s := &simulation{service: time.Microsecond}
			_, err := load.Run(ctx, load.Options{Workload: simWorkload(), Clock: load.NewStandardClock(), Open: s.open})
			check.ErrorIsf(t, err, context.DeadlineExceeded, "error")
		})
	})
}

func TestFaults(t *testing.T) {
	t.Run("a slow subscriber is late, the acknowledgements are not", func(t *testing.T) {
		w := simWorkload()
		w.Faults = []workload.Fault{{Kind: workload.Slow, At: 2 * time.Second, For: time.Second, Delay: 2 * time.Millisecond}}
		res := simulate(t, &simulation{service: time.Microsecond}, w)
		// It handles 500 of the 1000 messages of the second, so that the last one waits for half a
		// second.
		if d := histogram(t, res.Curves.E2EIntended).Max(); d < 490*time.Millisecond || d > 510*time.Millisecond {
			t.Errorf("end-to-end latency is up to %v", d)
		}
		if d := histogram(t, &res.Curves.AckIntended).Max(); d > time.Millisecond {
			t.Errorf("an acknowledgement took %v", d)
		}
		if len(res.Faults) != 1 || res.Faults[0].From != 3 || res.Faults[0].To != 4 || res.Faults[0].Error != "" {
			t.Errorf("%+v", res.Faults)
		}
	})
	t.Run("a subscriber on hold receives the queued messages", func(t *testing.T) {
		w := simWorkload()
		w.Faults = []workload.Fault{{Kind: workload.Hold, At: time.Second, For: 3 * time.Second}}
		res := simulate(t, &simulation{service: time.Microsecond}, w)
		h := histogram(t, res.Curves.E2EIntended)
		if n := above(h, 500*time.Millisecond); n < 2490 || n > 2510 || !res.Counts.Clean() {
			t.Errorf("%d samples of more than half a second, %+v", n, res.Counts)
		}
	})
	t.Run("a command runs and reports the broker's new process", func(t *testing.T) {
		broker := exec.Command("sleep", "100")
		must.NoError(t, broker.Start())
		defer func() { _ = broker.Wait() }()
		w := simWorkload()
		w.Faults = []workload.Fault{
			{Kind: workload.Pause, At: time.Second, For: time.Second},
			{Kind: workload.Restart, At: 3 * time.Second, Run: "echo started after $PID; echo 17 and; echo " + strconv.Itoa(1<<22+5)},
			{Kind: workload.Pause, At: 5 * time.Second, For: time.Second},
			{Kind: workload.Command, At: 7 * time.Second, Run: "echo broken; exit 3"},
		}
		res := simulate(t, &simulation{service: time.Microsecond}, w, func(o *load.Options) { o.Target.PID = broker.Process.Pid })
		if len(res.Faults) != 4 || res.Faults[0].Error != "" || res.Faults[0].To-res.Faults[0].From != 1 || res.Faults[1].Error != "" {
			t.Fatalf("%+v", res.Faults)
		}
		check.Containsf(t, res.Faults[2].Error, strconv.Itoa(1<<22+5), "error of the pause after the restart")
		if e := res.Faults[3].Error; !strings.Contains(e, "exit status 3") || !strings.Contains(e, "broken") {
			t.Errorf("error of the failed command is %q", e)
		}
	})
	t.Run("a fault of a process needs its id", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := simWorkload()
			w.Faults = []workload.Fault{{Kind: workload.Pause, For: time.Second}}
			_, err := load.Run(t.Context(), load.Options{Workload: w, Clock: load.NewStandardClock(), Open: (&simulation{}).open})
			check.ErrorContains(t, err, "pid")
		})
	})
}

func TestNoop(t *testing.T) {
	w := workload.Default()
	w.Warmup, w.Duration, w.Timeout = workload.Duration(50*time.Millisecond), workload.Duration(300*time.Millisecond), workload.Duration(time.Minute)
	w.Rate, w.Publishers, w.Topics, w.Subscribers, w.Keys = 7000*workload.PerSecond, 4, 2, 2, 5
	size := must.Get(workload.ParseSizes("64..4KiB:3,48"))(t)
	w.Size = size
	for _, shared := range []bool{false, true} {
		w.Shared = shared
		times := int64(2)
		if shared {
			times = 1
		}
		t.Run("every message arrives, shared: "+strconv.FormatBool(shared), func(t *testing.T) {
			res, err := load.Run(t.Context(), load.Options{
				Workload: w, Clock: load.NewMonotonicClock(0), Target: workload.Target{Driver: "noop"},
			})
			must.NoError(t, err)
			c := res.Counts
			if c.Sent != 2450 || c.Acked != 2450 || c.Measured != 2100 || c.Expected != 2450*times || c.Received != c.Expected || !c.Clean() {
				t.Errorf("%+v %v", c, res.Errors)
			}
			check.Equalf(t, res.Curves.E2ESent.Count, 2100*times, "samples")
		})
	}
}

func TestFloor(t *testing.T) {
	w := simWorkload()
	res := simulate(t, &simulation{service: time.Millisecond / 2}, w, func(o *load.Options) { o.Floor = 3 * time.Second })
	f := res.Floor
	if f == nil || f.Curves.E2EIntended.Count != 3000 || f.SentRate != 1000 || f.Curves.E2EIntended.MaxNs > 1000 {
		t.Errorf("%+v", f)
	}
	check.Equalf(t, res.Curves.E2EIntended.Count, 10_000, "samples in the run itself")
}
