package core

import (
	"errors"
	"fmt"

	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/record"
)

// Core is one run of one broker's part in one shard's log: it becomes leader (or follower), and once fenced or stopped
// stays so. A further attempt takes a new Core, which starts with an empty state and fresh nonces (rules R1, R6).
type Core struct {
	cfg Config
	now int64
	fx  *Effects

	role   Role
	over   error // why RoleFenced or RoleStopped: what everything is refused with
	lastOp OpID
	ops    map[OpID]*request

	cluster   record.ID
	committed *state.State // nil until a snapshot is loaded or genesis is known
	load      loading
	walk      *walk
	take      takeover
	seals     map[string]*ownSeal // every SEAL this run has sent, by name
	lead      leading
	follow    following
	snap      snapshots
	reclaimed reclaiming

	waiting  bool     // readers wait for new data
	confirms []uint64 // tags of EvConfirm not answered yet
}

// request is one outstanding effect.
type request struct {
	effect Effect
	done   func(*Event) // called once with an outcome that is a verdict
	live   func() bool  // nil, or: still wanted? Asked before it is repeated
	reread int          // times it was read again because it came back corrupt
}

// rereads is how often an object that reads as corrupt is read again before that is believed: a transport may have
// damaged it.
const rereads = 3

// New returns a core that waits for EvStart.
func New(cfg Config) *Core {
	return &Core{cfg: cfg.withDefaults(), ops: map[OpID]*request{}}
}

// Role is what the core is now.
func (c *Core) Role() Role { return c.role }

// Err says why the role is RoleFenced or RoleStopped, or nil: *state.FencedError, state.ErrCorrupt or state.ErrNewer.
func (c *Core) Err() error { return c.over }

// State is the committed state, nil before anything was loaded. It changes in Step.
func (c *Core) State() *state.State { return c.committed }

// Cluster is the cluster's id, zero before it is known.
func (c *Core) Cluster() record.ID { return c.cluster }

// Epoch is the epoch of the committed position.
func (c *Core) Epoch() uint32 {
	if c.committed == nil {
		return 0
	}
	return c.committed.Pos.Epoch
}

// InFlight is the number of frozen slots that are not committed.
func (c *Core) InFlight() int { return len(c.lead.slots) }

// Room says whether EvFreeze would be answered now: not while starting, nor while K slots are in flight (rule R2).
func (c *Core) Room() bool {
	switch c.role {
	case RoleStarting:
		return false
	case RoleLeader:
		return c.lead.refused != nil || c.windowOpen()
	}
	return true // to be rejected
}

// Step takes one event at now (ns on a clock that never goes back) and appends to fx what follows from it.
func (c *Core) Step(now int64, ev *Event, fx *Effects) {
	c.now, c.fx = max(now, c.now), fx
	switch ev.Kind {
	case EvStart:
		c.start()
	case EvTick:
		c.tick()
	case EvFreeze:
		c.freeze(ev.Proposal, ev.Wall)
	case EvEncoded:
		c.encoded(ev)
	case EvReaders:
		c.waiting = ev.Waiting
		c.tick()
	case EvConfirm:
		c.confirm(ev.Tag, ev.Lost)
	default:
		c.answer(ev)
	}
	fx.Wake = c.wake()
	c.fx = nil
}

// request emits an effect and remembers what to do with its answer.
func (c *Core) request(e Effect, done func(*Event)) *request {
	c.lastOp++
	e.Op = c.lastOp
	r := &request{effect: e, done: done}
	c.ops[e.Op] = r
	c.emit(e)
	return r
}

func (c *Core) emit(e Effect) { c.fx.List = append(c.fx.List, e) }

// answer takes the outcome of a request. The first verdict settles it: answers to a request that is settled or was
// given up are ignored (rule R3).
func (c *Core) answer(ev *Event) {
	r := c.ops[ev.Op]
	if r == nil {
		return
	}
	switch ev.Outcome {
	case OutcomeNoVerdict, OutcomeConflict, OutcomeRefused:
		c.repeat(r, ev)
		return
	case OutcomeCorrupt:
		if r.reread < rereads {
			r.reread++
			c.repeat(r, ev)
			return
		}
	}
	delete(c.ops, ev.Op)
	if ev.Outcome == OutcomeNewer {
		c.stop(orUnknown(ev.Err)) // whatever was asked for: a newer program wrote it
		return
	}
	r.done(ev)
}

// repeat sends a request again: same name, same bytes (rule R1), after a while.
func (c *Core) repeat(r *request, ev *Event) {
	if r.live != nil && !r.live() {
		delete(c.ops, r.effect.Op)
		return
	}
	r.effect.Attempt++
	r.effect.Delay = c.backoff(r.effect.Attempt)
	if ev.Outcome == OutcomeRefused {
		r.effect.Delay = int64(c.cfg.RefusedRetry)
		c.refused(r, ev)
	}
	c.emit(r.effect)
}

