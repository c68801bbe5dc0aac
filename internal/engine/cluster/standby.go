package cluster

import (
	"slices"
	"time"
)

// standbyRound decides whether this run stands against the epoch at the end of the log.
func (c *Core) standbyRound(fx *Effects) {
	if c.joining && c.leader() != nil {
		c.joining = false
	}
	switch {
	case c.stands() || c.cfg.Self.ReadOnly || c.told:
		return
	case c.takeRound(fx):
		return
	case c.leaving || c.otherKey() || c.later() || c.joinedAt == 0:
		return
	case c.deposedApart():
		c.told, fx.Exit = true, true
		return
	}
	if c.lost.epoch != 0 && c.lost == epochOf(&c.report) { // the next SEAL exists
		if c.run >= c.nextRead {
			c.nextRead, fx.Read = c.run+c.t.Alive, true
		}
		return
	}
	c.readEnd(fx)
	if !c.storeOK && c.run >= c.nextRead { // otherwise an idle standby would not learn that the store is back
		c.nextRead, fx.Read = c.run+c.t.Trouble, true
	}
	stands, wait := c.choice()
	if c.joining {
		stands, wait = c.joiningChoice()
	}
	switch {
	case !stands || c.run < c.nextLook:
	case wait && (c.run-c.life < c.patience() || c.run-c.joinedAt < max(c.patience(), c.t.Silent)): // a link takes its time too
	default:
		c.stand(fx)
	}
}

// later reports whether a run is heard to lead a later epoch, which this run reads first.
func (c *Core) later() bool {
	p := c.leader()
	return p != nil && p.beat.Epoch > c.report.Pos.Epoch
}

func (c *Core) stand(fx *Effects) {
	p := c.sealer()
	c.standing, c.stoodAt, c.against, fx.Stand = true, c.run, Run{}, true
	if p.apart() {
		c.against = p.run
	}
	fx.Gone = p != nil && p.over() || c.take != nil && c.take.hand.Undrained || c.report.Ends
}

// deposedApart is H20: a run that does not reach this one leads instead of it, or of an earlier run of its
// data folder. It ends, because otherwise the two depose each other in turn. A start waits instead if the
// other run has the name of this machine: it may have ended with the machine.
func (c *Core) deposedApart() bool {
	p := c.sealer()
	if c.lost.epoch != 0 {
		return p.apart() || p.namesake(&c.cfg.Self)
	}
	return c.cfg.Led && p.apart() && p.reg.Name != c.cfg.Self.Name
}

// joiningChoice is H3: whether a run that has not yet followed a leader stands, and whether it waits
// for signs of life before.
func (c *Core) joiningChoice() (stands, wait bool) {
	r := &c.report
	if r.Sealer.Node == c.self.Node && !r.Sealer.IsZero() {
		return true, false // an earlier run of this folder, whose lock this run holds
	}
	if r.Ends || !slices.ContainsFunc(c.peers, func(p *peer) bool { return p.listed }) {
		return true, false // no other broker may be there
	}
	quiet := true // every peer is heard and claims nothing
	for _, p := range c.peers {
		if p.over() || !p.mayBeThere() && p.run != r.Sealer {
			continue
		}
		b := &p.beat
		heard := c.heard(p)
		if !heard && c.tells(p) {
			return false, false
		}
		if heard && b.Leads && (epochName{b.Epoch, b.Nonce}) == epochOf(r) {
			return false, false
		}
		older := p.run == r.Sealer && (epochName{b.Pos.Epoch, b.PosNonce}) != epochOf(r) // than its SEAL
		quiet = quiet && heard && !older && b.Loaded && !b.Leads && !b.Stands
	}
	return true, !quiet || c.foreign()
}

// foreign reports whether a program that no broker reaches began the epoch. At its start it leads by
// force. It may be idle, so standbys do not stand against it: the two would depose each other in turn.
// The level may be younger than the epoch, so an epoch that a broker has led is not foreign.
func (c *Core) foreign() bool { return c.report.Foreign && c.led != epochOf(&c.report) }

