package cluster

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
)

const tick = 100 * time.Millisecond

// rig runs the Core of broker 1 with other brokers and a log that the test sets.
type rig struct {
	t     *testing.T
	c     *Core
	now   time.Time
	log   Report
	store bool
	beats map[Run]Beat // of brokers that beat and answer
	mute  map[Run]bool // of these: brokers that do not answer beats
	hung  bool         // the loop that owns the log does not answer
	got   Effects      // since the newest call of take
	reads int          // Effects.Read since then
}

func run(n byte) Run { return Run{Node: record.ID{n}, ID: record.ID{n, 1}} }

func registered(n byte) Registration {
	return Registration{Run: run(n), Name: string('a' + rune(n) - 1), Addresses: []string{"host:1"}, LevelMax: state.LevelMax}
}

func nonce(epoch uint32) record.ID { return record.ID{0xff, byte(epoch)} }

func newRig(t *testing.T, cfg Config) *rig {
	if cfg.Self.Run.IsZero() {
		cfg.Self = registered(1)
	}
	r := &rig{t: t, c: New(cfg), now: time.UnixMicro(1e15), store: true, beats: map[Run]Beat{}, mute: map[Run]bool{}}
	r.log = Report{Loaded: true, Pos: state.Position{Epoch: 5, Slot: 10}, Nonce: nonce(5), Sealer: run(2), Life: r.now, Verdict: r.now, Level: state.LevelStandby}
	return r
}

func (r *rig) step(ev Event) {
	fx := Effects{}
	r.c.Step(r.now, &ev, &fx)
	r.got.merge(&fx)
	if fx.Read {
		r.reads++
	}
	for _, e := range fx.Send {
		if _, ok := r.beats[e.To]; ok && !r.mute[e.To] && e.Message.Kind == MsgBeat {
			r.step(Event{Kind: EvMessage, From: e.To, Message: Message{Kind: MsgEcho, Sent: e.Message.Sent}})
		}
	}
}

func (fx *Effects) merge(o *Effects) {
	fx.Send = append(fx.Send, o.Send...)
	fx.Stand, fx.StepDown, fx.List = fx.Stand || o.Stand, fx.StepDown || o.StepDown, fx.List || o.List
	fx.Read = fx.Read || o.Read
	fx.Forget, fx.Remove = append(fx.Forget, o.Forget...), append(fx.Remove, o.Remove...)
	fx.Gone, fx.Epoch = fx.Gone || o.Gone, max(fx.Epoch, o.Epoch)
	fx.Seek = fx.Seek || o.Seek
	if !o.Find.IsZero() {
		fx.Find = o.Find
	}
	fx.Register, fx.Exit, fx.Left = fx.Register || o.Register, fx.Exit || o.Exit, fx.Left || o.Left
	if o.Show {
		fx.Show, fx.Pace, fx.Promise = true, o.Pace, o.Promise
	}
	if o.Park != NoPark {
		fx.Park = o.Park
	}
	if o.Handed {
		fx.Handed, fx.HandErr = true, o.HandErr
	}
	if o.Reach != (state.Position{}) {
		fx.Reach = o.Reach
	}
}

// take returns the effects since its last call.
func (r *rig) take() Effects {
	fx := r.got
	r.got, r.reads = Effects{}, 0
	return fx
}

func (r *rig) list(others ...byte) {
	list := []Registration{r.c.cfg.Self}
	for _, n := range others {
		list = append(list, registered(n))
	}
	r.step(Event{Kind: EvListed, Listed: list})
}

// link connects a broker that sends beats.
func (r *rig) link(n byte, b Beat) {
	b.From = run(n)
	r.beats[b.From] = b
	r.step(Event{Kind: EvLinked, From: b.From, Registration: registered(n)})
}

func following(epoch uint32) Beat {
	return Beat{Loaded: true, StoreOK: true, Pos: state.Position{Epoch: epoch, Slot: 10}, PosNonce: nonce(epoch), Level: 1}
}

func leads(epoch uint32) Beat {
	b := following(epoch)
	b.Leads, b.Epoch, b.Nonce = true, epoch, nonce(epoch)
	return b
}

