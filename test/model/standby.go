package model

// standbyTick decides whether this process stands against the epoch at the end of its path.
func (p *process) standbyTick() {
	w := p.w
	if p.behind() {
		p.busy = catching
		p.spawn(p.catchUp, func() { p.busy = free })
		return
	}
	p.target = nil
	if p.quitting || w.cfg.Mode == Loopback && w.on(Local) && p.h.sealed && p.sealer.folder != p.id.folder {
		return
	}
	if p.role == joining && p.leaderSeen() != nil {
		p.role = standby
	}
	if p.readsEnd() {
		p.busy = catching
		p.spawn(func(t *task) { p.walk(t, always) }, func() { p.busy = free })
		return
	}
	stands, wait := p.standbyChoice()
	if p.role == joining {
		stands, wait = p.joiningChoice()
	}
	why := byRule
	if q := &p.peers[p.sealer.folder]; p.sealer.run != 0 && (q.id != p.sealer || q.gone) {
		why = afterEnd
	}
	if p.ended && w.on(EndMark) {
		stands, wait, why = true, false, afterEnd
	}
	if p.forced {
		stands, wait, why = true, false, byForce
	}
	if !stands || p.rt < p.nextLook {
		return
	}
	if wait && w.on(Life) && p.rt-p.life < p.patience() {
		return
	}
	p.forced = false
	p.startStand(func(t *task) { p.stand(t, why) })
}

// readsEnd reports whether this process reads the log to its end because beats of a leader that wrote
// are missing. So it knows a slot that was not fed before the silent time ends. It reads the log of a
// silent leader until it stands, because the last slot may say that the leader has ended.
func (p *process) readsEnd() bool {
	w, q := p.w, &p.peers[p.sealer.folder]
	if p.sealer.run == 0 || q.id != p.sealer || q.gone || p.rt < p.nextRead {
		return false
	}
	every := w.times.beat
	switch age := p.age(q); {
	case age <= w.times.beat*3/2, age <= w.times.silent && p.rt-p.life > w.times.silent:
		return false
	case age <= w.times.silent:
	case age <= w.times.fast:
		every = w.times.alive
	default:
		every = 4 * w.times.alive
	}
	p.nextRead = p.rt + every
	return true
}

func (p *process) startStand(f func(t *task)) {
	p.busy = standing
	p.spawn(f, func() { p.busy = free })
}

// joiningChoice is H3: whether a process that has not yet followed a leader stands, and whether it
// waits for signs of life before.
func (p *process) joiningChoice() (stands, wait bool) {
	w := p.w
	if p.joinedAt == 0 {
		return false, false
	}
	if p.sealer.folder == p.id.folder && p.sealer.run != 0 && w.on(Join) {
		return true, false // an earlier run of this folder, whose lock this run holds
	}
	all := true // every peer is heard and claims nothing
	for i := range p.peers {
		q := &p.peers[i]
		if !q.there() {
			continue
		}
		if p.heard(q) && q.info.leads && q.info.epoch == p.pos.epoch {
			return false, false
		}
		old := w.on(Fresh) && q.id == p.sealer && q.info != nil && q.info.pos.epoch != p.pos.epoch // older than its SEAL
		all = all && p.heard(q) && !old && q.info.loaded && !q.info.leads && !q.info.stands
	}
	if w.on(Join) {
		return true, !all
	}
	return all || p.rt-p.joinedAt > w.times.silent/2, false
}

// standbyChoice is H4 (a): whether the run that sealed the epoch is silent or gone. wait: signs of
// life in the log matter.
func (p *process) standbyChoice() (stands, wait bool) {
	w := p.w
	if p.sealer.run == 0 {
		return true, true
	}
	if p.sealer == p.id { // my own SEAL, and I do not lead
		return w.on(Claim), false
	}
	q := &p.peers[p.sealer.folder]
	if q.id != p.sealer || q.gone { // another run of that broker, or none
		return true, false
	}
	silent := p.age(q) > w.times.silent
	if !silent && w.on(Claim) {
		claims := q.claims && (q.stands || q.claim == p.pos.epoch) && p.rt-q.at <= w.times.silent
		return !claims && p.rt-p.life > w.times.silent, false
	}
	return silent, silent
}
