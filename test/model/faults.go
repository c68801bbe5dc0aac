package model

import (
	"slices"
	"strings"
	"time"
)

// faultKinds are the faults of each mode, more often those that are named twice.
var faultKinds = map[Mode][]string{
	Calm: {
		"kill", "power", "pause", "pause", "suspend", "hang", "cut", "oneway", "reject", "island", "store", "offline", "term",
		"term", "restart", "unregister", "slow", "list", "leave", "force",
	},
	Sleepy: {
		"kill", "power", "pause", "pause", "suspend", "hang", "cut", "oneway", "reject", "island", "store", "term",
		"term", "restart", "unregister", "slow", "force",
	},
	Loopback: {"kill", "power", "pause", "pause", "suspend", "hang", "store", "term", "restart"},
}

// fault makes one fault and returns how long it lasts.
func (w *world) fault() time.Duration {
	kinds := faultKinds[w.cfg.Mode]
	if w.cfg.Mode == Chaos {
		kinds = faultKinds[Sleepy]
	}
	if w.cfg.Faults != "" {
		kinds = strings.Split(w.cfg.Faults, ",")
	}
	var up []*host
	var leader *host
	for _, h := range w.hosts {
		if h.p != nil {
			up = append(up, h)
			if h.p.leads != nil && leader == nil {
				leader = h
			}
		}
	}
	if len(up) == 0 {
		return 0
	}
	kind, h := pick(w, kinds...), pick(w, up...)
	if leader != nil && w.chance(0.6) {
		h = leader
	}
	d := pick(w, 300*ms, 900*ms, 1400*ms, 2500*ms, 5000*ms, 12*time.Second, 40*time.Second)
	switch w.cfg.Mode {
	case Sleepy:
		d = w.power(2, 4.2)
	case Chaos:
		d = w.power(2, 4.7)
	}
	w.stat.Faults++
	w.logf("fault: %s, %v, leader %v, %v", kind, h, h == leader, d)
	d = w.apply(kind, h, d)
	w.disturb(d)
	w.faultTil = max(w.faultTil, w.now+d)
	return d
}

// excuse allows that the broker of a host is deposed until d is over, and a little longer.
func (h *host) excuse(d time.Duration) {
	h.excused = max(h.excused, h.w.now+d+4*time.Second)
}

func (w *world) apply(kind string, h *host, d time.Duration) time.Duration {
	switch kind {
	case "kill":
		h.exit(false, false)
		w.at(pick(w, 100*ms, 1000*ms, 5000*ms, 20000*ms), h.start)
		return time.Second
	case "power":
		h.exit(false, true)
		again := pick(w, 3*time.Second, 20*time.Second, 60*time.Second)
		w.disturb(again)
		w.at(again, h.start)
		return 3 * time.Second
	case "restart":
		h.exit(false, false)
		w.at(50*ms, h.start)
		return 500 * ms
	case "pause", "suspend":
		h.stop(d, kind == "suspend")
	case "hang":
		if w.cfg.Mode == Calm {
			d = max(d, 12*time.Second)
		}
		h.excuse(d)
		h.hungTill = w.now + d
		w.at(d+1, h.wake)
	case "store":
		h.excuse(d)
		h.cutTill = w.now + d
	case "slow":
		h.excuse(d)
		h.slow, h.slowTill = pick(w, 5, 20), w.now+d
	case "list":
		w.slowTil = w.now + d
	case "offline":
		h.excuse(d)
		h.cutTill, h.offlineTill = w.now+d, w.now+d
		w.cut("island", h, d)
	case "cut", "oneway", "reject", "island":
		w.cut(kind, h, d)
	case "term":
		h.terminate(true, func() { w.at(pick(w, 100*ms, 3000*ms), h.start) })
		return 3 * time.Second
	case "leave":
		if h.p.leads == nil {
			return w.leave(h, d)
		}
	case "force":
		h.p.forced = h.p.leads == nil
	case "unregister":
		clear(w.bucket.objects[registrationKind])
	default:
		w.violate("fault %q is not known", kind)
	}
	return d
}