// wait lets time pass until an attempt to stand begins, and returns when; d if none begins within d.
func (r *rig) wait(d time.Duration) time.Duration {
	for at := tick; at <= d; at += tick {
		r.now = r.now.Add(tick)
		for _, from := range slices.SortedFunc(mapKeys(r.beats), compareRuns) {
			r.step(Event{Kind: EvMessage, From: from, Message: Message{Kind: MsgBeat, Sent: 1, Beat: r.beats[from]}})
		}
		if !r.hung {
			r.step(Event{Kind: EvReport, Report: r.log, StoreOK: r.store})
		}
		if r.got.Stand {
			return at
		}
	}
	return d
}

func mapKeys[V any](m map[Run]V) func(func(Run) bool) {
	return func(yield func(Run) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// lead makes the log lead.
func (r *rig) lead() {
	r.log.Leads, r.log.Sealer = true, run(1)
	r.log.Looked = r.now
}

func (r *rig) want(what string, got, want any) {
	r.t.Helper()
	check.Equalf(r.t, got, want, "%s", what)
}

func TestJoiningStands(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(r *rig)
		from    time.Duration
		to      time.Duration
	}{
		"at once, if an earlier run of its folder led": {func(r *rig) {
			r.log.Sealer = Run{Node: run(1).Node, ID: record.ID{9}}
			r.list(2)
		}, 0, tick},
		"at once, if all peers are heard and claim nothing": {func(r *rig) {
			r.list(2)
			r.link(2, following(5))
		}, 0, 3 * tick},
		"after a minute, if the leader is registered and never heard":         {func(r *rig) { r.list(2) }, time.Minute - tick, time.Minute + tick},
		"after the silent time, if another one is registered and never heard": {func(r *rig) { r.list(3) }, 2400 * time.Millisecond, 3 * time.Second},
		"at once, if none is registered":                                      {func(r *rig) { r.list() }, 0, tick},
		"a minute after the newest commit of a leader that is never heard": {func(r *rig) {
			r.list(2)
			r.wait(50 * time.Second)
			r.log.Pos.Slot++
		}, time.Minute - tick, time.Minute + tick},
		"after the silent time and twice the promise": {func(r *rig) {
			r.log.Promise = time.Second // it shows life
			r.list(2)
		}, 4400 * time.Millisecond, 5 * time.Second},
		"at once, if the newest slot says that its leader has ended": {func(r *rig) {
			r.log.Promise, r.log.Ends = time.Millisecond, true
			r.list(2)
		}, 0, 3 * tick},
		"not while another broker leads": {func(r *rig) {
			r.list(2)
			r.link(2, leads(5))
		}, time.Minute, time.Minute},
		"not at once, if another broker was faster": {func(r *rig) {
			r.list(2)
			r.link(2, following(5))
			r.log.Promise = time.Second
			r.list(2, 3)
			r.wait(time.Second)
			r.log.Pos, r.log.Nonce, r.log.Sealer = state.Position{Epoch: 6}, nonce(6), run(3)
			r.link(3, following(6))
		}, 2400 * time.Millisecond, 6 * time.Second},
		"not before its beats are newer than the SEAL of a peer": {func(r *rig) {
			r.list(2)
			r.link(2, following(4))
		}, 2 * time.Second, 3 * time.Second},
		"not before it has loaded the log": {func(r *rig) {
			r.log.Loaded = false
			r.list(2)
		}, time.Minute, time.Minute},
		"not if it is read-only": {func(r *rig) {
			r.c.cfg.Self.ReadOnly = true
			r.list()
		}, time.Minute, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{})
			c.prepare(r)
			if got := r.wait(c.to + tick); got < c.from || got > c.to && c.to < time.Minute {
				t.Errorf("stands after %v, want %v to %v", got, c.from, c.to)
			}
		})
	}
}

// standbyOf returns a rig whose broker follows broker 2.
func standbyOf(t *testing.T) *rig {
	r := newRig(t, Config{})
	r.list(2)
	r.link(2, leads(5))
	r.want("stands beside a leader", r.wait(5*time.Second), 5*time.Second)
	return r
}

// TestAStartIsNoSilence: a first start checks its store for seconds before it registers, and others
// refuse its links until then. Its silent time begins when it may be heard.
func TestAStartIsNoSilence(t *testing.T) {
	const long = 20 * time.Second
	r := newRig(t, Config{Self: registered(1)})
	if got := r.wait(long); got != long {
		t.Fatalf("stands after %v, before it knows other brokers", got)
	}
	r.list(3)
	if got := r.wait(long); got < 2500*time.Millisecond || got == long {
		t.Errorf("stands %v after it registered, want the silent time", got)
	}
}

