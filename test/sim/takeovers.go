package sim

import (
	"bytes"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// ClusterCounts counts what brokers with a cluster.Core do.
type ClusterCounts struct {
	Runs, Brokers                int
	Events, Requests             int // of Cores; to the store
	Takeovers, Needed, Newcomers int // epochs that ended; by a fault; by a broker that the leader cannot know
	Handed, Aborted              int // hand-overs
	Raised                       int // the format level
	Probes, Lists, Sessions      int
	Again                        int // registrations that were lost and stored again
	Kills, Stops, Cuts, Stores   int // faults: ends of a process, pauses and hangs, of links, of the store
	Calls, Forwarded             int // of clients that call any broker; attempts
	Repeated, Refused            int // attempts after others; calls
	Planned, Others              int // SIGTERM and requests of operators
}

func (n *ClusterCounts) count(kind string) {
	switch kind {
	case "kill", "power", "restart":
		n.Kills++
	case "pause", "return", "hang":
		n.Stops++
	case "cut", "oneway", "reject", "island", "flaky":
		n.Cuts++
	case "store", "slowstore", "offline", "list":
		n.Stores++
	case "term", "handover", "takeover":
		n.Planned++
	default:
		n.Others++
	}
}

// deposed checks A2 when a SEAL comes on the chain: the leader of its epoch was stopped by a fault, or
// has handed over.
func (c *checker) deposed(h *record.Head) {
	w := c.w
	if !w.clustered() || h.Epoch == 0 {
		return
	}
	n := &w.stats.Cluster
	n.Takeovers++
	by := c.sealers[h.NextNonce]
	to := w.nodeOf(by)
	lone := to.run != nil && to.run.member.self.Run == by && to.run.member.lone
	if !lone {
		w.outage.takeovers++
	}
	for _, o := range w.nodes {
		r := o.run
		if r == nil || r.core.Role() != core.RoleLeader || r.core.State().Nonce != h.Nonce || by.Node == o.identity().Node {
			continue
		}
		switch {
		case r.core.Parked():
			n.Handed++
		case w.now <= o.excused || !w.cfg.Cluster.Exact:
			n.Needed++
		case lone:
			n.Newcomers++ // it found no registration: both started at the same time, or it was lost
		case !r.member.sees(by) && (!w.net.passes(o.id, to.id) || !w.net.passes(to.id, o.id) || w.outage.lost != 0 && w.cfg.Cluster.Old):
			w.outage.takeovers--
			n.Newcomers++ // the leader has never heard of it: neither can know
		default:
			w.fail("A2: node %d ends epoch %d of node %d, which nothing stops", to.id, h.Epoch, o.id)
		}
	}
}

// wants checks A2 for attempts, most of which find a slot and end: no broker wants to lead beside a
// leader that it hears.
func (c *checker) wants(m *member) {
	w, r := c.w, m.r
	if r.core.State() == nil || !w.cfg.Cluster.Exact || w.calm {
		return // without a state it has begun to load again since
	}
	switch w.outage.kind {
	case "cut", "oneway", "reject", "island", "flaky", "offline", "handover", "term": // a leader may continue meanwhile
		return
	}
	for _, n := range w.nodes {
		if n == r.n || !n.able() || n.run.member.stopped || !c.leads(n.run) || n.run.core.Parked() || w.now <= n.excused || n.run.core.State().Nonce != r.core.State().Nonce {
			continue
		}
		nb, long := m.neighbor(n.run.member.self.Run), int64(w.units(5*time.Second))
		hears := nb != nil && nb.conn != nil && !nb.conn.ends[0].closed && !nb.conn.ends[1].closed && w.now-nb.conn.began > long
		if hears && w.now-n.run.ledAt > long {
			w.fail("A2: node %d wants to lead beside node %d, which it hears", r.n.id, n.id)
		}
	}
}

// oldLog makes a log at a lower format level than new ones have.
func (w *simulation) oldLog() {
	id, nonce := record.ID{1, 0x5e}, record.ID{2, 0x5e}
	w.store.put(core.MetaKey, core.EncodeMeta(id))
	h := record.Head{Kind: record.KindSeal, Cluster: id, Nonce: id, NextEpoch: 1, NextNonce: nonce}
	body, err := record.EncodeObject(&h, state.EncodeRecords(nil, []state.Record{state.RaiseTo(state.LevelStandby - 1), {Kind: state.LeaderHint}}), nil, nil)
	if err != nil {
		w.fail("simulator: %v", err)
		return
	}
	w.store.put(state.SlotKey(0, 0, id, 0), body)
}

// raised checks A9 when the format level is raised: all brokers read it that the leader has a link to, or
// found at its start.
func (c *checker) raised(h *record.Head, recs []state.Record) {
	w := c.w
	if !w.clustered() || h.Epoch == 0 {
		return
	}
	for i := range recs {
		if recs[i].Kind != state.FormatLevel {
			continue
		}
		w.stats.Cluster.Raised++
		for _, n := range w.nodes {
			for _, o := range w.nodes {
				if n.run == nil || o.run == nil || n == o || n.run.core.Role() != core.RoleLeader || n.run.core.State().Nonce != h.Nonce || o.run.member.self.LevelMax >= recs[i].Level {
					continue
				}
				if m := n.run.member; o.run.born < n.run.born && (w.outage.lost == 0 || m.sees(o.run.member.self.Run)) || m.linkedFor(o, w.units(time.Second)) {
					w.fail("A9: node %d raises the format level to %d, which node %d does not read", n.id, recs[i].Level, o.id)
				}
			}
		}
	}
}

// handed checks A7 when a broker begins to lead after a hand-over: the pause is a few requests, also if
// slots of a leader with a broken store arrive meanwhile.
func (c *checker) handed(r *run) {
	w := c.w
	o := &w.outage
	if !w.cfg.Cluster.Exact || w.calm || !slices.Contains([]string{"term", "handover", "store", "slowstore"}, o.kind) {
		return
	}
	for _, n := range w.nodes {
		if n.run == nil || n.run == r || n.run.member.parkedAt == 0 || n != o.node || n.run.member.parkedAt < o.began {
			continue
		}
		pause, most := time.Duration(w.now-n.run.member.parkedAt), 24*w.cfg.Latency+8*w.cfg.Cluster.Delay+w.units(200*time.Millisecond)
		if pause > most && r.n.able() {
			w.fail("A7: a hand-over of node %d to node %d took %v, at most %v", n.id, r.n.id, pause, most)
		}
		n.run.member.parkedAt = 0 // a later takeover is another one
	}
}

// handedUnknown checks A7: a hand-over of a leader that nothing else disturbs makes no call unknown.
func (c *checker) handedUnknown(r *run, f *core.Frozen) {
	o := &c.w.outage
	if ops, _ := f.Proposal.User.([]*op); len(ops) > 0 && c.w.cfg.Cluster.Exact && (o.kind == "handover" || r.member.leaving) && r.n == o.node && o.led && c.w.now > r.n.excused {
		c.w.fail("A7: node %d hands over, and the outcome of %d calls is unknown", r.n.id, len(ops))
	}
}

// phase checks A2 after a fault: one that stops the leader causes at most one takeover, another one
// none.
func (c *checker) phase() {
	w := c.w
	o, most := &w.outage, 0
	if !w.cfg.Cluster.Exact || o.kind == "" {
		return
	}
	switch o.kind {
	case "kill", "power", "restart", "pause", "hang", "store", "offline", "slowstore", "term", "handover":
		if o.led {
			most = 1
		}
	case "return": // with a slow store the successor may be too slow as well
		most = 2
	case "takeover":
		if most = 1; o.led {
			most = 2
		}
	}
	if o.due {
		most++
	}
	if o.takeovers > most {
		w.fail("A2: %d takeovers after one fault, %s of node %d (leader %v), at most %d", o.takeovers, o.kind, o.node.id, o.led, most)
	}
}

// warm checks A6: the state of a new leader is the fold of the chain.
func (c *checker) warm(r *run) {
	if s := r.core.State(); c.w.clustered() && s.Pos == c.fold.Pos && !bytes.Equal(state.EncodeMessage(s), state.EncodeMessage(c.fold)) {
		c.w.fail("A6: the state of node %d is not the fold of the chain when it begins to lead", r.n.id)
	}
}

// registered checks A11: a broker has its registration again soon after it has lost a link. Idle brokers
// make no requests, so it does not notice the loss before.
func (c *checker) registered() {
	w := c.w
	t := &w.cfg.Cluster.Times
	if w.outage.lost == 0 {
		return
	}
	for _, n := range w.nodes {
		if n.run == nil || !n.able() || w.now <= n.excused || n.run.core.Role() == core.RoleStarting || n.run.born > w.outage.lost || indexOf(w.registered, n.run.member.self.Run) >= 0 {
			continue
		}
		for _, nb := range n.run.member.neighbors {
			due := nb.lost + int64(t.Silent+w.units(10*time.Second))
			if nb.conn == nil && nb.linked && w.now > due && w.outage.lost < nb.lost {
				w.fail("A11: node %d has not stored its registration again", n.id)
			}
		}
	}
}

// linkedFor reports whether a member has had a link to a node for a while.
func (m *member) linkedFor(n *node, d time.Duration) bool {
	if n.run == nil {
		return false
	}
	nb := m.neighbor(n.run.member.self.Run)
	return nb != nil && nb.conn != nil && m.r.n.w.now-nb.conn.began > int64(d)
}

// readsInSession checks A4: a broker that has reached the position of a session shows all that was
// acknowledged to it, or shown, before.
func (w *simulation) readsInSession(s *session) {
	w.after(w.around(w.netRand, w.units(2*time.Second)), func() {
		w.readsInSession(s)
		r := w.nodes[w.netRand.IntN(len(w.nodes))].run
		if r == nil || r.paused || r.core.State() == nil || r.core.Role() == core.RoleStarting || w.outage.still {
			return
		}
		st := r.core.State()
		if st.Pos.Less(s.token) {
			return
		}
		if s.next == nil {
			s.next = map[partKey]int64{}
		}
		s.token = st.Pos
		for _, t := range st.Topics() {
			for i, p := range t.Partitions.All() {
				k := partKey{t.Name, uint32(i)}
				if p.Next < s.next[k] {
					w.fail("A4: node %d shows %d records of %v at %v, a client has seen %d", r.n.id, p.Next, k, st.Pos, s.next[k])
				}
				s.next[k] = p.Next
			}
		}
		w.stats.Cluster.Sessions++
	})
}
