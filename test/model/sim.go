package model

import (
	"fmt"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"time"
)

const (
	ms = time.Millisecond
	// tick is the time between two rounds of the loop of a process.
	tick = 50 * ms
	// eventsMax ends a run that schedules events without end; such a run checks safety only.
	eventsMax = 3_000_000
)

// world is one run: virtual time, the bucket, the machines and the observer.
type world struct {
	cfg  Config
	rnd  *rand.Rand
	now  time.Duration
	seq  int
	q    []event
	live map[*task]struct{}

	times   times
	latency time.Duration // typical time of a request to the bucket
	link    time.Duration // typical time between two brokers
	late    time.Duration // a request without a verdict may take effect until then
	lost    float64       // probability that a request has no verdict
	twice   float64       // probability that a request takes effect twice
	rate    int           // calls in a second
	keep    int           // epochs whose ends a state remembers

	// hold, of a directed schedule, returns how much later a request takes effect.
	hold    func(p *process, r request) time.Duration
	garbage bool // all garbage is collected
	calm    bool // no task sleeps
	bucket  bucket
	hosts   []*host
	reach   [][]bool          // reach[i][j]: messages pass from i to j
	refuses [][]bool          // a rule on the way from i to j refuses connections
	fifo    [][]time.Duration // arrival of the newest message from i to j

	calls    []call // by number; call 0 does not exist
	stat     Stat
	healed   bool
	faultTil time.Duration // the newest fault lasts until then
	quietAt  time.Duration // nothing has disturbed an idle cluster since
	ledAt    time.Duration // an able leader was last seen
	slowTil  time.Duration // LIST is slow until then
	leads    []time.Duration
	acked    []ackedAt
}

type event struct {
	at  time.Duration
	seq int
	f   func()
}

func (w *world) violate(format string, args ...any) { panic(violation(fmt.Sprintf(format, args...))) }

// violation is the text of a broken invariant.
type violation string

// stopped unwinds a task whose process has ended.
type stopped struct{}

func (w *world) on(r Rule) bool { return !w.cfg.Without.Has(r) }

func (w *world) bug(b Bug) bool { return w.cfg.Bugs&(1<<b) != 0 }

func (w *world) logf(format string, args ...any) {
	if w.cfg.Trace != nil {
		fmt.Fprintf(w.cfg.Trace, "%9.3f  ", w.now.Seconds())
		fmt.Fprintf(w.cfg.Trace, format+"\n", args...)
	}
}

// at calls f after d. Events at the same time happen in the order of their calls.
func (w *world) at(d time.Duration, f func()) {
	w.seq++
	e := event{w.now + max(d, 0), w.seq, f}
	q := append(w.q, e)
	i := len(q) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(q[up]) {
			break
		}
		q[i] = q[up]
		i = up
	}
	q[i] = e
	w.q = q
}

func (e event) before(o event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// step runs the next event and reports whether there was one before end.
func (w *world) step(end time.Duration) bool {
	if len(w.q) == 0 || w.q[0].at >= end {
		return false
	}
	first := w.q[0]
	n := len(w.q) - 1
	last := w.q[n]
	w.q[n] = event{}
	w.q = w.q[:n]
	if n > 0 {
		i := 0
		for {
			kid := 2*i + 1
			if kid >= n {
				break
			}
			if kid+1 < n && w.q[kid+1].before(w.q[kid]) {
				kid++
			}
			if !w.q[kid].before(last) {
				break
			}
			w.q[i] = w.q[kid]
			i = kid
		}
		w.q[i] = last
	}
	w.now = first.at
	first.f()
	return true
}

// fresh returns a number that was never returned before. It stands for a nonce or a run.
func (w *world) fresh() int {
	w.seq++
	return w.seq
}

func (w *world) chance(p float64) bool { return w.rnd.Float64() < p }

func (w *world) between(a, b time.Duration) time.Duration {
	return a + time.Duration(float64(b-a)*w.rnd.Float64())
}

// power returns 10 to a power between a and b, in milliseconds.
func (w *world) power(a, b float64) time.Duration {
	return time.Duration(float64(ms) * math.Pow(10, a+(b-a)*w.rnd.Float64()))
}

func newRand(cfg Config) *rand.Rand {
	salt := uint64(len(cfg.Mode))
	for _, c := range []byte(cfg.Mode) {
		salt = salt*31 + uint64(c)
	}
	return rand.New(rand.NewPCG(cfg.Seed, salt))
}

func pick[T any](w *world, list ...T) T { return list[w.rnd.IntN(len(list))] }

// task is a sequence of requests of one process. It is a coroutine: do gives the control back until
// the answers are there, so a process can be paused or killed between any two requests.
type task struct {
	p     *process
	out   []request
	sleep time.Duration
	in    []reply
	left  int
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	done  func()
}

// spawn starts a task. done may be nil.
func (p *process) spawn(f func(t *task), done func()) {
	t := &task{p: p, done: done}
	t.next, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			if r := recover(); r != nil {
				if _, ok := r.(stopped); !ok {
					panic(r)
				}
			}
		}()
		t.yield = yield
		f(t)
	})
	p.w.live[t] = struct{}{}
	t.resume()
}