// standCase is when a standby stands after the preparation, and whether it does so against a leader that
// has ended.
type standCase struct {
	prepare  func(r *rig)
	from, to time.Duration
	gone     bool
}

func standCases() map[string]standCase {
	r2 := run(2)
	return map[string]standCase{
		"at once, after a goodbye": {func(r *rig) {
			delete(r.beats, r2)
			r.step(Event{Kind: EvMessage, From: r2, Message: Message{Kind: MsgGoodbye}})
		}, 0, tick, true},
		"at once, after the end of the link and two refused dials": {func(r *rig) {
			delete(r.beats, r2)
			r.step(Event{Kind: EvEnded, From: r2, ByPeer: true})
			r.step(Event{Kind: EvRefused, From: r2})
			r.step(Event{Kind: EvRefused, From: r2})
		}, 0, tick, true},
		"after the silent time, if this broker ended the link": {func(r *rig) {
			delete(r.beats, r2)
			r.step(Event{Kind: EvEnded, From: r2})
			r.step(Event{Kind: EvRefused, From: r2})
			r.step(Event{Kind: EvRefused, From: r2})
		}, 2 * time.Second, 3 * time.Second, false},
		"after the silent time, if only dials are refused": {func(r *rig) {
			delete(r.beats, r2)
			r.step(Event{Kind: EvRefused, From: r2})
			r.step(Event{Kind: EvRefused, From: r2})
		}, 2 * time.Second, 3 * time.Second, false},
		"after the silent time, if its beats are not answered": {func(r *rig) { r.mute[r2] = true }, 2 * time.Second, 3 * time.Second, false},
		"at once, if another run of the leader's folder is there": {func(r *rig) {
			delete(r.beats, r2)
			later := Run{Node: r2.Node, ID: record.ID{77}}
			b := following(5)
			b.From = later
			r.beats[later] = b
			r.step(Event{Kind: EvLinked, From: later, Registration: Registration{Run: later, Addresses: []string{"host:1"}}})
		}, 0, 3 * tick, true},
		"at once, if its address belongs to another run of its folder": {func(r *rig) {
			delete(r.beats, r2)
			r.c.find(r2).got = 0
			r.step(Event{Kind: EvReplaced, From: r2})
		}, 0, tick, true},
		"after the silent time, if the leader claims nothing": {func(r *rig) { r.beats[r2] = following(5) }, 2 * time.Second, 3 * time.Second, false},
		"not while the run that sealed still tries": {func(r *rig) {
			b := following(5)
			b.Stands, b.Epoch, b.Nonce = true, 5, nonce(5)
			r.beats[r2] = b
		}, time.Minute, time.Minute, false},
		"at once, if its own SEAL is the newest": {func(r *rig) {
			delete(r.beats, r2)
			r.log.Sealer = run(1)
		}, 0, tick, true},
		"not if a program that cannot be reached leads": {func(r *rig) {
			r.beats[r2] = following(6)
			r.log.Pos, r.log.Nonce, r.log.Sealer, r.log.Foreign = state.Position{Epoch: 6}, nonce(6), Run{}, true
			r.wait(tick)
			if got := r.c.Wrong(); len(got) != 1 || !strings.Contains(got[0], "--take-over") {
				r.t.Errorf("what is wrong: %q", got)
			}
		}, time.Minute, time.Minute, false},
		"after the silent time, if a broker led before SEALs named runs": {func(r *rig) {
			delete(r.beats, r2)
			r.log.Sealer, r.log.Foreign = Run{}, true
		}, 2 * time.Second, 3 * time.Second, false},
		"not while the process ends": {func(r *rig) {
			delete(r.beats, r2)
			r.step(Event{Kind: EvLeave})
		}, time.Minute, time.Minute, false},
	}
}

func TestAStandbyStands(t *testing.T) {
	for name, c := range standCases() {
		t.Run(name, func(t *testing.T) {
			r := standbyOf(t)
			c.prepare(r)
			if got := r.wait(c.to + tick); got < c.from || got > c.to && c.to < time.Minute {
				t.Errorf("stands after %v, want %v to %v", got, c.from, c.to)
			}
			r.want("stands against a leader that has ended", r.take().Gone, c.gone)
		})
	}
}

