package journalsim

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// World is one run: the disk, the processes, and the scheduler that lets them take steps.
type World struct {
	cfg   Config
	disk  *Disk
	check *checker
	stats Stats
	err   error // the first violation

	// Steps, faults and load are drawn from generators of their own.
	sched, draw, load *rand.Rand

	now       int // steps so far
	processes []*Process
	last      *Process                      // took the latest step
	solo      *solo                         // nil: every process takes steps
	calm      bool                          // no faults
	direct    bool                          // no scheduler: each step happens at once
	before    func(p *Process, step string) // in a direct world: called before each step, unless it is nil
	imaged    int                           // change of the disk whose images were checked
	running   atomic.Int64                  // tasks that have not ended
	tasks     sync.Map                      // from goroutines to numbers of tasks
	events    []event
	epochs    int // the highest epoch that was claimed or tried
	trace     io.Writer
	hash      uint64

	mu      sync.Mutex // guards the fields below
	calls   []*call    // waiting for their step
	turns   []*turn    // waiting for a mutex
	round   int        // turns so far
	begun   int        // tasks so far
	mutexes int
}

// call is a goroutine that waits for its step.
type call struct {
	waiter
	p     *Process
	what  string
	after int // not before this step of the world
}

// solo lets only one process take steps while it puts one object: it must not need the others.
type solo struct {
	p     *Process
	what  string
	limit int // steps of p by which it must have finished
}

// event is something that happens to the world, at some steps.
type event struct {
	every int // mean number of steps; 0: never
	next  int
	do    func()
}

func newWorld(cfg Config, trace io.Writer) *World {
	w := &World{cfg: cfg, disk: NewDisk(), trace: trace}
	w.sched, w.draw, w.load = rand.New(rand.NewPCG(cfg.Seed, 1)), rand.New(rand.NewPCG(cfg.Seed, 2)), rand.New(rand.NewPCG(cfg.Seed, 3))
	w.check = newChecker(w)
	return w
}

// step waits until the scheduler lets the caller take a step. Its effect follows when step returns.
func (p *Process) step(format string, args ...any) error { return p.stepAfter(0, format, args...) }

// rest waits for n steps of the world.
func (p *Process) rest(n int) error { return p.stepAfter(n, "rests") }

func (p *Process) stepAfter(n int, format string, args ...any) error {
	if p.dead {
		return errKilled
	}
	w := p.w
	if w.direct {
		if w.before != nil {
			w.before(p, fmt.Sprintf(format, args...))
		}
		if p.dead {
			return errKilled
		}
		w.now++
		w.tracef("%d "+format, append([]any{p.id}, args...)...)
		return nil
	}
	w.cfg.disturb()
	c := &call{p: p, what: fmt.Sprintf(format, args...), waiter: waiter{proceed: make(chan order)}}
	w.mu.Lock()
	if n > 0 {
		c.after = w.now + n
	}
	w.calls = append(w.calls, c)
	w.mu.Unlock()
	if c.wait(w) == killed {
		return errKilled
	}
	return nil
}

// task runs f as a part of a process. It begins with a step, so that f draws at a known time.
func (p *Process) task(name string, f func()) {
	p.w.begin(func() {
		if p.step("begins to %s", name) == nil {
			f()
		}
	})
}

// spin lets processes take steps until done, and reports whether all tasks have ended.
func (w *World) spin(done func() bool) bool {
	for w.err == nil && !done() {
		w.settle()
		w.images()
		w.happen()
		c := w.choose()
		if c == nil {
			if w.running.Load() == 0 {
				return true
			}
			if w.solo != nil {
				w.failf("D5: process %d cannot finish without others: %s", w.solo.p.id, w.solo.what)
				return false
			}
			w.failf("D5: %d tasks wait, and no step would wake them:\n%s", w.running.Load(), stacks())
			return false
		}
		w.release(c)
	}
	w.settle()
	return w.running.Load() == 0
}

func (w *World) release(c *call) {
	w.now++
	c.p.steps++
	w.last = c.p
	w.tracef("%d %s", c.p.id, c.what)
	if w.solo != nil && c.p.steps > w.solo.limit {
		w.failf("D5: process %d cannot finish without others: %s", w.solo.p.id, w.solo.what)
	}
	c.proceed <- goOn
}

