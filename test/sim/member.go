package sim

import (
	"bytes"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
)

// member is the part of a run that knows other brokers: the cluster.Core of production, and what the
// server does around it. Its loop and the loop that owns the log exchange events, as in production:
//
//	run (core.Core) ── Report ──▶ member (cluster.Core) ◀── events ── links
//	                ◀─ effects ──
type member struct {
	r       *run
	self    cluster.Registration
	core    *cluster.Core
	rounds  cluster.Rounds
	dead    bool
	stopped bool          // the process is stopped: its log is paused as well
	inbox   []func()      // while stopped
	ahead   time.Duration // of its wall clock

	neighbors []*neighbor
	wakeAt    int64
	opened    bool
	leads     bool // as of the newest Report
	feeds     bool // and has links
	verdict   int64
	storeOK   bool
	stands    bool // the log shall stand
	gone      bool // and the leader has ended
	parks     []cluster.ParkStep
	parkedAt  int64
	leaving   bool
	clean     bool // it ended by itself
	lone      bool // it found no other broker when it started
}

// clustered reports whether brokers have a cluster.Core.
func (w *simulation) clustered() bool { return w.cfg.Cluster.Unit > 0 }

// units converts a duration of the designed times to one of this run.
func (w *simulation) units(d time.Duration) time.Duration {
	if u := w.cfg.Cluster.Unit; u > 0 {
		return time.Duration(float64(d) * u.Seconds())
	}
	return d
}

// clock is the time that Cores read.
func (w *simulation) clock() time.Time { return time.Unix(0, w.now) }

func (w *simulation) nodeOf(run cluster.Run) *node { return w.nodes[run.Node[1]] }

func indexOf(list []cluster.Registration, run cluster.Run) int {
	return slices.IndexFunc(list, func(r cluster.Registration) bool { return r.Run == run })
}

// registry performs a request for registrations: change returns what is stored then. list is what was
// stored before; ok is false without a verdict.
func (w *simulation) registry(n *node, put bool, change func(list []cluster.Registration) []cluster.Registration, then func(list []cluster.Registration, ok bool)) {
	var list []cluster.Registration
	w.store.call(n, put, func() core.Outcome {
		list = w.registered
		w.registered = change(slices.Clone(list))
		return core.OutcomeOK
	}, func(o core.Outcome) { then(list, o == core.OutcomeOK) })
}

// joins finds the other brokers before the log of a process is opened.
func (n *node) joins() {
	w := n.w
	n.tries++
	n.joining = n.tries
	was := n.joining
	w.listSlow(func() {
		w.registry(n, false, func(list []cluster.Registration) []cluster.Registration { return list }, func(list []cluster.Registration, ok bool) {
			switch {
			case n.joining != was:
			case !ok:
				w.after(w.units(time.Second), func() {
					if n.joining == was {
						n.joins()
					}
				})
			default:
				n.joining = 0
				others := slices.ContainsFunc(list, func(r cluster.Registration) bool { return r.Run.Node != n.identity().Node })
				n.begin(others && !n.force)
				n.force = false
			}
		})
	})
}

// listSlow performs a LIST, which may take long.
func (w *simulation) listSlow(list func()) {
	w.stats.Cluster.Lists++
	w.after(w.upTo(w.netRand, w.slowList), list)
}

// joined gives a run its member.
func (r *run) joined() {
	n := r.n
	w := n.w
	m := &member{r: r, storeOK: true, self: cluster.Registration{Run: n.identity(), Name: n.name(), Addresses: []string{n.name()}, LevelMax: state.LevelMax}}
	if n.id < w.cfg.Cluster.Older && (n.runs == 1 || w.cfg.Cluster.Stay) { // it is upgraded when it starts again
		m.self.LevelMax--
	}
	m.rounds.Every = w.units(cluster.Round)
	m.core = cluster.New(cluster.Config{Self: m.self, Times: w.cfg.Cluster.Times})
	r.member = m
	w.after(0, func() { m.receive(m.register); m.receive(m.plan) })
}

