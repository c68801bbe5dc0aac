package cluster

import (
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
)

// Times are the durations of the rules. No safety depends on them.
type Times struct {
	Beat     time.Duration // between two beats
	Silent   time.Duration // a link is silent after it
	Alive    time.Duration // a leader that a run may not see commits an empty slot this often
	Fast     time.Duration // for so long; then at the slow pace
	Slow     time.Duration // the slow pace
	Trouble  time.Duration // a store that answers nothing for so long is in trouble
	Parked   time.Duration // a step of a hand-over takes at most this
	Gap      time.Duration // the loop of a run that pauses for longer was stopped
	Young    time.Duration // a leader that has read the log within this time answers latest reads
	Doubt    time.Duration // after a pause it refuses them for so long
	Apart    time.Duration // a run waits so long without a commit of a leader that it has never heard
	Late     time.Duration // a Report is at most this old when it is told to others
	HandOver time.Duration // an operator waits for a standby that can take over
}

// Designed are the times that the rules are designed for.
var Designed = Times{
	Beat: 500 * time.Millisecond, Silent: 2500 * time.Millisecond, Alive: time.Second, Fast: 10 * time.Minute,
	Slow: time.Minute, Trouble: 3 * time.Second, Parked: 2 * time.Second, Gap: 500 * time.Millisecond,
	Young: 2 * time.Second, Doubt: 1500 * time.Millisecond, Late: 200 * time.Millisecond, HandOver: 5 * time.Second, Apart: time.Minute,
}

// Config configures a Core.
type Config struct {
	Self  Registration
	Times Times // zero: Designed
	// Led: a run of Self's data folder has led this log before.
	Led bool
	// Leads: the log was opened to lead at once.
	Leads bool
}

// EventKind is a kind of event.
type EventKind uint8

// The kinds of events, and the fields of Event that they have.
const (
	EvReport   EventKind = iota + 1 // Report, StoreOK: the loop that owns the log runs
	EvListed                        // Listed
	EvFound                         // Registration: the answer to Effects.Find
	EvLinked                        // From, Registration, OtherKey, OtherSecrets: a connection to a run exists
	EvMessage                       // From, Message
	EvEnded                         // From, ByPeer: there is no connection any more
	EvRefused                       // From: its host refused a dial
	EvReplaced                      // From: another run answers at its address, which proves that it has ended
	EvStood                         // Err: the outcome of Effects.Stand
	EvParked                        // Report: the outcome of Effects.Park
	EvHandOver                      // an operator asks this leader to hand over
	EvLeave                         // the process ends soon
)

// Event is one input of a Core.
type Event struct {
	Kind         EventKind
	From         Run
	Message      Message
	Report       Report
	StoreOK      bool           // the newest request to the store was answered
	Listed       []Registration // all of the bucket
	Registration Registration   // of From
	OtherKey     bool           // From has another root key
	OtherSecrets bool           // From has another secrets key
	ByPeer       bool           // From, or its kernel, ended the connection (FIN or RST)
	Err          error
}

// Envelope is a message with its receiver.
type Envelope struct {
	To      Run
	Message Message
}

// ParkStep is what Effects asks of a leading log.
type ParkStep uint8

// The values of Effects.Park. The answer to Park and Drain is EvParked.
const (
	NoPark ParkStep = iota
	Park            // freeze nothing more
	Drain           // and wait for the slots in flight
	Unpark          // continue
)

