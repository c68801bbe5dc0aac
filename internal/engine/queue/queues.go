package queue

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/base/pause"
	"github.com/sebbroker/seb/internal/engine/base/sampled"
	"github.com/sebbroker/seb/internal/engine/base/wake"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// ErrNotQueue: a topic is no queue.
var ErrNotQueue = errors.New("the topic is no queue")

// Options configure Open. Broker must be set.
type Options struct {
	Broker  *broker.Broker
	Logger  *slog.Logger // slog.Default()
	Metrics *metrics.Set // a set of its own, not registered
}

// Queues are the queues of a broker. Its methods may be called concurrently.
//
// Its lock comes before that of the log's state, and is held by no call that waits.
type Queues struct {
	b     *broker.Broker
	log   *slog.Logger
	lines sampled.Lines
	met   *meters
	wake  wake.Signal
	busy  sync.WaitGroup // reads of keys and moves of dead letters
	moves moves

	mu    sync.Mutex    // guards the fields below, and the queues
	began chan struct{} // closed when an epoch has begun here
	ctx   context.Context
	epoch uint32 // in which this broker leads; 0: none
	most  int    // messages that all cores together should know
	out   int    // messages in flight of all queues
	live  map[record.ID]*live
	// Queues that must be served in the next turn, those with leases that no slot has yet, and those that must
	// be served at a time.
	dirty, riding map[*live]struct{}
	alarms        alarms

	hook struct { // what Committed has noted
		mu     sync.Mutex
		watch  map[record.ID]struct{}
		grown  map[record.ID]struct{}
		topics bool
	}
}

// live is a queue while this broker leads.
type live struct {
	topic    atomic.Pointer[broker.TopicRef]
	text     string // of the setting queue
	core     *Core
	waiters  []*waiter
	proposed []*Change // by partition: the open change that waits in the log's queue
	burying  []bool
	buryAt   []int64 // after a failure, µs
	failures []int
	sent     *sentIDs
	seeking  chan struct{} // closed when the newest read of keys is over; nil: there was none
	totals   *Totals

	scheduling chan struct{} // closed when no schedule is changed or sends; nil: none does
	fireAt     int64         // after a failure, µs

	next  int64 // when it must be served without a cause, µs
	alarm int   // its index in the alarms; -1: not there

	pending int           // changes on their way to the log
	closing chan struct{} // closed when the queue was opened again; nil: it is open
	kept    bool          // closing: its leases are on their way to the log, or there
}

// ref returns the queue's topic.
func (l *live) ref() *broker.TopicRef { return l.topic.Load() }

// at is where the messages of a partition are. The state of the queue says which of them are committed.
func (l *live) at(p uint32) broker.Lookup { return messagesOf(l.ref(), p) }

func messagesOf(topic *broker.TopicRef, p uint32) broker.Lookup {
	return broker.Lookup{Topic: topic, Partition: int32(p), Isolation: broker.Uncommitted}
}

// waiter is a worker that waits for a message.
type waiter struct{ wake wake.Signal }

// Open connects the queues with a broker. They work while it leads.
func Open(o Options) *Queues {
	m := &Queues{began: make(chan struct{}), b: o.Broker, log: cmp.Or(o.Logger, slog.Default()), wake: wake.New(), live: map[record.ID]*live{}}
	m.moves = make(moves, max(1, m.b.Budget().Limit()/movesShare/buryBytes))
	m.dirty, m.riding = map[*live]struct{}{}, map[*live]struct{}{}
	m.most = int(m.b.Budget().Limit() / memoryShare / messageMemory)
	m.hook.watch, m.hook.grown = map[record.ID]struct{}{}, map[record.ID]struct{}{}
	m.met = newMeters(cmp.Or(o.Metrics, metrics.NewSet()))
	m.b.Serve(m)
	m.b.WhileLeading(m.run)
	return m
}

// A message that is known takes messageMemory bytes. The messages that cores look ahead may take
// 1/memoryShare of the memory limit, and those that workers have twice as much.
const (
	messageMemory = 200
	memoryShare   = 16
)

// share divides the memory for messages among the queues.
func (m *Queues) share() {
	for _, l := range m.live { //tidy:unordered each gets the same
		l.core.Within(m.most / len(m.live))
	}
}

// inFlight returns the error of a lease while workers have as many messages as there is memory for, or nil.
func (m *Queues) inFlight() error {
	if most := 2 * m.most; m.out >= most {
		return &LimitError{Setting: "number of messages in flight for which --memory-limit has room", Max: most}
	}
	return nil
}

// Committed implements broker.Queues.
func (m *Queues) Committed(index []record.IndexEntry, topics bool) {
	m.hook.mu.Lock()
	defer m.hook.mu.Unlock()
	if len(m.hook.watch) == 0 && !topics {
		return
	}
	changed := topics
	for i := range index {
		if _, watched := m.hook.watch[index[i].Topic]; watched {
			m.hook.grown[index[i].Topic] = struct{}{}
			changed = true
		}
	}
	if m.hook.topics = m.hook.topics || topics; changed {
		m.wake.Send()
	}
}