// stop stops the process for d. suspend: the monotonic clock of its machine stands still.
func (h *host) stop(d time.Duration, suspend bool) {
	w := h.w
	if suspend {
		h.excuse(2 * d) // its connections come back later
	} else if d >= w.times.silent-w.times.beat-100*ms {
		h.excuse(d)
	}
	h.pausedTill = max(h.pausedTill, w.now+d+1) // until wake
	if suspend {
		h.suspendTil = max(h.suspendTil, w.now+d+1)
	}
	w.at(d+1, func() {
		if suspend {
			h.suspended += d
			for i := range w.hosts { // what was sent meanwhile is sent again later
				w.fifo[i][h.i] = max(w.fifo[i][h.i], w.now+w.between(0, min(d, 3*time.Second)))
			}
		}
		h.wake()
	})
}

// wake lets a process receive all that came while it was stopped.
func (h *host) wake() {
	if h.p == nil || !h.running() {
		return
	}
	list, p := h.inbox, h.p
	h.inbox = nil
	for _, f := range list {
		p.after(0, f)
	}
}

// cut ends links of a host: to one other broker, in one direction, by refusal, or to all others.
func (w *world) cut(kind string, h *host, d time.Duration) {
	if len(w.hosts) == 1 {
		return
	}
	others := slices.DeleteFunc(slices.Clone(w.hosts), func(o *host) bool { return o == h })
	if kind != "island" {
		others = []*host{pick(w, others...)}
	}
	var pairs [][2]int
	for _, o := range others {
		pairs = append(pairs, [2]int{h.i, o.i}, [2]int{o.i, h.i})
	}
	if kind == "oneway" {
		pairs = [][2]int{pick(w, pairs...)}
	}
	for _, p := range pairs {
		w.reach[p[0]][p[1]] = false
		w.refuses[p[0]][p[1]] = kind == "reject"
	}
	w.at(d, func() {
		for _, p := range pairs {
			w.reach[p[0]][p[1]], w.refuses[p[0]][p[1]] = true, false
		}
	})
}

// terminate sends SIGTERM: the process hands over, or ends after five seconds.
func (h *host) terminate(linked bool, then func()) {
	w, p := h.w, h.p
	w.logf("%v gets SIGTERM", h)
	p.quitting = true
	began := w.now
	var wait func()
	wait = func() {
		switch {
		case h.p != p:
		case p.leads != nil && (w.now-began < 5*time.Second || w.now-began < 7*time.Second && !p.leads.endsBy(p)):
			w.at(100*ms, wait)
		default:
			if linked {
				w.checkPlanned(h)
			}
			h.exit(true, false)
			then()
		}
	}
	w.at(100*ms, wait)
}

// checkPlanned: a leader that gets SIGTERM hands over if a standby can lead.
func (w *world) checkPlanned(h *host) {
	if w.cfg.Mode != Calm || h.p.leads == nil || h.p.leads.epoch != w.bucket.end.epoch || !h.able() || w.now < h.slowTill || w.now-h.p.leads.beganAt < 10*time.Second || w.now < w.slowTil {
		return
	}
	for _, o := range w.hosts {
		if o != h && o.able() && w.now >= o.slowTill && w.now-o.p.born > 30*time.Second && w.reach[h.i][o.i] && w.reach[o.i][h.i] {
			w.violate("%s", notPlanned)
		}
	}
}

// leave cuts a host off and ends its process cleanly: its registration is deleted, and no other
// broker hears that.
func (w *world) leave(h *host, d time.Duration) time.Duration {
	w.cut("island", h, 12*time.Second)
	w.at(5*time.Second, func() {
		if h.p != nil {
			h.terminate(false, func() {}) // until the end of all faults
		}
	})
	w.disturb(60 * time.Second)
	return 14 * time.Second
}