func TestALeaderThatWritesIsNotDeposed(t *testing.T) {
	r := standbyOf(t)
	delete(r.beats, run(2))
	for range 60 {
		r.want("stands against a leader that writes", r.wait(time.Second), time.Second)
		r.log.Pos.Slot++
		r.log.Life = r.now
	}
	if got := r.wait(time.Minute); got < 1500*time.Millisecond || got > 3*time.Second {
		t.Errorf("stands %v after the newest slot, want the silent time", got)
	}
}

// TestALeaderIsReadWhenItsBeatsStop: a slot that the leader put and did not feed does not begin the
// silent time again, because the standby knows it before.
func TestALeaderIsReadWhenItsBeatsStop(t *testing.T) {
	r := standbyOf(t)
	r.wait(5 * time.Second)
	r.take()
	delete(r.beats, run(2))
	r.wait(time.Second)
	r.want("reads the log of an idle leader", r.take().Read, false)

	r = standbyOf(t)
	for range 20 { // it writes
		r.log.Pos.Slot++
		r.log.Life = r.now
		r.wait(tick)
	}
	r.take()
	delete(r.beats, run(2))
	read := time.Duration(0)
	for ; read < 2*time.Second && !r.take().Read; read += tick {
		r.wait(tick)
	}
	if read < 300*time.Millisecond || read > time.Second {
		t.Errorf("reads the log %v after the newest beat", read)
	}
	r.log.Pos.Slot += 2
	r.log.Life = r.now
	if got := read + r.wait(time.Minute); got > 2900*time.Millisecond {
		t.Errorf("stands %v after the newest beat", got)
	}
}

func TestASlotPromisesTheNext(t *testing.T) {
	r := standbyOf(t)
	r.log.Promise = time.Minute
	delete(r.beats, run(2))
	if got := r.wait(time.Minute); got > 5*time.Second {
		t.Errorf("a leader whose link is young writes at the fast pace, and the standby stands after %v", got)
	}
	r = newRig(t, Config{})
	r.list(2)
	r.log.Promise = time.Minute
	r.c.learn(run(2)).echo = -time.Hour
	if got := r.wait(10 * time.Minute); got < 2*time.Minute {
		t.Errorf("the standby stands after %v, but the newest slot promised the next within a minute", got)
	}
}

// TestTheLastSlotOfALeader: a standby reads the log of a leader that it does not hear, first each
// second, and stands at once when a slot says that the leader has ended.
func TestTheLastSlotOfALeader(t *testing.T) {
	r := standbyOf(t)
	delete(r.beats, run(2))
	r.log.Promise = time.Second
	reads := func(d time.Duration) (n int) {
		for range d / time.Second {
			r.log.Pos.Slot++
			r.log.Life = r.now
			r.take()
			r.want("stands after", r.wait(time.Second), time.Second)
			n += r.reads
		}
		return n
	}
	reads(4 * time.Second) // it is silent
	if n := reads(20 * time.Second); n < 19 || n > 21 {
		t.Errorf("%d reads in 20 s", n)
	}
	reads(Designed.Fast)
	if n := reads(40 * time.Second); n < 9 || n > 11 {
		t.Errorf("%d reads in 40 s after the fast time", n)
	}
	r.take()
	r.log.Pos.Slot++
	r.log.Promise, r.log.Ends = time.Millisecond, true
	r.want("stands after", r.wait(time.Minute), tick)
	r.want("applies what the leader left", r.got.Gone, true)
}

func TestALoserIsAStandbyOfTheNextEpoch(t *testing.T) {
	r := standbyOf(t)
	delete(r.beats, run(2))
	r.step(Event{Kind: EvMessage, From: run(2), Message: Message{Kind: MsgGoodbye}})
	r.want("stands after", r.wait(time.Second), tick)
	r.take()
	r.link(3, following(5))
	r.log.Pos, r.log.Nonce, r.log.Sealer = state.Position{Epoch: 6}, nonce(6), run(3)
	r.beats[run(3)] = leads(6)
	r.step(Event{Kind: EvStood, Err: errors.New("overtaken")})
	r.want("stands against the winner after", r.wait(time.Minute), time.Minute)
	if p := r.c.leader(); p == nil || p.run != run(3) {
		t.Errorf("leader %v, want run 3", p)
	}
}