// register stores the registration, and removes those of earlier runs.
func (m *member) register() {
	w := m.r.n.w
	w.registry(m.r.n, true, func(list []cluster.Registration) []cluster.Registration {
		list = slices.DeleteFunc(list, func(r cluster.Registration) bool { return r.Run.Node == m.self.Run.Node })
		list = append(list, m.self)
		slices.SortFunc(list, func(a, b cluster.Registration) int { return bytes.Compare(a.Run.Node[:], b.Run.Node[:]) })
		return list
	}, func(_ []cluster.Registration, ok bool) {
		if ok {
			m.receive(m.open)
			return
		}
		w.after(w.units(time.Second), func() { m.receive(m.register) })
	})
}

// open tells the Core which runs there are, once, when this one is registered.
func (m *member) open() {
	if m.opened {
		return
	}
	w := m.r.n.w
	m.list(func(ok bool) {
		if m.opened = m.opened || ok; !ok {
			w.after(w.units(time.Second), func() { m.receive(m.open) })
		}
	})
}

// list reads the registrations.
func (m *member) list(then func(ok bool)) {
	w := m.r.n.w
	w.listSlow(func() {
		w.registry(m.r.n, false, func(list []cluster.Registration) []cluster.Registration { return list }, func(list []cluster.Registration, ok bool) {
			m.receive(func() {
				if ok {
					m.step(&cluster.Event{Kind: cluster.EvListed, Listed: list})
				}
				then(ok)
			})
		})
	})
}

// receive runs f in the process, or when it continues.
func (m *member) receive(f func()) {
	switch {
	case m.dead:
	case m.stopped:
		m.inbox = append(m.inbox, f)
	default:
		f()
	}
}

// plan plans the next round.
func (m *member) plan() {
	w := m.r.n.w
	at := w.now + int64(m.rounds.Wait(w.clock(), m.leads && m.core.Alone()))
	if m.wakeAt == at {
		return
	}
	m.wakeAt = at
	w.after(time.Duration(at-w.now), func() {
		if m.wakeAt == at {
			m.receive(func() {
				m.ask(m.rounds.Begin(w.clock()))
				m.wakeAt = 1
				m.plan()
			})
		}
	})
}

// ask asks the loop that owns the log for a Report. While that loop hangs there is no answer.
func (m *member) ask(wanted bool) {
	w := m.r.n.w
	if !wanted {
		return
	}
	w.after(0, func() {
		m.r.deliver(func() {
			if role := m.r.core.Role(); role == core.RoleStopped {
				return
			}
			ev := &cluster.Event{Kind: cluster.EvReport, StoreOK: m.storeOK, Report: log.ReportOf(m.r.core, w.now, m.verdict, w.moment)}
			w.after(0, func() { m.receive(func() { m.step(ev) }) })
		})
	})
}

// moment is a time of the log as Cores read it.
func (w *simulation) moment(at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.Unix(0, at)
}

// step gives the Core an event and performs its effects.
func (m *member) step(ev *cluster.Event) {
	w := m.r.n.w
	if m.dead || ev.Kind == cluster.EvReport && !m.rounds.Answered(ev.Err) {
		return
	}
	w.stats.Cluster.Events++
	var fx cluster.Effects
	m.core.Step(w.clock().Add(m.ahead), ev, &fx)
	m.perform(&fx)
	if ev.Kind == cluster.EvReport {
		m.leads = ev.Report.Leads
		m.feeds = m.leads && slices.ContainsFunc(m.neighbors, func(nb *neighbor) bool { return nb.conn != nil })
	}
	m.ask(m.rounds.Stepped(w.clock(), &fx))
	m.plan()
}

