package model

import (
	"fmt"
	"slices"
	"time"
)

const (
	watchEvery  = 100 * ms
	leaderLimit = 15 * time.Second
	staleLimit  = 3500 * ms
	quietAfter  = 60 * time.Second
)

// able reports whether no fault stops the broker of a host.
func (h *host) able() bool {
	w := h.w
	return h.p != nil && h.running() && w.now >= h.cutTill
}

func (h *host) running() bool { return h.w.now >= h.pausedTill && h.w.now >= h.hungTill }

// watch checks the invariants of calm runs.
func (w *world) watch() {
	w.at(watchEvery, w.watch)
	if w.cfg.Mode != Calm {
		return
	}
	led, able := w.now < w.slowTil, false
	for _, h := range w.hosts {
		if h.p == nil {
			able = able || h.left
			continue
		}
		able = able || h.able() && w.now-h.p.born > 3*time.Second
		l := h.p.leads
		if l == nil {
			continue
		}
		if l.epoch == w.bucket.end.epoch && (h.able() || h.running() && l.oldest() == 0) { // an idle leader does not notice that its store fails
			led = true
		}
		if h.able() {
			h.p.readClocks()
			w.checkReads(h.p)
			w.checkAnswers(h.p)
		}
	}
	if led || !able {
		w.ledAt = w.now
	}
	// A candidate waits for twice what the newest slot promises.
	if w.now-w.ledAt > leaderLimit+2*max(0, w.bucket.promise-w.times.alive) {
		w.violate("%s", noLeader)
	}
}

// checkReads: a leader answers read=latest unless it is in doubt. A leader whose peers are all gone
// reads the next slot each minute (R11), which the model leaves out.
func (w *world) checkReads(p *process) {
	if p.inDoubt() || !slices.ContainsFunc(p.peers, func(q peer) bool { return q.there() && q.listed }) {
		return
	}
	for i := len(w.acked) - 1; i >= max(0, len(w.acked)-30); i-- {
		if a := w.acked[i]; a.epoch > p.leads.epoch.n && a.at < w.now-staleLimit {
			w.violate("%s", stale)
		}
	}
}

func (w *world) checkAnswers(p *process) {
	l := p.leads
	if w.now > w.faultTil+leaderLimit && l.epoch == w.bucket.end.epoch && len(l.queue) > 0 && w.now-w.calls[l.queue[0]].made > 10*time.Second && w.now-l.beganAt > 10*time.Second {
		w.violate("%s", noAnswer)
	}
}

// checkDeposed: a SEAL ends an epoch now.
func (w *world) checkDeposed(e epoch, o *object) {
	for _, h := range w.hosts {
		p := h.p
		if p == nil || p.leads == nil || p.leads.epoch != e || h.i == o.by.folder {
			continue
		}
		switch {
		case w.cfg.Mode == Loopback:
			by := w.hosts[o.by.folder]
			if by.deposals++; by.deposals > 1 {
				w.violate("%s", pingPong)
			}
		case o.why != byRule && o.why != afterEnd:
			w.stat.Forced++
		case w.cfg.Mode != Calm || w.healed || w.now <= h.excused:
			w.stat.Right++
		case p.peers[o.by.folder].id != o.by:
			w.stat.Newcomer++ // the leader has never heard of it: neither can know
		default:
			w.violate("%s", needless)
		}
	}
}

// checkLead: a process begins to lead.
func (w *world) checkLead(p *process, e epoch) {
	w.stat.Leads++
	w.leads = append(w.leads, w.now)
	t, ok := w.bucket.truth[position{epoch: e}]
	switch {
	case !ok:
		w.violate("%s", offChain)
	case t != p.state:
		w.violate("%s", wrongState)
	}
}

// disturb allows requests to the bucket for d and some time after it.
func (w *world) disturb(d time.Duration) { w.quietAt = max(w.quietAt, w.now+d+quietAfter) }

// checkIdle: without calls and faults nothing is sent to the bucket.
func (w *world) checkIdle(p *process, r request) {
	if w.cfg.Mode == Calm && w.now > w.quietAt {
		w.logf("%v sends request %d for %v", p.h, r.op, show{r.name, r.obj})
		w.violate("%s", idleRequest)
	}
}

// checkEnd: all faults ended a while ago.
func (w *world) checkEnd(end time.Duration) {
	if w.cfg.Mode == Loopback {
		return
	}
	led := false
	for _, h := range w.hosts {
		led = led || h.p != nil && h.p.leads != nil && h.p.leads.epoch == w.bucket.end.epoch
	}
	if !led {
		w.violate("%s", noLeaderAtEnd)
	}
	late := 0
	for _, t := range w.leads {
		if t > end-10*time.Second {
			late++
		}
	}
	if late > 3 {
		w.violate("%s", unrest)
	}
	for i := range w.calls {
		if c := &w.calls[i]; i > 0 && c.state == openCall && w.cfg.Mode == Calm && c.made < end-30*time.Second {
			w.violate("%s", unanswered)
		}
	}
}

// show prints an object for a trace.
type show struct {
	n name
	o *object
}

func (s show) String() string {
	switch {
	case s.n.kind == snapshotKind:
		return fmt.Sprintf("snapshot at %v", s.n.at)
	case s.n.kind == registrationKind:
		return fmt.Sprintf("registration of broker %d, run %d", s.n.at.slot, s.n.run)
	case s.o == nil:
		return fmt.Sprintf("slot %v", s.n.at)
	case s.o.seal:
		return fmt.Sprintf("SEAL in slot %v by broker %d", s.n.at, s.o.by.folder)
	default:
		return fmt.Sprintf("DATA in slot %v, calls %v, next in %v", s.n.at, s.o.calls, s.o.next)
	}
}

func (p position) String() string { return fmt.Sprintf("%v/%d", p.epoch, p.slot) }

func (e epoch) String() string { return fmt.Sprintf("%d-%d", e.n, e.nonce) }