// Riders implements broker.Queues.
func (m *Queues) Riders() (ops []core.Op) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for l := range m.riding { //tidy:unordered each op is about another queue
		for p := range l.proposed {
			if q := l.core.Riders(uint32(p)); q != nil {
				u := m.update(l, uint32(p))
				u.Change = q
				ops = append(ops, u.Op())
			}
		}
	}
	clear(m.riding)
	return ops
}

func (m *Queues) update(l *live, p uint32) *broker.QueueUpdate {
	return &broker.QueueUpdate{Epoch: m.epoch, Topic: l.ref().ID, Partition: p}
}

// now is the log's time, µs.
func (m *Queues) now() int64 {
	t, _ := m.b.Now()
	return t.UnixMicro()
}

// run serves the queues of an epoch.
func (m *Queues) run(ctx context.Context) {
	m.mu.Lock()
	m.ctx, m.epoch = ctx, m.b.LeadingEpoch()
	close(m.began)
	m.mu.Unlock()
	m.hook.mu.Lock()
	m.hook.topics = true
	m.hook.mu.Unlock()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-m.wake:
		case <-timer.C:
		case <-ctx.Done():
			m.end()
			return
		}
		timer.Reset(m.turn())
	}
}

// end ends the epoch: workers that wait get an error, and everything that only memory knew is forgotten.
func (m *Queues) end() {
	m.mu.Lock()
	for _, l := range m.live { //tidy:unordered each wakes its own workers
		for _, w := range l.waiters {
			w.wake.Send()
		}
	}
	for _, l := range m.live { //tidy:unordered each ends by itself
		m.abandon(l, state.ErrOutcomeUnknown)
		if l.closing != nil {
			close(l.closing)
		}
		m.forget(l)
	}
	m.ctx, m.epoch, m.began = nil, 0, make(chan struct{})
	m.mu.Unlock()
	m.hook.mu.Lock()
	clear(m.hook.watch)
	clear(m.hook.grown)
	m.hook.mu.Unlock()
	m.busy.Wait()
}

// Times between two turns of the loop without a cause. The most bounds the delay of what is due after the clock of
// the machine was set forward, or the machine was suspended: timers do not notice either.
const (
	pauseMin = 10 * time.Millisecond
	pauseMax = time.Second
)

// roomPause is when a queue whose workers wait is served again while there is no room for messages in flight. Any
// queue may make some.
const roomPause = 100 * time.Millisecond

// turn does what is due, and returns the time until more is.
func (m *Queues) turn() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hook.mu.Lock()
	topics, grown := m.hook.topics, m.hook.grown
	m.hook.topics, m.hook.grown = false, map[record.ID]struct{}{}
	m.hook.mu.Unlock()
	if m.epoch == 0 {
		return time.Hour
	}
	if topics {
		m.refresh()
	}
	now := m.now()
	for id := range grown { //tidy:unordered each is served by itself
		if l := m.live[id]; l != nil {
			m.look(l, now, true)
			m.dirty[l] = struct{}{}
		}
	}
	for len(m.alarms) > 0 && m.alarms[0].next <= now {
		l := m.alarms[0]
		m.at(l, math.MaxInt64)
		m.dirty[l] = struct{}{}
	}
	dirty := m.dirty
	m.dirty = map[*live]struct{}{}
	for l := range dirty { //tidy:unordered each is served by itself
		if m.live[l.ref().ID] == l {
			m.at(l, m.serve(l, now))
		}
	}
	if len(m.alarms) == 0 {
		return time.Hour
	}
	return min(pauseMax, max(pauseMin, time.Duration(m.alarms[0].next-now)*time.Microsecond))
}

// at sets when a queue must be served without a cause.
func (m *Queues) at(l *live, next int64) {
	l.next = next
	switch never := next == math.MaxInt64; {
	case l.alarm < 0 && !never:
		heap.Push(&m.alarms, l)
	case l.alarm >= 0 && never:
		heap.Remove(&m.alarms, l.alarm)
	case l.alarm >= 0:
		heap.Fix(&m.alarms, l.alarm)
	}
}

// touch lets the loop serve a queue soon, and the next slot have its new leases.
func (m *Queues) touch(l *live) {
	if m.live[l.ref().ID] != l {
		return
	}
	m.dirty[l], m.riding[l] = struct{}{}, struct{}{}
	m.wake.Send()
}

// forget removes a queue.
func (m *Queues) forget(l *live) {
	delete(m.live, l.ref().ID)
	delete(m.dirty, l)
	delete(m.riding, l)
	m.at(l, math.MaxInt64)
	l.core.CountIn(nil)
}

