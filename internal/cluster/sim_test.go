package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/record"
)

// world runs the Cores of several brokers in virtual time, on a log without content. test/model checks
// the rules themselves with many more faults; this checks that the Core follows them.
type world struct {
	rnd     *rand.Rand
	now     time.Duration
	queue   []planned
	seq     int
	brokers []*broker
	cut     map[[2]int]bool // messages from the first to the second are lost
	led     time.Duration   // when the log was led last by an able broker
	trace   []string

	epoch   uint32 // of the end of the log
	nonce   record.ID
	slots   uint64 // in it
	sealer  Run
	promise time.Duration
}

type planned struct {
	at  time.Duration
	seq int
	f   func()
}

type broker struct {
	w       *world
	i       int
	node    record.ID
	run     Run
	core    *Core // nil: it does not run
	waiting []Event
	knows   map[Run]time.Duration
	paused  time.Duration // it is stopped until then
	noStore time.Duration // the store does not answer it until then
	excused time.Duration // it may be deposed until then
	leaves  bool

	report Report // what its log knows
	leads  bool
	parked bool
	pace   time.Duration
	says   time.Duration // promise of its slots
	wrote  time.Duration
}

func (w *world) at(d time.Duration, f func()) {
	w.seq++
	w.queue = append(w.queue, planned{w.now + d, w.seq, f})
}

// next runs the next event.
func (w *world) next() {
	first := 0
	for i := range w.queue {
		a, b := &w.queue[i], &w.queue[first]
		if a.at < b.at || a.at == b.at && a.seq < b.seq {
			first = i
		}
	}
	e := w.queue[first]
	w.queue[first] = w.queue[len(w.queue)-1]
	w.queue = w.queue[:len(w.queue)-1]
	w.now = e.at
	e.f()
}

func (w *world) logf(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%8.3f ", w.now.Seconds())+fmt.Sprintf(format, args...))
}

func (w *world) latency() time.Duration {
	return 5*time.Millisecond + time.Duration(w.rnd.Int64N(int64(40*time.Millisecond)))
}

func (w *world) id() record.ID {
	w.seq++
	return record.ID{1, byte(w.seq), byte(w.seq >> 8), byte(w.seq >> 16)}
}

// time is the clock that Cores get.
func (w *world) time() time.Time { return time.UnixMicro(1e15).Add(w.now) }

func (b *broker) registration() Registration {
	return Registration{Run: b.run, Name: fmt.Sprint(b.i), Addresses: []string{"host:1"}, LevelMax: 9}
}

func (b *broker) start() {
	w := b.w
	if b.core != nil {
		return
	}
	b.run = Run{Node: b.node, ID: w.id()}
	b.core = New(Config{Self: b.registration()})
	b.report, b.leads, b.parked, b.pace, b.leaves = Report{}, false, false, 0, false
	b.waiting, b.knows = nil, map[Run]time.Duration{}
	w.logf("%d starts", b.i)
	core := b.core
	w.at(w.latency(), func() {
		var list []Registration
		for _, o := range w.brokers {
			if o.run != (Run{}) {
				list = append(list, o.registration())
				if o != b && o.core != nil {
					b.link(o)
					o.link(b)
				}
			}
		}
		b.step(Event{Kind: EvListed, Listed: list})
	})
	b.tick(core)
}

func (b *broker) link(o *broker) {
	if !b.w.cut[[2]int{o.i, b.i}] && !b.w.cut[[2]int{b.i, o.i}] {
		if _, known := b.knows[o.run]; !known {
			b.knows[o.run] = b.w.now
		}
		b.step(Event{Kind: EvLinked, From: o.run, Registration: o.registration()})
	}
}

// load reads the log to its end.
func (b *broker) load() {
	w := b.w
	if w.now < b.noStore || b.leads {
		return
	}
	pos := state.Position{Epoch: w.epoch, Slot: w.slots}
	if b.report.Loaded && b.report.Pos == pos && b.report.Nonce == w.nonce {
		return
	}
	b.report.Loaded, b.report.Pos, b.report.Nonce, b.report.Sealer, b.report.Promise = true, pos, w.nonce, w.sealer, w.promise
	b.report.Life = w.time()
}

// tick is a round of the broker's loop.
func (b *broker) tick(core *Core) {
	w := b.w
	if b.core != core {
		return
	}
	w.at(tick, func() { b.tick(core) })
	if w.now < b.paused {
		return
	}
	if !b.report.Loaded {
		b.load()
	}
	for _, ev := range b.waiting {
		b.step(ev)
	}
	b.waiting = nil
	if b.core == nil {
		return
	}
	if b.leads && !b.parked && b.report.InFlight == 0 && (b.pace > 0 && w.now-b.wrote >= b.pace || w.rnd.IntN(50) == 0) {
		b.append()
	}
	r := b.report
	r.Leads = b.leads
	if r.InFlight > 0 {
		r.Oldest = w.now - b.wrote
	}
	b.step(Event{Kind: EvReport, Report: r, StoreOK: w.now >= b.noStore})
}