// perform performs effects, and waits for nothing.
func (m *member) perform(fx *cluster.Effects) {
	w, r := m.r.n.w, m.r
	for i := range fx.Connect {
		m.expect(fx.Connect[i].Run)
	}
	for i := range fx.Send {
		if nb := m.neighbor(fx.Send[i].To); nb != nil && nb.conn != nil {
			nb.conn.message(nb.side, fx.Send[i].Message)
		}
	}
	for _, run := range fx.Forget {
		m.forget(run)
	}
	owner := func(f func()) { w.after(0, func() { r.deliver(f) }) }
	if fx.Reach != (state.Position{}) {
		owner(func() { r.step(&core.Event{Kind: core.EvReach, Pos: fx.Reach}) })
	}
	if fx.Read {
		owner(func() { r.step(&core.Event{Kind: core.EvReach}) })
	}
	if fx.StepDown {
		owner(func() {
			if fx.Epoch == r.core.Epoch() {
				r.stepDown()
			}
		})
	}
	if fx.Show {
		owner(func() { r.show(fx.Pace, uint32(fx.Promise.Milliseconds())) })
	}
	switch step := fx.Park; step {
	case cluster.Unpark:
		owner(func() {
			w.logf("node %d continues to lead", r.n.id)
			w.stats.Cluster.Aborted++
			m.parkedAt = 0
			r.step(&core.Event{Kind: core.EvUnpark})
		})
	case cluster.Park, cluster.Drain:
		owner(func() {
			w.logf("node %d parks", r.n.id)
			m.parkedAt = w.now
			w.stats.Parks++
			r.step(&core.Event{Kind: core.EvPark})
			m.parks = append(m.parks, step)
		})
	}
	if fx.Stand {
		owner(func() {
			if w.trace != nil {
				for _, o := range m.core.Members() {
					w.logf("node %d: %v (run %v) up %v, gone %v, leads %v, stands %v, epoch %d", r.n.id, o.Name, o.Run.ID[0], o.Up, o.Gone, o.Beat.Leads, o.Beat.Stands, o.Beat.Epoch)
				}
			}
			w.logf("node %d wants to lead", r.n.id)
			w.check.wants(m)
			m.stands, m.gone = true, fx.Gone
		})
	}
	m.performMore(fx)
}

func (m *member) performMore(fx *cluster.Effects) {
	w := m.r.n.w
	if fx.List {
		m.list(func(bool) {})
	}
	if fx.Seek {
		m.seek()
	}
	if run := fx.Find; !run.IsZero() {
		w.registry(m.r.n, false, func(list []cluster.Registration) []cluster.Registration { return list }, func(list []cluster.Registration, ok bool) {
			if i := indexOf(list, run); ok && i >= 0 {
				m.receive(func() { m.step(&cluster.Event{Kind: cluster.EvFound, Registration: list[i]}) })
			}
		})
	}
	if fx.Register {
		m.keepRegistered()
	}
	if fx.Exit {
		w.fail("H20: node %d ends, as if no other broker reached it", m.r.n.id)
	}
	if fx.Left && m.leaving {
		m.leave()
	}
	if fx.Handed {
		w.logf("node %d answers its operator: %v", m.r.n.id, fx.HandErr)
	}
}

// seek tells the Core of registered runs.
func (m *member) seek() {
	w := m.r.n.w
	w.listSlow(func() {
		w.registry(m.r.n, false, func(list []cluster.Registration) []cluster.Registration { return list }, func(list []cluster.Registration, ok bool) {
			for i := range list {
				if ok {
					m.receive(func() { m.step(&cluster.Event{Kind: cluster.EvFound, Registration: list[i]}) })
				}
			}
		})
	})
}

// keepRegistered looks whether the registration is there, and stores it again if it is not.
func (m *member) keepRegistered() {
	w := m.r.n.w
	w.registry(m.r.n, false, func(list []cluster.Registration) []cluster.Registration { return list }, func(list []cluster.Registration, ok bool) {
		switch {
		case !ok:
			w.after(w.units(time.Second), func() { m.receive(m.keepRegistered) })
		case indexOf(list, m.self.Run) < 0:
			w.stats.Cluster.Again++
			m.receive(m.register)
			m.seek() // a broker that has started meanwhile did not find this one
		}
	})
}

