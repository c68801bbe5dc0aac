package watch

import (
	"context"
	"log/slog"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/pause"
	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
)

// Broker is one run of a broker with its engine, from the first time it leads.
type Broker struct {
	s      *Sim
	host   Host
	ctx    context.Context
	cancel context.CancelFunc
	log    *hostLog
	engine *rules.Stepped // nil before it leads
	calls  []*call
	dead   bool

	turning, again bool
	stalled        bool
	due            int64  // time of the next turn, ns; 0: none
	timer          uint64 // its number
	changing       bool   // a definition is being changed
	under          map[rule.ID]bool
	waiting        []*call // for the next turn of the engine
}

// Start adds a broker that starts.
func (s *Sim) Start(host Host) *Broker {
	b := &Broker{s: s, host: host, under: map[rule.ID]bool{}}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.log = &hostLog{b: b}
	return b
}

// Notify must be called whenever a broker's view of the log has changed.
func (b *Broker) Notify() {
	if b.engine == nil && !b.dead && b.host.Leads() {
		b.open()
	}
	if b.engine != nil {
		b.soon(0)
	}
}

// sizes returns the sizes of the run's engines.
func (s *Sim) sizes() *rules.Sizes {
	work := 0            // default
	if s.cfg.Dues == 2 { // a trigger that has a few events to read is late
		work = 200 // a trigger that has a few events to read is late
	}
	return &rules.Sizes{
		Work: work, ReadBytes: s.cfg.ReadBytes, Pieces: 4, Outbox: s.cfg.Out, Dues: s.cfg.Dues, Sweep: 50, TickEvery: 50 * time.Millisecond,
		Retry: pause.Growth{Min: 100 * time.Millisecond, Max: time.Minute}, Unsafe: true,
	}
}

func (b *Broker) options(path string, log rules.Log) rules.Options {
	return rules.Options{
		Path: path, Log: log, EventPartitions: eventParts, Now: b.host.Wall, Sizes: b.s.sizes(), CacheBytes: 1 << 20,
		Logger: slog.New(slog.NewTextHandler(traced{b}, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: untimed})),
	}
}

// traced writes an engine's log into the trace.
type traced struct{ b *Broker }

func (t traced) Write(p []byte) (int, error) {
	t.b.s.w.Logf("%s: engine: %s", t.b.host.Name(), p[:len(p)-1])
	return len(p), nil
}

func untimed(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey || a.Key == "path" {
		return slog.Attr{}
	}
	return a
}

func (b *Broker) open() {
	path := b.s.path(b.host.Name())
	if err := b.s.view(path); err != nil {
		b.s.w.Fail("simulator: %v", err)
		return
	}
	var err error
	if b.engine, err = rules.OpenStepped(b.options(path, b.log), b.wait); err != nil {
		b.s.w.Fail("simulator: %v", err)
		return
	}
	b.stalls()
}

// wait parks a call until the engine has had a turn. It requests turns at growing intervals.
func (b *Broker) wait(ctx context.Context) {
	c := callOf(ctx)
	b.waiting = append(b.waiting, c)
	b.soon(time.Millisecond << min(c.waits, 20))
	c.waits++
	c.park()
}

// soon schedules a turn of the engine, if none comes before.
func (b *Broker) soon(d time.Duration) {
	at := b.s.w.Now() + int64(d)
	if b.due != 0 && b.due <= at {
		return
	}
	b.due = at
	b.timer++
	n := b.timer
	b.s.w.After(d, func() {
		b.host.Do(func() {
			if n == b.timer {
				b.due = 0
				b.turn()
			}
		})
	})
}

// turn lets the engine do some of its work, and resumes the calls that wait for that.
func (b *Broker) turn() {
	if b.turning || b.stalled || b.dead {
		b.again = true
		return
	}
	b.turning, b.again = true, false
	b.begin(func(ctx context.Context, c *call) {
		d := b.engine.Step(ctx)
		b.turning = false
		if b.dead {
			return
		}
		c.sleep(b.s.upTo(3 * time.Millisecond)) // a turn takes some time
		if b.dead {
			return
		}
		waiting := b.waiting
		b.waiting = nil
		for _, x := range waiting {
			x.wake(0)
		}
		b.deliver()
		if b.again {
			d = 0
		}
		b.soon(d)
	})
}

// stalls stops the engine at random times, while the broker continues.
func (b *Broker) stalls() {
	if b.s.cfg.StallEvery == 0 {
		return
	}
	b.s.w.After(b.s.around(b.s.cfg.StallEvery), func() {
		if b.dead || b.s.w.Calm() {
			return
		}
		b.s.Counts.Stalls++
		b.stalled = true
		b.s.w.Logf("%s: engine stalled", b.host.Name())
		b.s.w.After(b.s.around(10*time.Hour), func() { b.resume() })
		b.stalls()
	})
}

func (b *Broker) resume() {
	b.stalled = false
	b.Notify()
}

// Calm ends all faults of the engine.
func (b *Broker) Calm() {
	if b != nil {
		b.resume()
	}
}

// Kill ends the run. Waiting calls never resume.
func (b *Broker) Kill() {
	if b == nil {
		return
	}
	b.dead = true
	b.cancel()
	for len(b.calls) > 0 {
		b.calls[0].resume()
	}
	if b.engine != nil {
		if err := b.engine.Close(); err != nil {
			b.s.w.Fail("simulator: close a view: %v", err)
		}
	}
}