// Effects are the outputs of a step. The caller performs them in any order, without waiting, and
// clears them.
type Effects struct {
	Send     []Envelope
	Connect  []Registration // runs to keep a link with
	Forget   []Run          // runs to dial no more
	Reach    state.Position // follow up to it; slot and epoch 0: nothing
	Read     bool           // read the log to its end
	Stand    bool           // the answer is EvStood
	Gone     bool           // with Stand: the leader of the epoch has ended, or stopped to lead
	StepDown bool
	Epoch    uint32 // with StepDown: the epoch to leave. The log may lead a later one by then
	Park     ParkStep
	Show     bool // tell the log Pace and Promise
	Pace     time.Duration
	Promise  time.Duration
	List     bool  // LIST the registrations; the answer is EvListed
	Seek     bool  // LIST the registrations; the answers are EvFound
	Find     Run   // read its registration; the answer is EvFound, or none
	Register bool  // look whether the own registration is there, and put it again if not
	Ask      bool  // a Report is wanted now, because something has happened
	Exit     bool  // end, because the run that leads and this one do not reach each other
	Remove   []Run // runs that have ended: delete their registrations
	Left     bool  // after EvLeave: nothing is left to hand over
	Handed   bool  // the answer to EvHandOver is HandErr
	HandErr  error
}

// Core decides for one run. It is deterministic, does no I/O and is not safe for concurrent use.
//
//	joining ── a leader is heard, or another run's SEAL is found ──▶ standby ◀── deposed, or handed over
//	   └──────────────── stands (H3) ──▶ leading ◀── stands (H4) ──────┘
type Core struct {
	cfg   Config
	t     Times
	self  Run
	last  time.Time
	run   time.Duration // running time: a pause counts as Times.Gap
	clock time.Duration // running time with all pauses, for ages that excuse
	gapAt time.Duration // end of the newest pause

	peers  []*peer // in the order of their runs
	listed bool

	report   Report
	storeOK  bool
	reported time.Duration // time of the newest Report; 0: none
	lookAt   time.Duration // by clock
	life     time.Duration // newest sign of life of the epoch in the log
	led      epochName     // the newest epoch that a broker was heard to lead, or this one led
	ended    uint32        // the epoch in which this run stepped down, until a Report confirms it

	nextBeat   time.Duration
	beat       Beat // the newest that was sent
	joining    bool
	lost       epochName     // that this run led until another run sealed the next
	against    Run           // that this run stood against; zero: it can be reached
	joinedAt   time.Duration // loaded and listed; 0: not yet
	nextLook   time.Duration
	nextRead   time.Duration
	standing   bool // EvStood is to come
	stoodAt    time.Duration
	take       *taking
	prepared   Hand // ID 0: none
	preparedBy Run
	leaving    bool
	told       bool // Exit was told

	l     *leadership // nil: this run does not lead
	show  struct{ pace, promise time.Duration }
	asked time.Duration // an operator waits for a hand-over until then; 0: none
	ids   uint64        // of hand-overs
}

// New returns the Core of a run.
func New(cfg Config) *Core {
	c := &Core{cfg: cfg, t: cfg.Times, self: cfg.Self.Run, joining: true, storeOK: true}
	if c.t == (Times{}) {
		c.t = Designed
	}
	c.gapAt, c.lookAt, c.clock = -time.Hour, -time.Hour, c.t.Late+1 // peer.told is positive from the start
	return c
}

// Step handles one event and adds to fx. now is read just before, with the monotonic clock where the
// system has one.
func (c *Core) Step(now time.Time, ev *Event, fx *Effects) {
	c.advance(now)
	switch ev.Kind {
	case EvReport:
		c.onReport(now, ev, fx)
	case EvListed:
		c.onListed(ev.Listed, fx)
	case EvFound:
		c.found(&ev.Registration, fx)
		fx.Ask = true
	case EvLinked:
		c.onLinked(ev, fx)
	case EvMessage:
		c.onMessage(ev.From, &ev.Message, fx)
	case EvEnded:
		c.onEnded(ev, fx)
	case EvRefused:
		c.onRefused(ev.From, fx)
	case EvReplaced:
		c.onReplaced(ev.From, fx)
	case EvStood:
		c.onStood(ev.Err, fx)
	case EvParked:
		c.onParked(&ev.Report, fx)
	case EvHandOver:
		c.onHandOver(fx)
	case EvLeave:
		c.leaving, fx.Ask = true, true
	}
}

// advance reads the clocks. A pause is the larger of the monotonic and the wall time between two
// steps, because a monotonic clock may stop while the machine sleeps.
func (c *Core) advance(now time.Time) {
	if c.last.IsZero() {
		c.last = now
	}
	d := max(since(now, c.last), 0)
	c.last = now
	c.clock += d
	c.run += min(d, c.t.Gap)
	if d > c.t.Gap {
		c.gapAt = c.run
	}
}