// sealer returns the peer whose run has sealed the epoch. The SEAL does not name it at an old format
// level; then it is the run that claims to lead the epoch. nil: not known.
func (c *Core) sealer() *peer {
	if run := c.report.Sealer; !run.IsZero() {
		return c.find(run)
	}
	for _, p := range c.peers {
		if !p.over() && p.claims && !p.stands && p.claim == epochOf(&c.report) {
			return p
		}
	}
	return nil
}

// choice is H4: whether the run that sealed the epoch is silent or gone, or does not claim it. wait:
// signs of life in the log matter.
func (c *Core) choice() (stands, wait bool) {
	if c.report.Sealer == c.self { // this run sealed it, and does not lead
		return true, false
	}
	p := c.sealer()
	switch {
	case c.foreign():
		return false, false
	case c.report.Ends, p != nil && p.over():
		return true, false
	case p == nil:
		return true, true
	case c.age(p) > c.t.Silent:
		return !c.tells(p), true
	}
	claims := p.claims && (p.stands || p.claim == epochOf(&c.report)) && c.run-p.claimAt <= c.t.Silent
	return !claims && c.run-c.life > c.t.Silent, false
}

// readEnd reads the log to its end while the beats of a leader that wrote are missing. So a slot that
// the leader put and did not feed is a sign of life from then on, and not from the end of the silent
// time on. An idle leader leaves none, and causes no request. The log of a leader that is silent is
// read as long as that lasts, because its last slot may say that it has ended.
func (c *Core) readEnd(fx *Effects) {
	p := c.sealer()
	if p == nil || p.over() || c.run < c.nextRead {
		return
	}
	age, every := c.age(p), c.t.Beat
	switch {
	case age < c.t.Beat*3/2, age <= c.t.Silent && c.run-c.life > c.t.Silent:
		return
	case age <= c.t.Silent:
	case age <= c.t.Fast:
		every = c.t.Alive
	default:
		every = 4 * c.t.Alive
	}
	c.nextRead, fx.Read = c.run+every, true
	if p.reg.Run.IsZero() {
		fx.Find = p.run // a run that was started with --take-over registers after its SEAL
	}
}

// patience is how old the newest sign of life of an epoch must be before this run stands against it.
//
// A slot without a promise was frozen before its leader missed a beat. The next one follows within
// Alive, so twice that is time for a slow PUT. An attempt also waits for the silent time of the link,
// after which a leader that was idle has shown life. A leader that this run has never heard may not know
// of it, and shows life only when it commits something.
func (c *Core) patience() time.Duration {
	next, p := c.report.Promise, c.sealer()
	unknown := p != nil && p.reg.Run.IsZero() && c.lost.epoch != 0 // a run that deposed this one
	unheard := p.apart() || unknown || c.joining && p.unheard()
	switch {
	case next == 0 && unheard:
		return c.t.Apart
	case next == 0:
		return 2 * c.t.Alive
	case p != nil && !unheard && c.age(p) < c.t.Fast/2:
		next = min(next, c.t.Alive) // a leader whose newest lost link is young writes at the fast pace
	}
	return c.t.Silent + 2*next
}

// keepRegistered looks at the own registration after a link was lost: at once, because the other run
// may start again and must find this one, and before a leader that cannot see this run believes that it
// has left.
func (c *Core) keepRegistered(fx *Effects) {
	if !c.cfg.Self.Stands() || c.leaving {
		return
	}
	for _, p := range c.peers {
		switch {
		case p.hasBeat && p.checked == 0 && (p.over() || !p.up || c.age(p) > c.t.Silent):
			p.checked, fx.Register = 1, true
		case p.counts() && p.checked < 2 && c.age(p) > c.t.Fast/2:
			p.checked, fx.Register = 2, true
		}
	}
}
