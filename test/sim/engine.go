package sim

import (
	"fmt"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/sim/watch"
)

// watched is the simulation as package watch uses it.
type watched struct{ *simulation }

func (w watched) Now() int64                      { return w.now }
func (w watched) After(d time.Duration, f func()) { w.after(d, f) }
func (w watched) Fail(format string, args ...any) { w.fail(format, args...) }
func (w watched) Logf(format string, args ...any) { w.logf(format, args...) }
func (w watched) Calm() bool                      { return w.calm }

func (w watched) Leader() *watch.Broker {
	for i, first := 0, w.loadRand.IntN(w.cfg.Nodes); i < w.cfg.Nodes; i++ {
		if r := w.nodes[(first+i)%w.cfg.Nodes].run; r != nil && !r.paused && r.Leads() {
			return r.engine
		}
	}
	return nil
}

// watchers adds triggers to a run.
func (w *simulation) watchers() {
	if w.cfg.Watch.Triggers == 0 {
		return
	}
	var err error
	if w.watch, err = watch.New(w.cfg.Watch, watched{w}, w.watchRand); err != nil {
		w.fail("simulator: %v", err)
	}
}

// watchedEnd checks the result of triggers and ends them.
func (w *simulation) watchedEnd() {
	if w.watch == nil {
		return
	}
	for _, n := range w.nodes {
		if n.run != nil && w.err == nil && w.check.leads(n.run) {
			w.watch.End(n.run.engine)
		}
	}
	for _, n := range w.nodes {
		if n.run != nil {
			n.run.engine.Kill()
		}
	}
	if err := w.watch.Close(); err != nil {
		w.fail("simulator: %v", err)
	}
	w.stats.Months, w.stats.Watch = 1, w.watch.Counts
}

// A run is the host of its trigger engine.

// Name returns the broker's name.
func (r *run) Name() string { return fmt.Sprint("node ", r.n.id) }

// State returns the committed state.
func (r *run) State() *state.State { return r.core.State() }

// Leads reports whether the run believes that it leads.
func (r *run) Leads() bool { return !r.dead && r.core.Role() == core.RoleLeader }

// Wall returns its wall clock.
func (r *run) Wall() time.Time { return time.Unix(0, r.n.w.now+r.n.skew) }

// Do runs f in the process.
func (r *run) Do(f func()) { r.deliver(f) }

// notify tells the engine that the state has changed.
func (r *run) notify() {
	if r.engine == nil || r.dead {
		return
	}
	s, role := r.core.State(), r.core.Role()
	if s == nil || s.Pos == r.shown && role == r.was {
		return
	}
	r.shown, r.was = s.Pos, role
	r.engine.Notify()
}

// hand submits an op of the engine or of one of its clients.
func (r *run) hand(o *op, done func(*op)) {
	w := r.n.w
	w.watchOps++
	o.w, o.id, o.done = w, 1<<57|w.watchOps, done
	r.deliver(func() { r.submit(o) })
}

// Append appends records and reports the answer.
func (r *run) Append(name string, part uint32, recs []record.Record, done func(base int64, ok bool)) {
	o := &op{key: partKey{name, part}, expected: -1}
	var err error
	if o.data, o.sum, err = record.Append(nil, recs, record.EncodeOptions{}); err != nil {
		r.n.w.fail("simulator: encode records: %v", err)
		return
	}
	for i := range recs {
		o.values = append(o.values, identity(&recs[i]))
	}
	r.n.w.check.sent.Note(o.data)
	r.hand(o, func(o *op) { done(o.base, o.outcome == acked) })
}

// Create creates a topic and reports the answer.
func (r *run) Create(name string, parts int, settings map[string]string, done func(ok bool)) {
	canonical, err := state.CheckSettings(settings)
	if err != nil {
		r.n.w.fail("simulator: %v", err)
		return
	}
	r.hand(&op{create: name, parts: parts, settings: canonical}, func(o *op) { done(o.outcome == acked) })
}

// Change changes a topic and reports the answer.
func (r *run) Change(topic string, rec *state.Record, done func(ok bool)) {
	r.hand(&op{key: partKey{topic: topic}, rec: rec}, func(o *op) { done(o.outcome == acked) })
}

// Get reads an object.
func (r *run) Get(key string, done func(body []byte)) {
	s := r.n.w.store
	var body []byte
	s.call(r.n, false, func() core.Outcome {
		body = s.objects[key]
		return core.OutcomeOK
	}, func(o core.Outcome) {
		if o != core.OutcomeOK {
			body = nil
		}
		done(body)
	})
}

// Cached reads an object from the broker's cache.
func (r *run) Cached(key string) []byte { return r.n.w.store.objects[key] }