// serve does what is due in a queue, and returns when more is.
func (m *Queues) serve(l *live, now int64) (next int64) {
	if l.closing != nil {
		return math.MaxInt64
	}
	l.core.Tick(now)
	m.look(l, now, false)
	next = min(m.bury(l, now), l.core.Next(), m.fire(l, now))
	m.flush(l)
	m.notify(l)
	if len(l.waiters) > 0 && m.inFlight() != nil {
		next = min(next, now+micros(roomPause))
	}
	return next
}

// reach is the end of the messages of a partition that workers may get before open transactions end: an uncommitted one
// comes before newer ones of its key.
func reach(s *state.QueueSettings, p *state.Partition) int64 {
	if s.KeyMode == state.KeyOrder {
		return p.LastStable()
	}
	return p.Next
}

// look makes messages of the log known to the core. With grown, the log may have more of them.
func (m *Queues) look(l *live, now int64, grown bool) {
	for p := range l.proposed {
		p := uint32(p)
		if !grown && !l.core.Wants(now, p) {
			continue
		}
		var seek []state.QueueRun
		m.b.ReadQueue(l.ref().ID, p, func(q *state.Queue, at *state.Partition) {
			l.core.Released(p, at.Open)
			next := reach(&l.core.Settings, at)
			if l.core.Extended(p, next); l.core.Wants(now, p) {
				seek = l.core.Look(now, p, q, at.Start, next)
			}
		})
		if len(seek) > 0 {
			ctx, c := m.ctx, l.core
			done := make(chan struct{})
			l.seeking = done
			m.busy.Go(func() {
				defer close(done)
				m.seek(ctx, l, c, p, seek)
			})
		}
	}
}

// seekGap is how many messages that a search for keys does not need it reads between others.
const seekGap = 256

// seekPause is the pause after keys could not be read.
const seekPause = 500 * time.Millisecond

// seek reads the keys of messages for the core. After an error the core gets those that were read, and asks
// for the others again.
func (m *Queues) seek(ctx context.Context, l *live, c *Core, p uint32, runs []state.QueueRun) {
	var keys []Key
	var err error
	for len(runs) > 0 && err == nil { // those near each other are read at once
		n := 1
		for n < len(runs) && runs[n].Base >= runs[n-1].End() && runs[n].Base-runs[n-1].End() <= seekGap {
			n++
		}
		some := runs[:n]
		runs = runs[n:]
		from, to := some[0].Base, some[n-1].End()
		before := from
		err = m.b.EachRecord(ctx, l.at(p), from, to, func(r *record.Record) bool {
			for len(some) > 0 && some[0].End() <= r.Offset {
				some = some[1:]
			}
			if from = r.Offset + 1; len(some) > 0 && some[0].Base <= r.Offset {
				keys = append(keys, Key{r.Offset, hashOf(r.Key), some[0]})
			}
			return true
		})
		if from = max(from, m.gone(l, p, before)); err == nil && from < to {
			err = errors.New("no records were read") // for want of memory
		}
	}
	if err != nil {
		m.lines.Warn(m.log, l.ref().Name, "reading the keys of a queue failed; trying again", "queue", l.ref().Name, "err", err)
		_ = pause.Wait(ctx, seekPause)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c.Saw(m.now(), p, keys, err == nil)
	if m.live[l.ref().ID] == l && l.core == c && m.ctx == ctx {
		m.touch(l)
	}
}

// gone returns the first offset from one on that a partition may have: not those below its start, and none
// if it is gone.
func (m *Queues) gone(l *live, p uint32, from int64) int64 {
	if !m.b.ReadQueue(l.ref().ID, p, func(_ *state.Queue, at *state.Partition) { from = max(from, at.Start) }) {
		return math.MaxInt64
	}
	return from
}

// flush proposes the open changes, each of which gets more until the log makes a slot of it.
func (m *Queues) flush(l *live) {
	for p := range l.proposed {
		ch := l.core.Open(uint32(p))
		if ch == nil || l.proposed[p] == ch {
			continue
		}
		l.proposed[p] = ch
		c, u := l.core, m.update(l, uint32(p))
		u.Late = func() *state.QueueChange {
			m.mu.Lock()
			defer m.mu.Unlock()
			return c.Take(ch)
		}
		t := m.b.UpdateQueue(u)
		l.pending++
		m.busy.Go(func() {
			err := t.Wait(context.Background())[0].Err()
			m.mu.Lock()
			defer m.mu.Unlock()
			if !ch.taken { // it never reached a slot
				c.Take(ch)
			}
			c.Done(ch, m.now(), err)
			if m.live[l.ref().ID] == l && l.core == c {
				m.look(l, m.now(), false)
				m.flush(l)
				m.notify(l)
			}
			m.touch(l)
			m.settled(l)
		})
	}
}

// notify wakes a worker if there may be a message for it. A worker that gets one wakes the next. While there is no
// room for more messages in flight none is woken: serve tries again.
func (m *Queues) notify(l *live) {
	if len(l.waiters) == 0 || m.inFlight() != nil || !l.core.Offers(m.now()) {
		return
	}
	w := l.waiters[0]
	l.waiters = l.waiters[1:]
	w.wake.Send()
}