// refused notes that the store refuses: new appends are rejected until a slot's verdict comes (rule R3).
func (c *Core) refused(r *request, ev *Event) {
	if r.effect.Attempt == 1 {
		c.alarm(fmt.Errorf("store refuses %s: %w", r.effect.Key, orUnknown(ev.Err)))
	}
	if r.effect.Kind == EffPutData {
		c.lead.refused = fmt.Errorf("%w: %w", state.ErrStoreUnavailable, orUnknown(ev.Err))
	}
}

func orUnknown(err error) error {
	if err == nil {
		return errors.New("no reason given")
	}
	return err
}

func (c *Core) backoff(attempt int) int64 {
	d := c.cfg.RetryMin << min(attempt-1, 16)
	return int64(min(d, c.cfg.RetryMax))
}

func (c *Core) alarm(err error) { c.emit(Effect{Kind: EffAlarm, Err: err}) }

// stop ends this run on corruption or on a store that lies (rule R9): nothing is deleted, skipped or sealed.
func (c *Core) stop(err error) {
	if c.role == RoleStopped || c.role == RoleFenced {
		return
	}
	if c.over = err; !errors.Is(err, state.ErrNewer) {
		c.over = fmt.Errorf("%w: the log has stopped: %w", state.ErrCorrupt, err)
	}
	c.role = RoleStopped
	c.giveUp()
	c.alarm(err)
	c.emit(Effect{Kind: EffRole, Role: RoleStopped, Epoch: c.Epoch(), Err: err})
}

// giveUp drops every request, answers "unknown" to what was sent and rejects what was not (rules R4, R6).
func (c *Core) giveUp() {
	clear(c.ops)
	c.walk = nil
	for _, s := range c.lead.slots {
		s.frozen.Proposal.forget(c.over, false)
		c.emit(Effect{Kind: EffUnknown, Frozen: s.frozen})
		for _, p := range s.after {
			p.forget(c.over, true)
			c.emit(Effect{Kind: EffReject, Proposal: p, Reject: c.over})
		}
	}
	c.lead.slots = nil
	c.lead.ahead = nil
	for _, tag := range append(c.confirms, c.follow.askedBusy...) {
		c.emit(Effect{Kind: EffConfirmed, Tag: tag, Reject: c.over})
	}
	c.confirms, c.follow.askedBusy = nil, nil
}

// forget replaces what members were told about a state that is dropped: what it said was never committed (rule R2).
func (p *Proposal) forget(why error, all bool) {
	for i := range p.Appends {
		a := &p.Appends[i]
		switch {
		case a.Err == ErrDuplicate:
			a.Err = state.ErrOutcomeUnknown // its original may yet appear
		case all || a.Err != nil:
			a.Err = why
		}
	}
	for i := range p.Ops {
		if op := &p.Ops[i]; all || op.Err != nil {
			op.Err = why
		}
	}
}

// tick does what time asks for.
func (c *Core) tick() {
	switch c.role {
	case RoleLeader:
		c.idleCheck()
		c.reclaim()
	case RoleFollower:
		c.poll()
	}
}

// wake says when the next tick is due.
func (c *Core) wake() int64 {
	at := c.reclaimAt()
	if !c.waiting {
		return at
	}
	switch c.role {
	case RoleLeader:
		if c.lead.probing || len(c.lead.slots) > 0 {
			return at
		}
		return earlier(at, c.lead.seenAt+int64(c.cfg.IdleCheck))
	case RoleFollower:
		return c.follow.pollAt
	}
	return at
}

// earlier is the earlier of two times, of which 0 is none.
func earlier(a, b int64) int64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// confirm answers when the committed end is known to be no older than T (leader) or has just been looked for (follower):
// rule R11. With lost, because an object that the state references is missing, it looks in any case.
func (c *Core) confirm(tag uint64, lost bool) {
	switch c.role {
	case RoleFenced, RoleStopped:
		c.emit(Effect{Kind: EffConfirmed, Tag: tag, Reject: c.over})
	case RoleLeader:
		if !lost && !c.since(c.lead.seenAt, c.cfg.IdleCheck) {
			c.emit(Effect{Kind: EffConfirmed, Tag: tag})
			return
		}
		c.confirms = append(c.confirms, tag)
		if len(c.lead.slots) == 0 {
			c.probe()
		} // else the next commit, or a SEAL, answers
	case RoleFollower:
		c.follow.lost = c.follow.lost || lost
		if c.follow.busy { // its answer may be older than the question
			c.follow.askedBusy = append(c.follow.askedBusy, tag)
			return
		}
		c.confirms = append(c.confirms, tag)
		c.pollNow()
	case RoleStarting:
		if c.cfg.ReadOnly {
			c.follow.askedBusy = append(c.follow.askedBusy, tag)
			return
		}
		c.confirms = append(c.confirms, tag)
	}
}

func (c *Core) confirmed() {
	for _, tag := range c.confirms {
		c.emit(Effect{Kind: EffConfirmed, Tag: tag})
	}
	c.confirms = nil
}

// since says whether at least d has passed since t.
func (c *Core) since(t int64, d Duration) bool { return c.now-t >= int64(d) }
