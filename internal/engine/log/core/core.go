package core

import (
	"errors"
	"fmt"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// Core is one broker's run on one shard's log. It becomes leader or follower; once fenced or
// stopped it stays so. A further attempt takes a new Core with fresh nonces (rules R1, R6): New
// returns one with an empty state, Follow and Stand return one with the state of the last.
type Core struct {
	cfg Config
	now int64
	fx  *Effects

	role    Role
	attempt attempt
	endErr  error // why the role is RoleFenced or RoleStopped: rejects everything
	lastOp  OpID
	ops     map[OpID]*request
	// answered is the request whose done runs. A closure that captures it would allocate more.
	answered *request

	cluster   record.ID
	committed *state.State // nil until a snapshot is loaded or genesis is known
	load      loading
	walk      *walk
	take      takeover
	seals     map[string]*ownSeal // every SEAL that this run has sent, by name
	lead      leading
	follow    following
	snap      snapshots
	reclaimed reclaiming

	life int64  // when the newest slot or SEAL was committed or found; 0: never
	hint string // the address in the newest SEAL that was applied
	// fed: some slots of the state came from the leader, and were not read from the bucket.
	fed bool
	// recovered are the slots whose recovery decides instead of them (rule R14), by name
	recovered map[string]bool
	// sound are slots that a start can apply although their objects have another size than they say
	sound map[string]bool
	// direct: walks read no copies, because one was another object than that in the bucket
	direct bool

	told     uint32   // the epoch of the last EffRole as follower
	waiting  bool     // readers wait for new data
	heard    bool     // the leader feeds this broker
	confirms []uint64 // tags of unanswered EvConfirm
}

// request is one outstanding effect that waits for an answer.
type request struct {
	effect Effect
	done   func(*Event) // called once, with an outcome that is a verdict
	wanted func() bool  // if not nil, asked before a retry: is the answer still wanted?
	reread int          // rereads after a corrupt answer
	// The first and the newest attempt began at these times or later.
	first, newest int64
}

// rereads is how often an object that reads as corrupt is read again before the core believes it:
// the transport may have damaged the bytes.
const rereads = 3

// New returns a core that waits for EvStart.
func New(cfg Config) *Core {
	return &Core{cfg: cfg.withDefaults(), attempt: attempt{follows: cfg.Standby}, ops: map[OpID]*request{}}
}

// Role is the current role.
func (c *Core) Role() Role { return c.role }

// Err is the error that ended the run, nil unless the role is RoleFenced or RoleStopped:
// *state.FencedError, state.ErrCorrupt or state.ErrNewer.
func (c *Core) Err() error { return c.endErr }

// State is the committed state, nil before anything was loaded. Step modifies it.
func (c *Core) State() *state.State { return c.committed }

// Cluster is the cluster ID, zero before it is known.
func (c *Core) Cluster() record.ID { return c.cluster }

// Epoch is the epoch of the committed position.
func (c *Core) Epoch() uint32 {
	if c.committed == nil {
		return 0
	}
	return c.committed.Pos.Epoch
}

// Journaled reports whether this core leads an epoch whose commit objects are in a journal.
func (c *Core) Journaled() bool { return c.role == RoleLeader && c.lead.journaled }

// Prompt reports whether slots may be frozen in quick succession. In a journal small slots cost
// little, but each adds ranges to the state until they are merged. A full state rejects appends, so
// slots are not prompt when little room is left.
func (c *Core) Prompt() bool {
	if !c.Journaled() || c.cfg.StateMax <= 0 {
		return c.Journaled()
	}
	ranges, tables := c.committed.Memory().Ranges, c.lead.overlay.Memory().Tables
	return ranges <= c.cfg.StateMax/(2*rangesShare) || ranges+tables <= c.cfg.StateMax/4*3
}

// InFlight is the number of frozen slots that are not committed.
func (c *Core) InFlight() int { return len(c.lead.slots) }

// Room reports whether the core accepts EvFreeze now: not while starting or parked, nor while K slots
// are in flight (rule R2).
func (c *Core) Room() bool {
	switch c.role {
	case RoleStarting:
		return false
	case RoleLeader:
		return !c.lead.park.parked && (c.lead.refused != nil || c.lead.park.freezes() && c.windowOpen())
	}
	return true // the proposal is rejected
}

// Step handles one event at now (ns on a monotonic clock) and appends the resulting effects to fx.
// Calls must not be concurrent: the order of the events is the order of all decisions.
func (c *Core) Step(now int64, ev *Event, fx *Effects) {
	c.now, c.fx = max(now, c.now), fx
	switch ev.Kind {
	case EvStart:
		if c.committed == nil {
			c.start()
		} else {
			c.resume()
		}
	case EvTick:
		c.tick()
	case EvFreeze:
		c.lead.raiseMax = ev.RaiseMax
		c.freeze(ev.Proposal, ev.Wall)
	case EvEncoded:
		c.encoded(ev)
	case EvReaders:
		c.waiting = ev.On
		c.tick()
	case EvHeard:
		c.heard = ev.On
		c.tick()
	case EvFrugal:
		c.reclaimed.frugal = ev.On
	case EvConfirm:
		c.confirm(ev.Tag, ev.Lost)
	case EvStepDown:
		c.stepDown()
	case EvPark:
		c.park()
	case EvUnpark:
		c.unpark()
	case EvShow:
		c.show(ev)
	case EvEnd:
		c.end()
	case EvReach:
		if ev.Pos == (state.Position{}) {
			c.readEnd()
		} else {
			c.reach(ev.Pos)
		}
	case EvFeed:
		c.feed(ev.Slot)
	default:
		c.answer(ev)
	}
	fx.Wake = c.wakeAt()
	c.fx = nil
}

// request emits an effect and remembers the function that handles its answer.
func (c *Core) request(e Effect, done func(*Event)) *request {
	c.lastOp++
	e.Op = c.lastOp
	r := &request{effect: e, done: done, first: c.now, newest: c.now}
	c.ops[e.Op] = r
	c.emit(e)
	return r
}

func (c *Core) emit(e Effect) { c.fx.List = append(c.fx.List, e) }

// answer handles the outcome of a request. The first verdict settles the request; later answers,
// and answers to a request that was dropped, are ignored (rule R3).
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
		c.stop(orUnknown(ev.Err)) // a newer program wrote the object, whichever it is
		return
	}
	c.answered = r
	r.done(ev)
}