// since returns the larger of the monotonic and the wall time between two moments.
func since(now, then time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}

func (c *Core) onReport(now time.Time, ev *Event, fx *Effects) {
	r, old := ev.Report, c.report
	if late := c.run - c.reported - c.t.Gap; c.reported != 0 && late > 0 {
		// The loop that owns the log was stopped. Without beats no run answered any.
		c.gapAt = c.run
		for _, p := range c.peers {
			p.echo = min(p.echo+late, c.run)
		}
	}
	if r.Leads && c.ended == r.Pos.Epoch {
		r.Leads = false // it has not stepped down yet
	} else if !r.Leads {
		c.ended = 0
	}
	first := c.reported == 0
	c.report, c.storeOK, c.reported = r, ev.StoreOK, max(c.run, 1)
	if !r.Looked.IsZero() {
		c.lookAt = max(c.lookAt, c.clock-since(now, r.Looked))
	}
	if first || !r.Life.Equal(old.Life) || r.Pos != old.Pos {
		c.life = c.run
	}
	if r.Loaded && !r.Sealer.IsZero() {
		// Two brokers that start at the same time may both not find the other's registration.
		if p := c.learn(r.Sealer); p.reg.Run.IsZero() && !p.sought && p.run.Node != c.self.Node {
			p.sought, fx.Find, fx.Register = true, p.run, true // it may not have found this run either
		}
	}
	if old.Loaded && r.Pos.Epoch != old.Pos.Epoch {
		c.nextLook, c.nextBeat = 0, 0
		fx.Seek = r.Sealer.IsZero() // the new leader, or those that follow it, may not be known
		if r.Sealer != c.self {
			c.joining = false // another broker was faster
		}
	}
	c.lead(fx)
	if c.joinedAt == 0 && c.listed && r.Loaded {
		c.joinedAt = max(c.run, 1)
	}
	if c.listed && c.run >= c.nextBeat {
		c.sendBeats(fx)
	}
	if c.l != nil {
		c.leadRound(now, fx)
	} else if r.Loaded {
		c.readyRound(fx)
		c.standbyRound(fx)
	}
	c.keepRegistered(fx)
	if c.leaving && c.l == nil {
		fx.Left = true
	}
}

// onListed learns the registrations of the bucket. A run that is not among them, and is not heard, is
// not waited for any more.
func (c *Core) onListed(all []Registration, fx *Effects) {
	c.listed = true
	for i := range all {
		r := &all[i]
		c.found(r, fx)
	}
	for _, p := range c.peers {
		if !c.heard(p) && !slices.ContainsFunc(all, func(r Registration) bool { return r.Run == p.run }) {
			p.listed = false
		}
	}
	c.forget(fx)
	fx.Ask = true
}

// forget removes runs that are not registered and have no link. They are dialed no more.
func (c *Core) forget(fx *Effects) {
	c.peers = slices.DeleteFunc(c.peers, func(p *peer) bool {
		forgotten := !p.listed && p.run != c.report.Sealer && !p.up
		if forgotten {
			fx.Forget = append(fx.Forget, p.run)
		}
		return forgotten
	})
}

// found learns a registration.
func (c *Core) found(r *Registration, fx *Effects) {
	if r.Run.Node == c.self.Node {
		return
	}
	p := c.learn(r.Run)
	if p.reg.Run.IsZero() {
		p.reg = *r
		fx.Connect = append(fx.Connect, *r)
	}
	p.listed = true
}

// onStood handles the outcome of an attempt to lead.
func (c *Core) onStood(err error, fx *Effects) {
	c.standing = false
	fx.Ask = true
	wait := c.t.Alive / 10
	if p := c.sealer(); err != nil && p != nil && !p.over() {
		wait = c.t.Alive // it has written, or another run was faster, or the store does not answer
	}
	c.nextLook = c.run + wait
}
