package journalsim

import (
	"bytes"
	"cmp"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing/synctest"
)

// mutex is a sync.Locker whose holder the scheduler chooses. One step can wake several goroutines: with
// a sync.Mutex the Go scheduler would decide which of them goes on first.
type mutex struct {
	p      *Process
	number int
	held   bool // guarded by World.mu
}

// turn is a goroutine that waits for a mutex.
type turn struct {
	waiter
	m     *mutex
	round int // number of turns that were given before it came
}

// waiter is a goroutine that the scheduler lets go on.
type waiter struct {
	task    int // its number, if known is set
	known   bool
	proceed chan order
}

// order is what a waiting goroutine is told.
type order int

const (
	goOn     order = iota
	killed         // its process was killed
	identify       // say which task it is, and wait again
)

func (t *waiter) wait(w *World) order {
	w.cfg.disturb()
	for {
		o := <-t.proceed
		if o != identify {
			w.cfg.disturb()
			return o
		}
		t.task, t.known = w.task(), true
	}
}

// identify lets waiting goroutines say which tasks they are. It is called only for those whose order
// nothing else determines, because a goroutine cannot find out its number cheaply.
func (t *waiter) identify() {
	if !t.known {
		t.proceed <- identify
		synctest.Wait()
	}
}

// NewMutex implements journal.System.
func (p *Process) NewMutex() sync.Locker {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.w.mutexes++
	return &mutex{p: p, number: p.w.mutexes}
}

// Lock implements sync.Locker.
func (m *mutex) Lock() {
	w := m.p.w
	if w.direct {
		return // its processes call one after the other
	}
	w.cfg.disturb()
	t := &turn{m: m, waiter: waiter{proceed: make(chan order)}}
	w.mu.Lock()
	t.round = w.round
	w.turns = append(w.turns, t)
	w.mu.Unlock()
	t.wait(w)
}

// Unlock implements sync.Locker.
func (m *mutex) Unlock() {
	w := m.p.w
	w.mu.Lock()
	m.held = false
	w.mu.Unlock()
	w.cfg.disturb()
}

// settle waits until every goroutine waits for a step, and meanwhile gives free mutexes to those
// that wait for one.
func (w *World) settle() {
	for synctest.Wait(); w.giveTurn(); synctest.Wait() {
	}
}

// giveTurn gives one free mutex to the goroutine that has waited longest. Goroutines that began to
// wait at the same time have an order that does not depend on which came first. It draws nothing and
// takes no step: both are for what other processes can see.
func (w *World) giveTurn() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	var next *turn
	for _, t := range w.turns {
		if !t.m.held && (next == nil || t.compare(next) < 0) {
			next = t
		}
	}
	if next == nil {
		return false
	}
	w.round++
	w.turns = slices.DeleteFunc(w.turns, func(t *turn) bool { return t == next })
	next.m.held = true
	next.proceed <- goOn
	return true
}

func (t *turn) compare(o *turn) int {
	n := cmp.Or(cmp.Compare(t.round, o.round), cmp.Compare(t.m.number, o.m.number))
	if n == 0 {
		n = t.compareTask(&o.waiter)
	}
	return n
}

func (t *waiter) compareTask(o *waiter) int {
	t.identify()
	o.identify()
	return cmp.Compare(t.task, o.task)
}

// begin runs f in a new goroutine, which has the next number of a task.
func (w *World) begin(f func()) {
	w.running.Add(1)
	w.mu.Lock()
	w.begun++
	number := w.begun
	w.mu.Unlock()
	go func() {
		defer w.running.Add(-1)
		w.tasks.Store(goroutine(), number)
		f()
	}()
}

// task returns the number of the calling task. It is 0 for a goroutine that a journal has begun: it
// has one, and no two of them meet at one mutex or file.
func (w *World) task() int {
	number, _ := w.tasks.Load(goroutine())
	n, _ := number.(int)
	return n
}

// goroutine returns the number of the calling goroutine, which is unique in the program.
func goroutine() uint64 {
	b := make([]byte, 64)
	words := bytes.Fields(b[:runtime.Stack(b, false)]) // goroutine 1 [running]:
	n, err := strconv.ParseUint(string(words[1]), 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}
