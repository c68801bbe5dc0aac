package cluster

import (
	"bytes"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// peer is a run of another broker, and the link to it. Its times are running times.
type peer struct {
	run      Run
	reg      Registration  // Run is zero: unknown
	listed   bool          // it is registered
	sought   bool          // its registration was looked for
	otherKey bool          // it has another root key than this run
	secrets  bool          // it has another secrets key than this run
	echo     time.Duration // when the newest of the beats that it answered was sent
	got      time.Duration // when its newest beat came
	up       bool          // there is a connection
	linkedAt time.Duration // when the connection was made
	linked   bool          // it has answered a beat on a connection
	ended    bool          // it ended that connection
	refused  int           // dials since then
	gone     bool          // it has ended
	left     bool          // it said so itself, and removes its registration
	replaced bool          // a later run of its data folder is known
	checked  int           // how often this run has looked at its own registration since the link was lost
	beat     Beat
	hasBeat  bool
	told     time.Duration // clock of this run; its newest beat was sent later; 0: unknown
	claims   bool          // it has claimed to lead or to end an epoch
	claim    epochName     // the newest such epoch
	stands   bool          // it claimed to end it
	claimAt  time.Duration
}

// epochName is an epoch and its nonce.
type epochName struct {
	epoch uint32
	nonce record.ID
}

// epochOf is the epoch of the newest slot that a report knows.
func epochOf(r *Report) epochName { return epochName{r.Pos.Epoch, r.Nonce} }

// over reports whether the run has ended.
func (p *peer) over() bool { return p.gone || p.replaced }

// mayBeThere reports whether the run can be reached, may lead with its own root key, and has not ended.
func (p *peer) mayBeThere() bool { return !p.over() && p.listed && p.reg.Stands() }

// apart reports whether the run may lead, and this one and it do not reach each other.
func (p *peer) apart() bool {
	return p != nil && p.listed && !p.over() && !p.reg.Run.IsZero() && !p.reg.ReadOnly && !p.reg.Reachable()
}

// namesake reports whether the run is taken to have ended, because a run at its URL answers, which is
// that of self too. If self led when the run sealed, both are there.
func (p *peer) namesake(self *Registration) bool {
	return p != nil && p.replaced && p.run.Node != self.Run.Node && p.reg.URL != "" && p.reg.URL == self.URL
}

// unheard reports whether the run may lead, and this one has never heard it.
func (p *peer) unheard() bool { return p != nil && p.listed && !p.over() && !p.hasBeat }

// counts reports whether a leader must show the run that it is alive: it may lead.
func (p *peer) counts() bool { return p.mayBeThere() && !p.otherKey && !p.beat.OtherKey }

func compareRuns(a, b Run) int {
	if n := bytes.Compare(a.Node[:], b.Node[:]); n != 0 {
		return n
	}
	return bytes.Compare(a.ID[:], b.ID[:])
}

func (c *Core) find(run Run) *peer {
	i, ok := slices.BinarySearchFunc(c.peers, run, func(p *peer, r Run) int { return compareRuns(p.run, r) })
	if !ok {
		return nil
	}
	return c.peers[i]
}

// learn returns the peer of a run. This run, and earlier ones of its data folder, have one as well if
// they sealed the epoch.
func (c *Core) learn(run Run) *peer {
	i, ok := slices.BinarySearchFunc(c.peers, run, func(p *peer, r Run) int { return compareRuns(p.run, r) })
	if !ok {
		p := &peer{run: run, echo: c.run, got: c.run, replaced: run.Node == c.self.Node}
		c.peers = slices.Insert(c.peers, i, p)
	}
	return c.peers[i]
}

// age returns how long nothing passed both ways. An echo without a new beat does not tell what the
// run does.
func (c *Core) age(p *peer) time.Duration { return c.run - min(p.echo, p.got) }

// tells reports whether the run will soon be heard, because there is a new connection to it.
func (c *Core) tells(p *peer) bool { return p.up && c.run-p.linkedAt <= c.t.Silent }

// heard reports whether beats come and are answered.
func (c *Core) heard(p *peer) bool {
	return !p.over() && p.hasBeat && c.age(p) <= c.t.Silent
}

// Alone reports whether no other run may be there and may have a link. Then a leader needs no rounds.
func (c *Core) Alone() bool {
	return !slices.ContainsFunc(c.peers, func(p *peer) bool { return p.up || p.mayBeThere() })
}

func (c *Core) sendBeats(fx *Effects) {
	c.nextBeat = c.run + c.t.Beat
	r := &c.report
	b := Beat{
		From: c.self, Pos: r.Pos, PosNonce: r.Nonce, Loaded: r.Loaded, StoreOK: c.storeOK, Leaving: c.leaving,
		OtherKey: c.otherKey(), Level: r.Level, Committed: r.Committed,
	}
	switch {
	case c.l != nil:
		b.Leads, b.Epoch, b.Nonce = true, r.Pos.Epoch, r.Nonce
	case c.stands() && min(c.run-c.stoodAt, since(c.last, r.Verdict)) <= c.t.Trouble: // without an answer of the store it claims nothing
		b.Stands, b.Epoch, b.Nonce = true, r.Pos.Epoch, r.Nonce
	}
	c.beat = b
	for _, p := range c.peers {
		if !p.over() {
			fx.send(p.run, &Message{Kind: MsgBeat, Sent: uint64(c.run), Beat: b})
		}
	}
}

func (fx *Effects) send(to Run, m *Message) { fx.Send = append(fx.Send, Envelope{to, *m}) }

// stands reports whether an attempt to lead is under way.
func (c *Core) stands() bool { return c.standing || c.report.Stands }

func (c *Core) onLinked(ev *Event, fx *Effects) {
	if ev.From.Node == c.self.Node {
		return
	}
	p := c.learn(ev.From)
	p.reg, p.otherKey, p.secrets = ev.Registration, ev.OtherKey, ev.OtherSecrets
	p.listed, p.up, p.linkedAt, p.linked, p.ended, p.refused = true, true, c.run, false, false, 0
	c.nextBeat, fx.Ask = 0, true
}

func (c *Core) onMessage(from Run, m *Message, fx *Effects) {
	if from.Node == c.self.Node {
		return
	}
	switch m.Kind {
	case MsgBeat:
		c.onBeat(from, m, fx)
	case MsgEcho:
		c.onEcho(from, m)
	case MsgGoodbye:
		if p := c.find(from); p != nil {
			p.gone, p.left, fx.Ask = true, true, true
		}
	case MsgPrepare:
		c.onPrepare(from, &m.Hand, fx)
	case MsgReady:
		c.onReady(from, &m.Hand, fx)
	case MsgTake:
		c.onTake(from, &m.Hand, fx)
	case MsgForgotten:
		fx.List = true
	}
}

func (c *Core) onBeat(from Run, m *Message, fx *Effects) {
	p := c.learn(from)
	if !p.hasBeat || p.replaced {
		if !c.replace(p) {
			return
		}
		c.nextBeat, fx.Ask = 0, true
	}
	b := &m.Beat
	fx.Ask = fx.Ask || b.Leads != p.beat.Leads
	p.listed, p.gone, p.left, p.ended, p.refused = true, false, false, false, 0
	p.beat, p.hasBeat, p.got, p.told = *b, true, c.run, 0
	if p.linked && c.gapAt <= p.echo {
		// Messages of a link keep their order, so the run sent this after it had answered the beat
		// whose echo is the newest.
		p.told = c.clock - (c.run - p.echo) - c.t.Late
	}
	if b.Leads || b.Stands {
		p.claims, p.claim, p.stands, p.claimAt = true, epochName{b.Epoch, b.Nonce}, b.Stands, c.run
	}
	fx.send(from, &Message{Kind: MsgEcho, Sent: m.Sent})
	if b.Leads {
		c.onLeads(b, fx)
	}
}

// Told returns the position of the leader that this standby follows. Everything that was committed
// before the age is below it, unless another run has deposed that leader without its knowledge, which
// lasts as long as its doubt (InDoubt). The age counts pauses of this run. ok is false without a link
// to the leader, or if the leader does not reach the store.
func (c *Core) Told(now time.Time) (pos state.Position, age time.Duration, ok bool) {
	p := c.leader()
	if c.l != nil || p == nil || !p.beat.Loaded || !p.beat.StoreOK || p.told <= 0 {
		return pos, 0, false
	}
	return p.beat.Pos, c.clock + since(now, c.last) - p.told, true
}

// replace notes that the other runs of p's data folder have ended, because p holds the lock of the
// folder. It returns false if p's beat was late, and a later run is heard.
func (c *Core) replace(p *peer) bool {
	for _, o := range c.peers {
		if o.run.Node == p.run.Node && o != p && p.replaced && c.heard(o) {
			return false
		}
	}
	for _, o := range c.peers {
		if o.run.Node == p.run.Node {
			o.replaced = o != p
		}
	}
	return true
}

// onLeads hears that a run leads an epoch. A leader that hears of a later epoch stops at once, which
// is always safe (H11); a follower reads what is missing.
func (c *Core) onLeads(b *Beat, fx *Effects) {
	r := &c.report
	if b.Epoch >= c.led.epoch {
		c.led = epochName{b.Epoch, b.Nonce}
	}
	switch {
	case c.l != nil && b.Epoch > r.Pos.Epoch:
		c.stepDown(fx)
	case c.l != nil || !r.Loaded:
	case b.Epoch > r.Pos.Epoch, epochName{b.Epoch, b.Nonce} == epochOf(r) && b.Pos.Slot > r.Pos.Slot:
		fx.Reach = state.Position{Epoch: b.Epoch, Slot: b.Pos.Slot}
	}
}

func (c *Core) onEcho(from Run, m *Message) {
	if p := c.find(from); p != nil && !p.replaced {
		p.echo = max(p.echo, min(time.Duration(m.Sent), c.run))
		p.linked, p.gone, p.ended, p.refused, p.checked = true, false, false, 0, 0
	}
}

func (c *Core) onEnded(ev *Event, fx *Effects) {
	if p := c.find(ev.From); p != nil {
		p.up, p.ended, fx.Ask = false, p.linked && ev.ByPeer, true
		c.forget(fx)
	}
}

// onReplaced notes that a run has ended, because another one answers at its address. The other one is looked for, because its own dials may fail for longer than it waits for the leader. It may
// not have found this run either.
func (c *Core) onReplaced(from Run, fx *Effects) {
	if p := c.find(from); p != nil && !c.heard(p) && !p.replaced {
		p.replaced, fx.Ask, fx.Seek, fx.Register = true, true, true, true
		c.end(p, fx)
	}
}

// end notes that a run has ended. If this run has never heard it, its end is no news for people, and
// its registration is removed.
func (c *Core) end(p *peer, fx *Effects) {
	p.gone, fx.Ask = true, true
	if !p.hasBeat && p.listed {
		p.listed, fx.Remove = false, append(fx.Remove, p.run)
	}
}

// onRefused counts refused dials. A firewall refuses for living runs, so only a run that ended its
// connection before is gone, or one of this machine.
func (c *Core) onRefused(from Run, fx *Effects) {
	p := c.find(from)
	if p == nil || p.gone || !p.ended && !p.reg.Beside(&c.cfg.Self) {
		return
	}
	if p.refused++; p.refused >= 2 {
		c.end(p, fx)
	}
}

// leader returns the peer that is heard to lead the epoch of this run or a later one.
func (c *Core) leader() *peer {
	if !c.report.Loaded {
		return nil
	}
	for _, p := range c.peers {
		if c.heard(p) && p.beat.Leads && p.beat.Epoch >= c.report.Pos.Epoch {
			return p
		}
	}
	return nil
}

// otherKey reports whether the run that sealed the epoch has another root key. Then this run only reads.
func (c *Core) otherKey() bool {
	p := c.sealer()
	return c.l == nil && p != nil && p.otherKey && !p.over()
}