func (t *task) resume() {
	if _, ok := t.next(); !ok {
		delete(t.p.w.live, t)
		if t.done != nil {
			t.done()
		}
		return
	}
	if t.out == nil {
		t.p.after(t.p.local(t.sleep), t.resume)
		return
	}
	t.in, t.left = make([]reply, len(t.out)), len(t.out)
	for i, r := range t.out {
		t.p.request(r, func(a reply) {
			t.in[i] = a
			if t.left--; t.left == 0 {
				t.resume()
			}
		})
	}
}

// do sends requests side by side and returns their answers.
func (t *task) do(r ...request) []reply {
	t.out = r
	if !t.yield(struct{}{}) {
		panic(stopped{})
	}
	return t.in
}

func (t *task) pause(d time.Duration) {
	t.out, t.sleep = nil, d
	if !t.yield(struct{}{}) {
		panic(stopped{})
	}
}

func (t *task) get(n name) reply            { return t.do(request{op: get, name: n})[0] }
func (t *task) list(k kind) reply           { return t.do(request{op: list, name: name{kind: k}})[0] }
func (t *task) put(n name, o *object) reply { return t.do(request{op: put, name: n, obj: o})[0] }
func (t *task) remove(n name) reply         { return t.do(request{op: remove, name: n})[0] }

// after calls f at this process after d, unless the process has ended by then.
func (p *process) after(d time.Duration, f func()) {
	p.w.at(d, func() { p.receive(f, false) })
}

// receive runs f in the loop of the process. While the process is stopped, or its loop hangs, f waits.
// network marks work of another goroutine, if the beats have one.
func (p *process) receive(f func(), network bool) {
	h, w := p.h, p.w
	if h.p != p {
		return
	}
	hung := w.now < h.hungTill && !(network && !w.on(OwnerBeats))
	if w.now < h.pausedTill || hung {
		h.inbox = append(h.inbox, f)
		return
	}
	p.readClocks()
	f()
}

// Stat counts events of one run, or of many.
type Stat struct {
	Runs, Events, Faults, Leads, Right, Needless, Newcomer       int
	Acked, Rejected, Unknown, HandOvers, Undrained, Aborts, Warm int
	Cold, ColdAfter, StartedOver, Alive, Seals, Ahead, Forced    int
}

// String returns the counts on one line.
func (s Stat) String() string {
	return fmt.Sprintf("%d runs, %d faults, %d takeovers (%d hand-overs, %d undrained, %d aborted), %d SEALs, %d started over, %d cold after a SEAL, %d alive slots, %d calls acked, %d rejected, %d unknown",
		s.Runs, s.Faults, s.Leads, s.HandOvers, s.Undrained, s.Aborts, s.Seals, s.StartedOver, s.ColdAfter, s.Alive, s.Acked, s.Rejected, s.Unknown)
}

// Add adds the counts of another run.
func (s *Stat) Add(o Stat) {
	for _, f := range []struct{ to, from *int }{
		{&s.Runs, &o.Runs},
		{&s.Events, &o.Events},
		{&s.Faults, &o.Faults},
		{&s.Leads, &o.Leads},
		{&s.Right, &o.Right},
		{&s.Needless, &o.Needless},
		{&s.Newcomer, &o.Newcomer},
		{&s.Acked, &o.Acked},
		{&s.Rejected, &o.Rejected},
		{&s.Unknown, &o.Unknown},
		{&s.HandOvers, &o.HandOvers},
		{&s.Undrained, &o.Undrained},
		{&s.Aborts, &o.Aborts},
		{&s.Warm, &o.Warm},
		{&s.Cold, &o.Cold},
		{&s.ColdAfter, &o.ColdAfter},
		{&s.StartedOver, &o.StartedOver},
		{&s.Alive, &o.Alive},
		{&s.Seals, &o.Seals},
		{&s.Ahead, &o.Ahead},
		{&s.Forced, &o.Forced},
	} {
		*f.to += *f.from
	}
}

// Config determines a run.
type Config struct {
	Mode    Mode
	Seed    uint64
	Brokers int // 0: drawn
	// Schedule is the name of a directed schedule; "": random faults.
	Schedule string
	Faults   string // kinds of faults, separated by commas; "": all of the mode
	Without  Rules
	Bugs     uint64
	Length   time.Duration // with faults; 0: 150 s
	Trace    io.Writer
}