// owned does what the owner of the log does after each event: it stands if it can, and answers for a
// leader that is parked.
func (m *member) owned() {
	if m == nil || m.dead {
		return
	}
	r := m.r
	role := r.core.Role()
	switch {
	case !m.stands:
	case role == core.RoleLeader:
		m.stood(nil)
	case r.core.CanStand():
		m.stands = false
		r.standNow(m.gone)
	}
	if len(m.parks) > 0 {
		m.parks = slices.DeleteFunc(m.parks, func(step cluster.ParkStep) bool {
			switch {
			case !r.core.Parked():
			case step == cluster.Drain && r.core.InFlight() > 0:
				return false
			default:
				ev := &cluster.Event{Kind: cluster.EvParked, Report: log.ReportOf(r.core, r.n.w.now, m.verdict, r.n.w.moment)}
				r.n.w.after(0, func() { m.receive(func() { m.step(ev) }) })
			}
			return true
		})
	}
}

// stood tells the outcome of an attempt to lead.
func (m *member) stood(err error) {
	m.stands = false
	m.r.n.w.after(0, func() { m.receive(func() { m.step(&cluster.Event{Kind: cluster.EvStood, Err: err}) }) })
}

// role tells the Core that the log has begun or ended to lead.
func (m *member) role(e core.Effect) {
	if m == nil {
		return
	}
	switch {
	case e.Role == core.RoleLeader:
		m.stood(nil)
	case e.Err == core.ErrOvertaken:
		m.stood(e.Err)
		return
	case e.Role != core.RoleFenced:
		return
	}
	m.r.n.w.after(0, func() { m.receive(func() { m.ask(m.rounds.Turned(m.r.n.w.clock())) }) })
}

// answered notes the outcome of a request to the store.
func (m *member) answered(o core.Outcome) {
	if m == nil {
		return
	}
	if m.storeOK = o != core.OutcomeNoVerdict && o != core.OutcomeRefused && o != core.OutcomeConflict; m.storeOK {
		m.verdict = m.r.n.w.now
	}
}

// feed gives a committed slot to the other brokers.
func (m *member) feed(key string, body []byte) {
	for _, nb := range m.neighbors {
		if m.feeds && nb.conn != nil {
			nb.conn.feed(nb.side, key, body)
		}
	}
}

// terminate asks the process to end.
func (m *member) terminate() {
	w := m.r.n.w
	m.leaving = true
	m.receive(func() { m.step(&cluster.Event{Kind: cluster.EvLeave}) })
	w.after(w.units(cluster.Designed.HandOver), func() { m.receive(m.leave) })
}

// leave ends the process.
func (m *member) leave() {
	n := m.r.n
	n.w.leaves(m)
	for _, nb := range m.neighbors {
		if nb.conn != nil {
			nb.conn.message(nb.side, cluster.Message{Kind: cluster.MsgGoodbye})
		}
	}
	n.w.registry(n, true, func(list []cluster.Registration) []cluster.Registration {
		return slices.DeleteFunc(list, func(r cluster.Registration) bool { return r.Run == m.self.Run })
	}, func([]cluster.Registration, bool) {})
	m.clean = true
	n.kill("ends")
}

// ends is the end of the process.
func (m *member) ends() {
	if m != nil {
		m.dead = true
		m.r.n.w.net.died(m, m.r.n.power)
	}
}

// halt stops the process. What it hears meanwhile waits.
func (m *member) halt() {
	w := m.r.n.w
	m.stopped, m.r.paused = true, true
	for _, o := range w.nodes {
		if o != m.r.n {
			w.net.silent(m.r.n.id, o.id, func() bool { return m.stopped && !m.dead })
		}
	}
}

// resumes continues the process.
func (m *member) resumes() {
	if m == nil || !m.stopped {
		return
	}
	m.stopped = false
	inbox := m.inbox
	m.inbox = nil
	for _, f := range inbox {
		m.receive(f)
	}
}

// name is the name and the address of a machine.
func (n *node) name() string { return string(rune('a' + n.id)) }

// sees reports whether a member knows another run that may lead.
func (m *member) sees(run cluster.Run) bool {
	return slices.ContainsFunc(m.core.Members(), func(o cluster.Member) bool { return o.Run == run })
}
