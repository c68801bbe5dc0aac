package model

import "time"

// schedules are interleavings that random faults rarely meet. Each begins after 12 s, when broker 0
// leads and the others follow.
var schedules = map[string]struct {
	brokers int
	begin   func(w *world)
}{
	// Broker 1 stands at slot P. Its SEAL takes 30 s. Meanwhile the leader fills P and collects it.
	"seal-in-collected-slot": {2, func(w *world) {
		w.garbage = true
		w.holdSeals(1, 30*time.Second)
		w.cut("island", w.hosts[1], time.Hour)
		w.hosts[1].p.forced = true
	}},
	// The same, and then broker 2, which slept, follows the late SEAL and has forgotten the epoch before.
	"second-seal-after-it": {3, func(w *world) {
		w.garbage, w.keep = true, 0
		w.holdSeals(1, 30*time.Second)
		w.cut("island", w.hosts[1], time.Hour)
		w.cut("island", w.hosts[2], time.Hour)
		w.hosts[1].p.forced = true
		w.hosts[2].stop(33*time.Second, false)
		w.at(33*time.Second, func() { w.hosts[2].p.forced = true })
	}},
	// Broker 0 hands over. The SEAL of broker 1 is late, broker 0 aborts, and the SEAL wins after all.
	"seal-after-abort": {2, func(w *world) {
		var late func()
		w.hold = func(p *process, r request) time.Duration {
			switch {
			case r.op != put || r.name.kind != slotKind:
			case r.obj.seal && late == nil:
				late = func() { w.effect(r) }
				return time.Hour
			case !r.obj.seal && late != nil && w.stat.Aborts > 0:
				late()
				late = func() {}
			}
			return 0
		}
		w.hosts[0].terminate(false, func() {})
	}},
	// Broker 0 ends while no broker hears it.
	"end-of-an-unseen-leader": {2, func(w *world) {
		w.cut("island", w.hosts[0], time.Hour)
		w.at(6*time.Second, func() {
			w.hosts[0].terminate(false, func() {
				w.at(2*time.Second, func() {
					if w.hosts[1].p.leads == nil {
						w.violate("%s", lateAfterEnd)
					}
				})
			})
		})
	}},
}

// holdSeals delays every SEAL of a broker.
func (w *world) holdSeals(folder int, d time.Duration) {
	w.hold = func(p *process, r request) time.Duration {
		if p.h.i == folder && r.op == put && r.name.kind == slotKind && r.obj.seal && w.now < 20*time.Second {
			return d
		}
		return 0
	}
}

func runSchedule(cfg Config) Result {
	s := schedules[cfg.Schedule]
	cfg.Mode, cfg.Brokers = Sleepy, s.brokers
	w := newWorld(cfg)
	w.lost, w.twice, w.keep, w.latency, w.link, w.calm = 0, 0, 16, 30*ms, 20*ms, true
	return w.play(5*time.Minute, func() {
		if w.hosts[0].p.leads != nil {
			s.begin(w)
		}
	})
}
