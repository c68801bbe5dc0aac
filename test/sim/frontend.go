package sim

import (
	"context"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/audit"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/riemann"
	"github.com/sebbroker/seb/internal/protocols/tlsport"
	"github.com/sebbroker/seb/record"
)

// frontend is the Riemann front end of a run: that of production, on the simulated log. It is a
// riemann.Log.
type frontend struct {
	r      *run
	budget *budget.Budget
	server *riemann.Stepped
	conns  []*wire
	tasks  []*task
	dead   bool
}

// frontendMemory is more than all senders use together.
const frontendMemory = 64 << 20

// front returns the front end of a run.
func (r *run) front() *frontend {
	if r.events != nil {
		return r.events
	}
	f := &frontend{r: r, budget: budget.New(frontendMemory)}
	f.budget.Buffers().Poison()
	var err error
	f.server, err = riemann.NewStepped(f, riemann.Options{
		Auth: anyone{}, Topic: eventTopic, Patience: -1, AckTimeout: r.n.w.cfg.ClientTimeout, Now: r.Wall,
	})
	if err != nil {
		r.n.w.fail("simulator: %v", err)
	}
	r.events = f
	return f
}

// kill ends the front end with its broker.
func (f *frontend) kill() {
	if f == nil {
		return
	}
	f.dead = true
	for len(f.tasks) > 0 {
		f.tasks[0].resume()
	}
}

// anyone lets every client act with the root key.
type anyone struct{}

func (anyone) Root() *auth.Identity { return &auth.Identity{} }

func (anyone) Key(context.Context, string, string) (*auth.Identity, error) {
	return nil, auth.ErrUnauthenticated
}

func (anyone) Certificate(context.Context, *tlsport.Peer, string) (*auth.Identity, error) {
	return nil, auth.ErrUnauthenticated
}

func (f *frontend) Budget() *budget.Budget { return f.budget }
func (f *frontend) ReadOnly() bool         { return false }
func (f *frontend) AutoCreates() bool      { return true }
func (f *frontend) Audits() bool           { return false }

func (f *frontend) Denied(audit.Origin, access.Operation, access.ResourceType, string) {
	f.r.n.w.fail("I19: a client with the root key was denied")
}

func (f *frontend) Resolved(topic string) (partitions int, settings state.Settings, err error) {
	if s := f.r.core.State(); s != nil {
		if t := s.TopicByName(topic); t != nil {
			return t.Partitions.Len(), state.Resolve(t.Settings), nil
		}
	}
	return 0, settings, state.ErrUnknownTopic
}

// EnsureTopicAs creates a topic with the number of partitions that the run needs.
func (f *frontend) EnsureTopicAs(ctx context.Context, name string, spec broker.TopicSpec) error {
	if f.r.core.Role() != core.RoleLeader {
		return state.ErrNotLeader
	}
	settings, err := state.CheckSettings(spec.Settings)
	if err != nil {
		return err
	}
	t := taskOf(ctx)
	o := &op{create: name, parts: f.r.n.w.cfg.EventParts, settings: settings, done: func(*op) { t.wake() }}
	f.submit(o)
	t.until(func() bool { return o.outcome != waiting })
	if _, _, err := f.Resolved(name); err != nil {
		return state.ErrOutcomeUnknown
	}
	return nil
}

// submit gives the run an op, of which no producer knows.
func (f *frontend) submit(o *op) {
	w := f.r.n.w
	w.eventOps++
	o.w, o.id, o.run = w, 1<<54|w.eventOps, f.r
	f.r.submit(o)
}

func (f *frontend) Submit(_ context.Context, appends []broker.Append) riemann.Ticket {
	t := &ticket{f: f, results: make([]broker.Result, len(appends)), left: len(appends), done: make(chan struct{})}
	for i := range appends {
		a, res := &appends[i], &t.results[i]
		if f.r.core.Role() != core.RoleLeader {
			res.Err = state.ErrNotLeader
			a.Release()
			t.answered()
			continue
		}
		res.Err = state.ErrOutcomeUnknown
		o := &op{key: partKey{a.Topic, uint32(a.Partition)}, expected: a.ExpectedOffset, check: a.Check, data: a.Data, sum: a.Summary}
		var rec record.Reader
		for rec.Reset(a.Data, 0); rec.Next(); {
			o.values = append(o.values, identity(rec.Record()))
		}
		f.r.n.w.check.sent.Note(o.data)
		o.done = func(o *op) {
			switch o.outcome {
			case acked:
				*res = broker.Result{Base: o.base, Span: int64(len(o.values))}
			case rejectedFor:
				res.Err = broker.ErrNotSent
			}
			a.Release()
			t.answered()
		}
		t.ops = append(t.ops, o)
		f.submit(o)
	}
	return t
}

// ticket is the broker.Ticket of appends.
type ticket struct {
	f       *frontend
	ops     []*op
	results []broker.Result
	left    int
	done    chan struct{} // closed when left is 0
	waiter  *task         // nil: none
}

// answered counts an append that has its result.
func (t *ticket) answered() {
	if t.left--; t.left > 0 {
		return
	}
	close(t.done)
	if t.waiter != nil {
		t.waiter.wake()
	}
}

func (t *ticket) Done() <-chan struct{} { return t.done }

// Wait is only called when all results are known.
func (t *ticket) Wait(context.Context) []broker.Result { return t.results }

func (t *ticket) WaitFor(ctx context.Context, d time.Duration) []broker.Result {
	t.waiter = taskOf(ctx)
	late := false
	if t.left > 0 {
		t.f.r.n.w.after(d, func() {
			if t.left > 0 {
				late = true
				t.waiter.wake()
			}
		})
	}
	t.waiter.until(func() bool { return t.left == 0 || late })
	for _, o := range t.ops {
		if i := slices.Index(t.f.r.pending, o); i >= 0 && !t.f.dead {
			t.f.r.pending = slices.Delete(slices.Clone(t.f.r.pending), i, i+1)
			o.answer(rejectedFor, 0)
		}
	}
	return slices.Clone(t.results)
}