func TestAnUnknownRunThatSealedIsLookedFor(t *testing.T) {
	r := newRig(t, Config{})
	r.list()
	r.wait(time.Second)
	fx := r.take()
	r.want("looks for", fx.Find, run(2))
	r.step(Event{Kind: EvFound, Registration: registered(2)})
	r.link(2, leads(5))
	r.take()
	r.want("stands after", r.wait(time.Minute), time.Minute)
	fx = r.take()
	r.want("looks again for", fx.Find, Run{})
}

func TestAPauseOfAStandbyIsNoSilence(t *testing.T) {
	r := standbyOf(t)
	r.now = r.now.Add(time.Hour)
	r.step(Event{Kind: EvReport, Report: r.log, StoreOK: true})
	r.want("stands after a pause", r.wait(10*time.Second), 10*time.Second)
}

// apartRig returns a rig whose broker and broker 2, which sealed the epoch, do not reach each other.
func apartRig(t *testing.T, led bool) *rig {
	r := newRig(t, Config{Led: led})
	other := registered(2)
	other.Addresses = nil
	r.step(Event{Kind: EvListed, Listed: []Registration{r.c.cfg.Self, other}})
	return r
}

func TestBrokersThatDoNotReachEachOther(t *testing.T) {
	r := apartRig(t, false)
	if w := strings.Join(r.c.Wrong(), " "); !strings.Contains(w, "do not reach each other") || !strings.Contains(w, "--advertise") {
		t.Errorf("wrong: %q", w)
	}
	if got := r.wait(2 * time.Minute); got < time.Minute || got > time.Minute+2*tick {
		t.Errorf("a broker that has never led stands after %v, want a minute", got)
	}
	r.step(Event{Kind: EvStood})
	r.log.Leads, r.log.Pos, r.log.Nonce, r.log.Sealer = true, state.Position{Epoch: 6}, nonce(6), run(1)
	r.step(Event{Kind: EvReport, Report: r.log, StoreOK: true})
	if fx := r.take(); !slices.Equal(fx.Remove, []Run{run(2)}) {
		t.Errorf("registrations removed when it leads: %v", fx.Remove)
	}

	r.log.Leads = false
	r.want("before it has read the SEAL that fenced it, it stands after", r.wait(5*time.Second), 5*time.Second)
	if fx := r.take(); !fx.Read {
		t.Error("it does not read the log")
	}
	r.log.Pos, r.log.Nonce, r.log.Sealer = state.Position{Epoch: 7}, nonce(7), run(3)
	other := registered(3)
	other.Addresses = nil
	r.step(Event{Kind: EvFound, Registration: other})
	r.wait(time.Second)
	if fx := r.take(); fx.Stand || !fx.Exit {
		t.Errorf("a broker that led, and was deposed by one that it does not reach: stands %v, ends %v", fx.Stand, fx.Exit)
	}

	r = apartRig(t, false)
	r.lead()
	r.step(Event{Kind: EvReport, Report: r.log, StoreOK: true})
	r.log.Leads, r.log.Pos, r.log.Nonce, r.log.Sealer = false, state.Position{Epoch: 9}, nonce(9), run(3)
	r.step(Event{Kind: EvReport, Report: r.log, StoreOK: true})
	r.take()
	r.want("deposed by a run that is not registered yet, it stands after", r.wait(10*time.Second), 10*time.Second)
	if fx := r.take(); fx.Find != run(3) {
		t.Errorf("it looks for %v", fx.Find)
	}
	r.step(Event{Kind: EvFound, Registration: other})
	r.wait(time.Second)
	if fx := r.take(); fx.Stand || !fx.Exit {
		t.Errorf("when that has registered: stands %v, ends %v", fx.Stand, fx.Exit)
	}

	r = apartRig(t, true)
	r.c.learn(run(2)).reg.Name = r.c.cfg.Self.Name
	if got := r.wait(2 * time.Minute); got < time.Minute || got > time.Minute+2*tick || r.got.Exit {
		t.Errorf("after a reboot of its machine, on which the other ran, it stands after %v, want a minute; ends: %v", got, r.got.Exit)
	}

	r = apartRig(t, true)
	r.wait(time.Second)
	if fx := r.take(); fx.Stand || !fx.Exit {
		t.Errorf("a broker whose folder led before another registered run: stands %v, ends %v", fx.Stand, fx.Exit)
	}
}