// append commits a slot, or finds that another broker has sealed the epoch.
func (b *broker) append() {
	w := b.w
	b.wrote, b.report.InFlight = w.now, 1
	asked, core := w.time(), b.core
	var try func()
	try = func() {
		switch {
		case b.core != core || !b.leads:
		case w.now < b.noStore || w.now < b.paused:
			w.at(100*time.Millisecond, try)
		case w.nonce != b.report.Nonce:
			b.fenced()
		default:
			w.slots++
			w.promise = b.says
			b.report.InFlight, b.report.Pos.Slot, b.report.Looked, b.report.Life, b.report.Verdict = 0, w.slots, asked, w.time(), w.time()
			b.wrote = w.now
		}
	}
	w.at(w.latency(), try)
}

func (b *broker) fenced() {
	b.leads, b.parked, b.report.InFlight, b.pace = false, false, 0, 0
	b.w.logf("%d does not lead any more", b.i)
	b.load()
}

func (b *broker) step(ev Event) {
	w := b.w
	if b.core == nil {
		return
	}
	if w.now < b.paused {
		b.waiting = append(b.waiting, ev)
		return
	}
	var fx Effects
	b.core.Step(w.time(), &ev, &fx)
	for _, e := range fx.Send {
		for _, o := range w.brokers {
			if o.run == e.To && o.core != nil && !w.cut[[2]int{b.i, o.i}] {
				core, from := o.core, b.run
				w.at(w.latency()/4, func() {
					if p := core.find(from); o.core == core && p != nil && p.up {
						o.step(Event{Kind: EvMessage, From: from, Message: e.Message})
					}
				})
			}
		}
	}
	core := b.core
	if fx.Reach != (state.Position{}) {
		w.at(w.latency(), b.load)
	}
	if fx.StepDown && b.leads {
		b.fenced()
	}
	if fx.Show {
		b.pace, b.says = fx.Pace, fx.Promise
	}
	if fx.Stand {
		pos, nonce := b.report.Pos, b.report.Nonce
		w.at(2*w.latency(), func() { b.stand(core, pos, nonce) })
	}
	switch fx.Park {
	case Unpark:
		b.parked = false
	case Park, Drain:
		b.parked = true
		b.park(core, fx.Park == Drain)
	}
	if fx.Left && b.leaves {
		b.end(true)
	}
}

func (b *broker) park(core *Core, drain bool) {
	if b.core != core || !b.parked {
		return
	}
	if drain && b.report.InFlight > 0 {
		b.w.at(20*time.Millisecond, func() { b.park(core, drain) })
		return
	}
	r := b.report
	r.Leads = b.leads
	b.step(Event{Kind: EvParked, Report: r})
}

// stand ends the epoch if this broker has all of it.
func (b *broker) stand(core *Core, pos state.Position, nonce record.ID) {
	w := b.w
	switch {
	case b.core != core:
	case w.now < b.noStore || w.now < b.paused:
		w.at(200*time.Millisecond, func() { b.stand(core, pos, nonce) })
	case w.nonce != nonce || w.slots != pos.Slot:
		b.load()
		b.step(Event{Kind: EvStood, Err: errors.New("overtaken")})
	default:
		b.judge()
		w.logf("%d seals epoch %d", b.i, w.epoch)
		w.epoch, w.nonce, w.slots, w.sealer, w.promise = w.epoch+1, w.id(), 0, b.run, 0
		b.load()
		w.at(w.latency(), func() {
			if b.core == core && w.nonce == b.report.Nonce {
				b.leads, b.wrote, b.pace = true, w.now, 0
				b.report.Looked, b.report.Verdict = w.time(), w.time()
			}
			b.step(Event{Kind: EvStood})
		})
	}
}

// judge checks that the broker that is deposed now gave a reason.
func (b *broker) judge() {
	w := b.w
	for _, o := range w.brokers {
		if o == b || o.core == nil || !o.leads || o.report.Nonce != w.nonce || w.now <= o.excused || o.parked {
			continue
		}
		// A leader that does not know of a broker does not show it life, and neither can know.
		if since, known := o.knows[b.run]; known && w.now-since > 4*time.Second {
			panic(fmt.Sprintf("a needless takeover: %d deposes %d", b.i, o.i))
		}
	}
}