// choose takes the call that goes next, nil if none waits.
func (w *World) choose() *call {
	w.mu.Lock()
	defer w.mu.Unlock()
	waiting := w.calls
	if w.solo != nil {
		waiting = slices.DeleteFunc(slices.Clone(w.calls), func(c *call) bool { return c.p != w.solo.p })
	}
	if len(waiting) == 0 {
		return nil
	}
	// The order of arrival of calls that one step woke is not determined.
	slices.SortFunc(waiting, func(a, b *call) int {
		n := cmp.Or(cmp.Compare(a.p.id, b.p.id), strings.Compare(a.what, b.what))
		if n == 0 && a != b {
			n = a.compareTask(&b.waiter)
		}
		return n
	})
	// If every call waits for a later step, time passes.
	w.now = max(w.now, slices.MinFunc(waiting, func(a, b *call) int { return cmp.Compare(a.when(), b.when()) }).when())
	ready := slices.DeleteFunc(slices.Clone(waiting), func(c *call) bool { return c.when() > w.now })
	var same, first []*call
	for _, c := range ready {
		if c.p == w.last {
			same = append(same, c)
		}
		if len(first) == 0 || first[len(first)-1].p != c.p {
			first = append(first, c)
		}
	}
	if len(same) == 0 || w.sched.IntN(100) >= w.cfg.Stick {
		p := first[w.sched.IntN(len(first))].p
		same = same[:0]
		for _, c := range ready {
			if c.p == p {
				same = append(same, c)
			}
		}
	}
	c := same[w.sched.IntN(len(same))]
	w.calls = slices.DeleteFunc(w.calls, func(o *call) bool { return o == c })
	return c
}

// when is the step from which a call may proceed.
func (c *call) when() int { return max(c.after, c.p.paused) }

// happen lets due events happen.
func (w *World) happen() {
	if w.calm {
		return
	}
	for i := range w.events {
		e := &w.events[i]
		if e.every == 0 {
			continue
		}
		if e.next == 0 {
			e.next = w.now + 1 + w.sched.IntN(2*e.every)
		}
		if w.now >= e.next {
			e.next = w.now + 1 + w.sched.IntN(2*e.every)
			e.do()
			w.settle()
		}
	}
}

// kill ends a process between two steps. Its goroutines get errors from every call and end; nothing
// that they do has an effect.
func (w *World) kill(p *Process) {
	if p.dead {
		return
	}
	w.tracef("%d is killed", p.id)
	p.dead = true
	if w.solo != nil && w.solo.p == p {
		w.solo = nil
	}
	w.mu.Lock()
	var waiting []*call
	w.calls = slices.DeleteFunc(w.calls, func(c *call) bool {
		if c.p == p {
			waiting = append(waiting, c)
		}
		return c.p == p
	})
	w.mu.Unlock()
	for _, c := range waiting {
		c.proceed <- killed
	}
	w.settle()
	p.store.abandon()
	w.settle()
}

// living returns the processes that were not killed.
func (w *World) living() []*Process {
	w.processes = slices.DeleteFunc(w.processes, func(p *Process) bool { return p.dead })
	return w.processes
}

// powerFailure kills every process and leaves the disk in one of its possible states.
func (w *World) powerFailure(f fate) {
	for _, p := range slices.Clone(w.living()) {
		w.kill(p)
	}
	w.tracef("- power failure")
	w.stats.PowerFailures++
	w.disk = w.disk.fail(f)
	w.check.powerFailure()
}

// chance is true in percent of all cases.
func (w *World) chance(percent int) bool { return w.draw.IntN(100) < percent }

// fault is true with a probability of rate in 10,000.
func (w *World) fault(rate int) bool { return !w.calm && rate > 0 && w.draw.IntN(10_000) < rate }

func (w *World) tracef(format string, args ...any) {
	if w.direct && w.trace == nil {
		return
	}
	line := fmt.Sprintf("%6d ", w.now) + fmt.Sprintf(format, args...) + "\n"
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%x", w.hash)
	_, _ = io.WriteString(h, line)
	w.hash = h.Sum64()
	if w.trace != nil {
		_, _ = io.WriteString(w.trace, line)
	}
}

// failf records a violation; the first one counts.
func (w *World) failf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
		if w.trace != nil {
			_, _ = fmt.Fprintf(w.trace, "%6d VIOLATION: %v\n", w.now, w.err)
		}
	}
}