// TestBrokersThatHaveOneName: the name of each is that of the other, so what answers there proves nothing
// to a run that led until the other one sealed.
func TestBrokersThatHaveOneName(t *testing.T) {
	self, other := registered(1), registered(2)
	self.URL, other.URL = "http://broker:1", "http://broker:1"
	r := newRig(t, Config{Self: self})
	r.step(Event{Kind: EvListed, Listed: []Registration{self}})
	r.lead()
	r.step(Event{Kind: EvReport, Report: r.log, StoreOK: true})
	r.log.Leads = false
	r.step(Event{Kind: EvReport, Report: r.log, StoreOK: true})
	r.take()
	r.log.Pos, r.log.Nonce, r.log.Sealer = state.Position{Epoch: r.log.Pos.Epoch + 1}, nonce(r.log.Pos.Epoch+1), run(2)
	r.step(Event{Kind: EvFound, Registration: other})
	r.step(Event{Kind: EvReplaced, From: run(2)})
	r.wait(time.Second)
	if fx := r.take(); fx.Stand || !fx.Exit {
		t.Errorf("it stands %v, ends %v", fx.Stand, fx.Exit)
	}
}

// TestADeadBrokerOfThisMachine: no process of this machine listens at its address, or another one does.
func TestADeadBrokerOfThisMachine(t *testing.T) {
	beside := func(n byte) Registration {
		g := registered(n)
		g.Machine, g.Local = [16]byte{1}, g.Addresses[0]
		return g
	}
	elsewhere := func(n byte) Registration {
		g := registered(n)
		g.Machine, g.Local = [16]byte{2}, g.Addresses[0]
		return g
	}
	for name, c := range map[string]struct {
		other Registration
		kind  EventKind
		over  bool
	}{
		"refuses dials":                      {beside(2), EvRefused, true},
		"refuses dials, on another machine":  {elsewhere(2), EvRefused, false},
		"is replaced, on whatever machine":   {elsewhere(2), EvReplaced, true},
		"cannot be dialed for other reasons": {beside(2), EvEnded, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{Self: beside(1)})
			r.step(Event{Kind: EvListed, Listed: []Registration{r.c.cfg.Self, c.other.SeenBy(&r.c.cfg.Self)}})
			r.wait(tick)
			r.step(Event{Kind: c.kind, From: run(2)})
			r.step(Event{Kind: c.kind, From: run(2)})
			stood := r.wait(10*time.Second) <= 2*tick
			if fx := r.take(); stood != c.over || slices.Contains(fx.Remove, run(2)) != c.over {
				t.Errorf("stands at once: %v, removes %v; want %v", stood, fx.Remove, c.over)
			}
		})
	}
}

func TestABrokerWithAnotherRootKeyReads(t *testing.T) {
	r := newRig(t, Config{})
	r.list(2)
	r.beats[run(2)] = leads(5)
	r.step(Event{Kind: EvLinked, From: run(2), Registration: registered(2), OtherKey: true})
	r.want("stands against a leader with another key after", r.wait(time.Minute), time.Minute)
	if m := r.c.Members()[1]; !m.Leads || m.Why != "" {
		t.Errorf("why the leader %+v does not lead: %q", m.Run, m.Why)
	}
	delete(r.beats, run(2))
	r.want("stands after its silence after", r.wait(time.Minute), time.Minute)
	if !r.c.beat.OtherKey {
		t.Error("its beats do not say that it has another key")
	}
	check.Containsf(t, r.c.Members()[0].Why, "root key", "why it does not stand")
}