// end ends the process: cleanly, or by kill -9.
func (b *broker) end(clean bool) {
	w := b.w
	if b.core == nil {
		return
	}
	w.logf("%d ends, clean %v, led %v", b.i, clean, b.leads)
	run := b.run
	b.core, b.leads, b.paused = nil, false, 0
	if clean {
		b.run = Run{}
	}
	for _, o := range w.brokers {
		if o != b && !w.cut[[2]int{b.i, o.i}] && !w.cut[[2]int{o.i, b.i}] {
			events := []Event{{Kind: EvEnded, From: run, ByPeer: true}, {Kind: EvRefused, From: run}, {Kind: EvRefused, From: run}}
			if clean {
				events = []Event{{Kind: EvMessage, From: run, Message: Message{Kind: MsgGoodbye}}}
			}
			for i, ev := range events {
				w.at(time.Duration(1+i)*50*time.Millisecond, func() {
					if b.core == nil {
						o.step(ev)
					}
				})
			}
		}
	}
}

// fault makes one fault, and plans the next.
func (w *world) fault() {
	w.at(5*time.Second+time.Duration(w.rnd.Int64N(int64(40*time.Second))), w.fault)
	b := w.brokers[w.rnd.IntN(len(w.brokers))]
	for _, o := range w.brokers {
		if o.leads && w.rnd.IntN(2) == 0 {
			b = o
		}
	}
	d := []time.Duration{300, 900, 1400, 2500, 5000, 12000, 40000}[w.rnd.IntN(7)] * time.Millisecond
	o := w.brokers[(b.i+1+w.rnd.IntN(len(w.brokers)-1))%len(w.brokers)]
	kind := w.rnd.IntN(6)
	w.logf("fault %d at %d (leads %v) and %d for %v", kind, b.i, b.leads, o.i, d)
	switch kind {
	case 0:
		b.end(false)
		w.at(d/4, b.start)
	case 1:
		b.paused = max(b.paused, w.now+d)
		if d > 1900*time.Millisecond {
			b.excused = max(b.excused, w.now+d+4*time.Second)
		}
	case 2:
		b.noStore, b.excused = max(b.noStore, w.now+d), max(b.excused, w.now+d+4*time.Second)
	case 3, 4:
		pairs := [][2]int{{b.i, o.i}, {o.i, b.i}}[:5-kind]
		for _, p := range pairs {
			w.cut[p] = true
		}
		w.at(d, func() {
			for _, p := range pairs {
				delete(w.cut, p)
			}
			b.meet(o)
			o.meet(b)
		})
	case 5:
		b.leaves = true
		b.step(Event{Kind: EvLeave})
		w.at(5*time.Second, func() {
			if b.leaves {
				b.end(true)
			}
		})
		w.at(6*time.Second, b.start)
	}
}

// meet connects a broker with another one that it does not hear.
func (b *broker) meet(o *broker) {
	if b.core == nil || o.core == nil {
		return
	}
	if p := b.core.find(o.run); p == nil || !b.core.heard(p) {
		b.link(o)
	}
}

// watch checks that the log is led.
func (w *world) watch() {
	w.at(100*time.Millisecond, w.watch)
	able := false
	for _, b := range w.brokers {
		is := b.core != nil && w.now >= b.paused && w.now >= b.noStore
		able = able || is
		if b.core != nil && w.now >= b.paused && b.leads && b.report.Nonce == w.nonce && (is || b.report.InFlight == 0) {
			w.led = w.now // an idle leader does not notice that its store does not answer
		}
	}
	if !able {
		w.led = w.now
	}
	if w.now-w.led > 15*time.Second {
		panic("no broker leads, though one could")
	}
}

func simulate(seed uint64, brokers int) (trace []string, failure any) {
	w := &world{rnd: rand.New(rand.NewPCG(seed, 1)), cut: map[[2]int]bool{}, nonce: record.ID{9}}
	defer func() { trace, failure = w.trace, recover() }()
	for i := range brokers {
		b := &broker{w: w, i: i, node: record.ID{byte(i + 1)}}
		w.brokers = append(w.brokers, b)
		w.at(time.Duration(i)*300*time.Millisecond, b.start)
	}
	w.at(0, w.watch)
	w.at(20*time.Second, w.fault)
	for w.now < 10*time.Minute {
		w.next()
	}
	return w.trace, nil
}

func TestBrokersTakeOverFromEachOther(t *testing.T) {
	for seed := range uint64(40) {
		brokers := 2 + int(seed%3)
		if trace, failure := simulate(seed, brokers); failure != nil {
			for _, line := range trace[max(0, len(trace)-40):] {
				t.Log(line)
			}
			t.Fatalf("seed %d, %d brokers: %v", seed, brokers, failure)
		}
	}
}
