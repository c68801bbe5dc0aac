package model

import (
	"time"
)

const (
	brokersMax = 5
	lengthOf   = 150 * time.Second
)

// Result is the outcome of a run. Violation is empty if every invariant held.
type Result struct {
	Violation string
	Stat      Stat
}

// Run executes one run.
func Run(cfg Config) Result {
	if cfg.Schedule != "" {
		return runSchedule(cfg)
	}
	w := newWorld(cfg)
	length := cfg.Length
	if length == 0 {
		length = lengthOf
		if cfg.Mode == Calm {
			length *= 2
		}
	}
	return w.play(length, w.faults)
}

func newWorld(cfg Config) *world {
	w := &world{cfg: cfg, rnd: newRand(cfg), live: map[*task]struct{}{}, bucket: newBucket(), times: designed, calls: make([]call, 1)}
	w.late, w.twice, w.keep = 3*time.Second, 0.02, 16
	if w.chance(0.3) {
		w.keep = 1
	}
	w.latency, w.link = pick(w, 5*ms, 30*ms, 100*ms), pick(w, ms, 20*ms, 40*ms)
	n := pick(w, 2, 3, 3, 4, 5)
	w.rate = pick(w, 0, 0, 1, 5)
	switch cfg.Mode {
	case Sleepy:
		n, w.rate, w.late, w.latency = 3, 8, 40*time.Second, pick(w, 5*ms, 30*ms)
		w.lost, w.twice = 0.06, 0.1
	case Chaos:
		w.drawTimes()
		w.latency, w.late, w.lost, w.twice = w.power(0.5, 3), w.power(3, 5), pick(w, 0, 0.03, 0.15), 0.1
	case Loopback:
		n = pick(w, 2, 3)
	}
	if cfg.Brokers > 0 {
		n = cfg.Brokers
	}
	for i := range n {
		h := &host{w: w, i: i, speed: 0.95 + 0.1*w.rnd.Float64()}
		if cfg.Mode == Chaos {
			h.speed = float64(w.power(-0.5, 0.5)) / float64(ms)
		}
		w.hosts = append(w.hosts, h)
		w.reach, w.refuses, w.fifo = append(w.reach, make([]bool, n)), append(w.refuses, make([]bool, n)), append(w.fifo, make([]time.Duration, n))
		for j := range n {
			w.reach[i][j] = cfg.Mode != Loopback
		}
	}
	return w
}

func (w *world) drawTimes() {
	t := &w.times
	for _, d := range []*time.Duration{&t.beat, &t.silent, &t.alive, &t.fast, &t.slow, &t.trouble, &t.parked, &t.request} {
		*d = time.Duration(float64(*d) * float64(w.power(-1.2, 1)) / float64(ms))
	}
}

// play starts all brokers, makes faults for a time, ends them, and waits.
func (w *world) play(length time.Duration, faults func()) (r Result) {
	defer func() {
		w.end()
		r.Stat = w.stat
		r.Stat.Runs = 1
		if v := recover(); v != nil {
			text, ok := v.(violation)
			if !ok {
				panic(v)
			}
			r.Violation = string(text)
			w.logf("VIOLATION: %s", text)
		}
	}()
	for i, h := range w.hosts {
		if w.cfg.Schedule != "" {
			w.at(time.Duration(i)*time.Second, h.start)
		} else {
			w.at(w.between(0, 3*time.Second), h.start)
		}
	}
	if w.cfg.Mode == Calm && w.cfg.Schedule == "" && len(w.hosts) > 2 && w.chance(0.15) {
		w.hosts[len(w.hosts)-1].dead = true
	}
	w.at(watchEvery, w.watch)
	w.at(500*ms, w.client)
	w.at(12*time.Second, faults)
	w.at(length, w.heal)
	end := length + 60*time.Second
	if w.cfg.Mode == Chaos {
		end += 2 * time.Minute // the old times still run
	}
	for w.step(end) {
		if w.stat.Events++; w.stat.Events > eventsMax {
			return r
		}
	}
	w.checkEnd(end)
	return r
}

// faults makes one fault after the other.
func (w *world) faults() {
	if w.healed {
		return
	}
	d := w.fault()
	gap := pick(w, 6*time.Second, 10*time.Second, 25*time.Second, 90*time.Second)
	switch w.cfg.Mode {
	case Calm, Loopback:
		if w.chance(0.1) {
			w.rate = pick(w, 0, 1, 5)
		}
	case Chaos:
		d, gap = 0, w.power(1.5, 4)
	default:
		d, gap = 0, w.between(500*ms, 6*time.Second)
	}
	w.at(d+gap, w.faults)
}

// heal ends all faults.
func (w *world) heal() {
	w.logf("end of all faults")
	w.healed, w.lost = true, 0
	if w.cfg.Mode == Chaos {
		w.times, w.latency = designed, 30*ms
	}
	w.disturb(0)
	for i, h := range w.hosts {
		h.pausedTill, h.hungTill, h.cutTill, h.slowTill = 0, 0, 0, 0
		if w.cfg.Mode == Chaos {
			h.speed = 1
			if h.p != nil {
				h.p.lastMono, h.p.lastWall = h.clocks()
			}
		}
		h.wake()
		h.start()
		for j := range w.hosts {
			w.reach[i][j], w.refuses[i][j] = w.cfg.Mode != Loopback, false
		}
	}
}

// end unwinds the coroutines.
func (w *world) end() {
	for t := range w.live {
		t.stop()
	}
}