// repeat sends a request again after a delay, with the same name and the same bytes (rule R1).
func (c *Core) repeat(r *request, ev *Event) {
	if r.wanted != nil && !r.wanted() {
		delete(c.ops, r.effect.Op)
		return
	}
	r.effect.Attempt++
	r.effect.Delay = c.backoff(r.effect.Attempt)
	if ev.Outcome == OutcomeRefused {
		r.effect.Delay = int64(c.cfg.RefusedRetry)
		c.refused(r, ev)
	}
	r.newest = c.now + r.effect.Delay/2 // with jitter
	c.emit(r.effect)
}

// refused handles a refusal of the store: the core rejects new appends until the verdict on a slot
// comes (rule R3).
func (c *Core) refused(r *request, ev *Event) {
	if r.effect.Attempt == 1 {
		c.alarm("store refuses", fmt.Errorf("object store refuses %s: %w", r.effect.Key, orUnknown(ev.Err)))
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

func (c *Core) alarm(danger string, err error) {
	c.emit(Effect{Kind: EffAlarm, Danger: danger, Err: err})
}

// stop ends this run because of corruption or a store that breaks its contract (rule R9). Nothing
// is deleted, skipped or sealed.
func (c *Core) stop(err error) {
	if c.role == RoleStopped || c.role == RoleFenced {
		return
	}
	if c.endErr = err; !errors.Is(err, state.ErrNewer) {
		c.endErr = fmt.Errorf("%w: the log has stopped: %w", state.ErrCorrupt, err)
	}
	c.role = RoleStopped
	c.abandon()
	c.alarm("log has stopped", err)
	c.emit(Effect{Kind: EffRole, Role: RoleStopped, Epoch: c.Epoch(), Err: err})
}

// abandon drops every request, answers "unknown" for slots that were sent and rejects proposals
// that were not (rules R4, R6).
func (c *Core) abandon() {
	clear(c.ops)
	c.walk = nil
	for _, s := range c.lead.slots {
		s.frozen.Proposal.withdraw(c.endErr, false)
		c.emit(Effect{Kind: EffUnknown, Frozen: s.frozen})
		for _, p := range s.after {
			p.withdraw(c.endErr, true)
			c.emit(Effect{Kind: EffReject, Proposal: p, Reject: c.endErr})
		}
	}
	c.lead.slots = nil
	c.lead.overlay = nil
	for _, tag := range append(c.confirms, c.follow.queuedConfirms...) {
		c.emit(Effect{Kind: EffConfirmed, Tag: tag, Reject: c.endErr})
	}
	c.confirms, c.follow.queuedConfirms = nil, nil
}

// withdraw replaces answers that rest on an overlay which is dropped: that state was never
// committed (rule R2).
func (p *Proposal) withdraw(why error, all bool) {
	for i := range p.Appends {
		a := &p.Appends[i]
		switch {
		case a.Err == ErrDuplicate:
			a.Err = state.ErrOutcomeUnknown // the original may still appear
		case all || a.Err != nil:
			a.Err = why
		}
	}
	for i := range p.Ops {
		switch op := &p.Ops[i]; {
		case op.Err == ErrDuplicate:
			op.Err = state.ErrOutcomeUnknown
		case all || op.Err != nil:
			op.Err = why
		}
	}
}

// tick runs the tasks that depend on time.
func (c *Core) tick() {
	switch c.role {
	case RoleLeader:
		c.idleCheck()
		c.reclaim()
		c.scrub()
		c.showLife()
	case RoleFollower:
		c.poll()
	}
}

// wakeAt is when the next tick is due; 0: none.
func (c *Core) wakeAt() int64 {
	at := earlier(earlier(c.reclaimAt(), c.aliveAt()), c.scrubAt())
	if c.role == RoleFollower && c.unmade() && !c.follow.busy {
		return c.follow.pollAt
	}
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
		if !c.heard && !c.follow.busy { // the end of a poll sets the time of the next
			return c.follow.pollAt
		}
	}
	return at
}

// earlier returns the earlier of two times, where 0 means none.
func earlier(a, b int64) int64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// confirm answers once the committed end is known to be at most T old (leader) or was just looked
// for (follower): rule R11. lost forces a check, because an object that the state references is
// missing.
func (c *Core) confirm(tag uint64, lost bool) {
	switch c.role {
	case RoleFenced, RoleStopped:
		c.emit(Effect{Kind: EffConfirmed, Tag: tag, Reject: c.endErr})
	case RoleLeader:
		if !lost && !c.since(c.lead.seenAt, c.cfg.IdleCheck) {
			c.emit(Effect{Kind: EffConfirmed, Tag: tag})
			return
		}
		c.confirms = append(c.confirms, tag)
		if len(c.lead.slots) == 0 {
			c.probe()
		} // else the next commit or a SEAL answers
	case RoleFollower:
		c.follow.lost = c.follow.lost || lost
		if c.follow.busy { // the running poll may be older than the question
			c.follow.queuedConfirms = append(c.follow.queuedConfirms, tag)
			return
		}
		c.confirms = append(c.confirms, tag)
		c.pollNow()
	case RoleStarting:
		if c.follows() {
			c.follow.queuedConfirms = append(c.follow.queuedConfirms, tag)
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

// since reports whether at least d has passed since t.
func (c *Core) since(t int64, d Duration) bool { return c.now-t >= int64(d) }
