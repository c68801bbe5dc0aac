package load_test

import (
	"context"
	"testing"
	"time"

	"github.com/sebbroker/seb/bench/load"

	"github.com/sebbroker/seb/bench/peers"
	"github.com/sebbroker/seb/bench/workload"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestPause stops a real broker for a second. It checks the delay that a stop of that length must
// cause; any further delay depends on the machine.
func TestPause(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts a broker")
	}
	o := peers.Options{Data: t.TempDir(), Progress: t.Output()}
	t.Cleanup(func() { check.NoError(t, peers.Down(context.Background(), o)) })
	up := must.Get(peers.Up(t.Context(), o, "seb-memory"))(t)
	p := up[0]
	w := workload.Default()
	w.Rate, w.Size = 500*workload.PerSecond, workload.FixedSize(100)
	w.Warmup, w.Duration = workload.Duration(500*time.Millisecond), workload.Duration(3*time.Second)
	w.Timeout = workload.Duration(time.Minute)
	w.Faults = []workload.Fault{{Kind: workload.Pause, At: time.Second, For: time.Second}}
	const late = 250 * time.Millisecond
	found := map[string]int64{}
	run := func(loop string) (longest time.Duration) {
		w.Loop = loop
		res, err := load.Run(t.Context(), load.Options{
			Workload: w, Clock: load.NewMonotonicClock(0),
			Target: workload.Target{Driver: p.Targets[0].Driver, Address: p.Targets[0].Address, Options: p.Targets[0].Options, PID: p.PID},
		})
		must.NoError(t, err)
		if !res.Counts.Clean() || len(res.Faults) != 1 || res.Faults[0].Error != "" || res.Faults[0].To-res.Faults[0].From < 1 {
			t.Errorf("%s loop: %+v, %v, faults %+v", loop, res.Counts, res.Errors, res.Faults)
		}
		h := histogram(t, res.Curves.E2EIntended)
		found[loop] = above(h, late)
		t.Logf("%s loop: %d of %d messages took more than %v, the longest %v", loop, found[loop], h.Count(), late, h.Max())
		return h.Max()
	}
	for loop, attempts := range map[string]int{
		workload.Open: 1,
		// It may have sent nothing when the stop begins, if this process waits for the processor.
		workload.Closed: 5,
	} {
		longest := run(loop)
		for n := 1; longest < 900*time.Millisecond && n < attempts; n++ {
			longest = run(loop)
		}
		if longest < 900*time.Millisecond {
			t.Errorf("%s loop: the longest took %v", loop, longest)
		}
	}
	// The messages due in the first three quarters of the second wait for at least a quarter: 375
	// messages.
	if n := found[workload.Open]; n < 300 {
		t.Errorf("%d messages are late, want about 375", n)
	}
	if closed, open := found[workload.Closed], found[workload.Open]; closed > open/4 {
		t.Errorf("the closed loop has %d late messages, the open one %d: it should hide them", closed, open)
	}
}
