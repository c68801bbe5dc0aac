package broker

import (
	"context"
	"errors"
	"sync"

	"github.com/sebbroker/seb/internal/cluster"
	"github.com/sebbroker/seb/internal/log"
	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/state"
)

// ErrDeposed is the cause of the end of a term in which another broker fenced this one, or the log
// stopped.
var ErrDeposed = errors.New("this broker leads no more")

// terms runs what only a leader does. A term is the time in which this broker leads in one epoch.
//
//	role of the log   leader 5            follower 6          leader 7
//	term              5 ──────── ends, waits for its functions   7 ──────
//
// One goroutine, run, begins and ends the terms. The next term begins when all functions of the last
// one have returned, so a function never runs twice at the same time.
type terms struct {
	mu     sync.Mutex // guards the fields below
	does   []func(ctx context.Context)
	wanted uint32 // the epoch in which the log leads; 0: none
	ended  bool   // no further term begins

	wake    chan struct{} // capacity 1: wanted or ended has changed
	running sync.WaitGroup
	term    context.Context // of the running term; nil: none
	end     context.CancelCauseFunc
	epoch   uint32 // of the running term
	over    chan struct{}
}

func newTerms() *terms {
	return &terms{wake: make(chan struct{}, 1), over: make(chan struct{})}
}

// set notes the epoch in which the log leads.
func (t *terms) set(epoch uint32) {
	t.mu.Lock()
	t.wanted = epoch
	t.mu.Unlock()
	t.signal()
}

func (t *terms) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// run begins and ends terms until close. values supplies the values of their contexts.
func (t *terms) run(values context.Context) {
	defer close(t.over)
	for range t.wake {
		if !t.step(values) {
			return
		}
	}
}

// step ends the running term if its epoch is over, and begins the next one. It returns false after
// the last term.
func (t *terms) step(values context.Context) bool {
	t.mu.Lock()
	stays := t.term != nil && t.epoch == t.wanted && !t.ended
	if t.term != nil && !stays {
		cause := ErrDeposed
		if t.epoch == t.wanted {
			cause = ErrClosed
		}
		t.end(cause) // under the lock, so that do begins none after the wait
	}
	t.mu.Unlock()
	if stays {
		return true
	}
	t.running.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.term, t.epoch = nil, 0
	if t.ended {
		return false
	}
	if t.wanted != 0 {
		t.epoch = t.wanted
		t.term, t.end = context.WithCancelCause(values)
		for _, f := range t.does {
			t.beginLocked(f)
		}
	}
	return true
}

func (t *terms) beginLocked(f func(ctx context.Context)) {
	ctx := t.term
	t.running.Go(func() { f(ctx) })
}

// do adds a function, and begins it if a term runs.
func (t *terms) do(f func(ctx context.Context)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.does = append(t.does, f)
	if t.term != nil && t.term.Err() == nil && !t.ended {
		t.beginLocked(f)
	}
}

// close ends the running term and waits for its functions. No other term begins. Calling it twice is
// safe.
func (t *terms) close() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.signal()
	<-t.over
}

// WhileLeading calls f in a goroutine in each epoch in which this broker leads, at once if it leads
// now. ctx ends with the epoch: with the cause ErrDeposed, or with ErrClosed at EndTerms and Close. f
// must then return soon, because the next term and Close wait for it.
func (b *Broker) WhileLeading(f func(ctx context.Context)) { b.terms.do(f) }

// EndTerms ends what runs while this broker leads, and waits for that. The broker continues to lead
// and to accept appends. Close calls it.
func (b *Broker) EndTerms() { b.terms.close() }

// Term returns the epoch in which this broker leads as far as it knows: another broker may have taken
// over unnoticed. 0: it does not lead. The state of a leader includes all commits before its epoch.
func (b *Broker) Term() uint32 {
	if s := b.log.Status(); s.Role == core.RoleLeader {
		return s.Epoch
	}
	return 0
}

// NewProducerID returns an id for an idempotent producer that no other leader gives. ErrNotLeader:
// this broker does not lead.
func (b *Broker) NewProducerID() (int64, error) {
	term := b.Term()
	if term == 0 {
		return 0, ErrNotLeader
	}
	return state.ProducerID(b.opt.Core.Shard, term, b.producers.Add(1)), nil
}

// Leads reports whether this broker leads, as Term does.
func (b *Broker) Leads() bool { return b.Term() != 0 }

// Follows reports whether this broker follows another one: it is read-only, or waits to lead.
func (b *Broker) Follows() bool {
	return b.ReadOnly() || b.log.Status().Role == core.RoleFollower
}

// MayFollow reports whether Follows may be true now or later.
func (b *Broker) MayFollow() bool { return b.ReadOnly() || b.opt.Standby || b.opt.Core.Standby }

// Stand makes a broker that follows lead, as log.Log.Stand does. A caller that does not know whether
// the broker has applied the whole log calls Confirm before. ErrNotLeader: another broker writes the
// log.
func (b *Broker) Stand(ctx context.Context) error { return b.log.Stand(ctx) }

// Succeed is Stand against an epoch whose leader has ended, as log.Log.Succeed is.
func (b *Broker) Succeed(ctx context.Context) error { return b.log.Succeed(ctx) }

// Report returns what the goroutine that owns the log knows, as log.Log.Report does.
func (b *Broker) Report(ctx context.Context) (cluster.Report, error) { return b.log.Report(ctx) }

// Reach lets a broker that follows read the log up to pos, as log.Log.Reach does.
func (b *Broker) Reach(pos state.Position) { b.log.Reach(pos) }

// Heard sets whether the leader feeds this broker, as log.Log.Heard does.
func (b *Broker) Heard(heard bool) { b.log.Heard(heard) }

// Feed gives a broker that follows a slot of its leader, as log.Log.Feed does.
func (b *Broker) Feed(prefix []byte) error { return b.log.Feed(prefix) }

// roleChanged is the log's hook.
func (b *Broker) roleChanged(s log.Status) {
	epoch := uint32(0)
	if s.Role == core.RoleLeader {
		epoch = s.Epoch
	}
	b.terms.set(epoch)
	b.advanced() // followers of the broker look at its role
}