func TestALeaderTellsItsPosition(t *testing.T) {
	r := newRig(t, Config{})
	r.list(2)
	told := func() (state.Position, time.Duration, bool) { return r.c.Told(r.now) }
	if _, _, ok := told(); ok {
		t.Fatal("a position without a leader")
	}
	r.link(2, leads(5))
	r.wait(3 * time.Second)
	pos, age, ok := told()
	if want := (state.Position{Epoch: 5, Slot: 10}); !ok || pos != want || age <= 0 || age > time.Second {
		t.Fatalf("told %v %v ago, %v", pos, age, ok)
	}
	// A pause of this run makes what it was told older, and it is not younger until an answer to a
	// beat after the pause has come.
	r.now = r.now.Add(time.Hour)
	if _, age, _ := told(); age < time.Hour {
		t.Errorf("told %v ago after a pause of an hour", age)
	}
	r.mute[run(2)] = true
	r.wait(time.Second)
	if _, age, ok := told(); ok && age < time.Hour {
		t.Errorf("told %v ago without an answer since the pause", age)
	}
	r.mute[run(2)] = false
	r.wait(2 * time.Second)
	if _, age, ok := told(); !ok || age > time.Second {
		t.Errorf("told %v ago, %v, after the link was back", age, ok)
	}
	r.lead()
	r.wait(time.Second)
	if _, _, ok := told(); ok {
		t.Error("a leader is told a position")
	}
}

// TestACandidateIsNotTheLeader: a SEAL of an older format level does not name its run. A run that stands
// against the epoch, and is not heard any more, is not the one that leads it.
func TestACandidateIsNotTheLeader(t *testing.T) {
	r := newRig(t, Config{})
	r.log.Sealer = Run{}
	r.list(2, 3)
	r.link(3, leads(5))
	stands := following(5)
	stands.Stands, stands.Epoch, stands.Nonce = true, 5, nonce(5)
	r.link(2, stands)
	r.wait(time.Minute)
	delete(r.beats, run(2))
	if got := r.wait(time.Minute); got != time.Minute {
		t.Errorf("stands after %v, beside a leader that it hears", got)
	}
}

// TestAStandbyWhoseLogHungCountsAnew: a standby whose log did not answer sent no beats, so a leader that
// answered none is not silent.
func TestAStandbyWhoseLogHungCountsAnew(t *testing.T) {
	r := newRig(t, Config{})
	r.list(2)
	r.link(2, leads(5))
	r.wait(time.Minute)
	r.hung = true
	r.wait(12 * time.Second)
	r.hung = false
	if got := r.wait(time.Minute); got != time.Minute {
		t.Errorf("stands after %v against a leader that beats and answers", got)
	}
}

// TestAnUnknownLeaderIsLookedFor: a SEAL of an older format level does not name its run, which may have
// started after this one.
func TestAnUnknownLeaderIsLookedFor(t *testing.T) {
	r := standbyOf(t)
	r.take()
	r.log.Pos, r.log.Nonce, r.log.Sealer = state.Position{Epoch: 6}, nonce(6), Run{}
	r.wait(tick)
	if !r.take().Seek {
		t.Error("it does not list the registrations")
	}
}

// TestANewLinkIsHeardFirst: a run that has just linked to a leader waits for the answer to its beat.
func TestANewLinkIsHeardFirst(t *testing.T) {
	r := newRig(t, Config{})
	r.list(2)
	r.wait(2 * time.Second)
	r.step(Event{Kind: EvLinked, From: run(2), Registration: registered(2)})
	if got := r.wait(2 * time.Second); got != 2*time.Second {
		t.Errorf("joining: stands %v after the link", got)
	}
	r = standbyOf(t)
	delete(r.beats, run(2))
	r.wait(2 * time.Second)
	r.step(Event{Kind: EvLinked, From: run(2), Registration: registered(2)})
	if got := r.wait(10 * time.Second); got < 2*time.Second || got > 3*time.Second {
		t.Errorf("standby: stands %v after the link to a leader that says nothing", got)
	}
}

// TestALaterRunIsLookedFor: when the address of a run belongs to a later one of its data folder, that one
// is looked for, once. A run whose link has ended looks at its own registration at once.
func TestALaterRunIsLookedFor(t *testing.T) {
	r := leaderOver(t)
	delete(r.beats, run(2))
	r.step(Event{Kind: EvEnded, From: run(2)})
	r.wait(tick)
	if fx := r.take(); !fx.Register || fx.Seek {
		t.Errorf("a link has ended: register %v, seek %v", fx.Register, fx.Seek)
	}
	r.wait(3 * time.Second)
	r.take()
	for n := range 2 {
		r.step(Event{Kind: EvReplaced, From: run(2)})
		if fx := r.take(); fx.Seek != (n == 0) || fx.Register != (n == 0) {
			t.Errorf("a later run is there, told %d times before: seek %v, register %v", n, fx.Seek, fx.Register)
		}
	}
}
