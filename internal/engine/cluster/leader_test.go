package cluster

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
)

// leaderOver returns a rig whose broker leads, with broker 2 as a standby.
func leaderOver(t *testing.T) *rig {
	r := newRig(t, Config{})
	r.lead()
	r.list(2)
	r.link(2, following(5))
	r.wait(5 * time.Second)
	r.take()
	return r
}

func (fx *Effects) sent(k MessageKind) (m []Message) {
	for _, e := range fx.Send {
		if e.Message.Kind == k {
			m = append(m, e.Message)
		}
	}
	return m
}

func TestALeaderThatIsNotSeenShowsLife(t *testing.T) {
	r := leaderOver(t)
	r.wait(time.Minute)
	if fx := r.take(); fx.Show || fx.List {
		t.Errorf("a leader that is seen shows life: %+v", fx)
	}
	delete(r.beats, run(2))
	r.wait(1300 * time.Millisecond)
	fx := r.take()
	r.want("a leader that is not seen: pace", fx.Pace, time.Second)
	r.want("a leader that is not seen: promise", fx.Promise, time.Second)
	r.wait(6 * time.Minute)
	fx = r.take()
	r.want("a slower pace is announced", fx.Promise, time.Minute)
	r.want("before it begins", fx.Pace, time.Second)
	r.wait(5 * time.Minute)
	r.want("it begins before a slot has promised it", r.take().Show, false)
	r.log.Promise = time.Minute
	r.wait(tick)
	fx = r.take()
	r.want("after the fast time: pace", fx.Pace, time.Minute)
	if !fx.List {
		t.Error("at the slow pace it does not list the registrations")
	}
	r.list()
	r.wait(time.Second)
	fx = r.take()
	r.want("after the other has deleted its registration it shows nothing, told", fx.Show, true)
	r.want("pace", fx.Pace, time.Duration(0))
	r.step(Event{Kind: EvEnded, From: run(2)})
	fx = r.take()
	r.want("it dials the other no more when the link has ended: runs", len(fx.Forget), 1)
}

// TestAPaceThatSlotsCannotPromiseStaysFast: a log at an older format level has no promises, so a candidate
// does not wait longer than the silent time.
func TestAPaceThatSlotsCannotPromiseStaysFast(t *testing.T) {
	r := leaderOver(t)
	r.log.Level = state.LevelStandby - 1
	delete(r.beats, run(2))
	r.wait(time.Hour)
	fx := r.take()
	r.want("pace after the fast time", fx.Pace, time.Second)
}

func TestRunsThatNeverLeadAreNotWaitedFor(t *testing.T) {
	for name, change := range map[string]func(g *Registration){
		"read-only":      func(g *Registration) { g.ReadOnly = true },
		"cannot reached": func(g *Registration) { g.Addresses = nil },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{})
			r.lead()
			g := registered(2)
			change(&g)
			r.step(Event{Kind: EvListed, Listed: []Registration{r.c.cfg.Self, g}})
			r.wait(time.Minute)
			if fx := r.take(); fx.Show {
				t.Error("the leader shows life to it")
			}
			if !r.c.Alone() {
				t.Error("the leader makes rounds for it")
			}
		})
	}
}

func TestALeaderStepsDown(t *testing.T) {
	r := leaderOver(t)
	r.beats[run(2)] = leads(6)
	r.wait(tick)
	if fx := r.take(); !fx.StepDown || fx.Epoch != 5 {
		t.Errorf("another run leads a higher epoch: steps down %v, from epoch %d", fx.StepDown, fx.Epoch)
	}
	r.wait(tick) // a Report from before
	if m := r.c.Members(); m[0].Leads || !m[1].Leads {
		t.Errorf("leads: itself %v, the other %v", m[0].Leads, m[1].Leads)
	}
}

func TestALeaderThatSteppedDownReadsTheNextEpochFirst(t *testing.T) {
	r := leaderOver(t)
	r.beats[run(2)] = leads(6)
	r.wait(tick)
	r.take()
	r.log.Leads = false // its own SEAL is the newest that it knows
	r.want("stands after", r.wait(10*time.Second), 10*time.Second)
	fx := r.take()
	r.want("reads up to", fx.Reach, state.Position{Epoch: 6, Slot: 10})
}

func TestDoubt(t *testing.T) {
	r := leaderOver(t)
	r.wait(5 * time.Second)
	r.want("doubt with all links", r.c.InDoubt(r.now), false)
	r.want("doubt after a pause that no step has noticed", r.c.InDoubt(r.now.Add(time.Second)), true)
	r.mute[run(2)] = true
	r.wait(1300 * time.Millisecond)
	r.want("doubt with a link that one way is cut", r.c.InDoubt(r.now), true)
	r.log.Looked = r.now.Add(-time.Second)
	r.wait(tick)
	r.want("doubt after a look", r.c.InDoubt(r.now), false)
	r.want("doubt after a look and a pause", r.c.InDoubt(r.now.Add(time.Second)), true)
	delete(r.mute, run(2))
	r.wait(5 * time.Second)
	r.now = r.now.Add(time.Minute)
	r.wait(tick)
	r.want("doubt after a pause", r.c.InDoubt(r.now), true)
	r.hung = true
	r.wait(2 * time.Second)
	r.hung = false
	r.wait(tick)
	r.want("doubt after a pause of the log's loop", r.c.InDoubt(r.now), true)
}

func TestBeatsComeFromTheLoopThatOwnsTheLog(t *testing.T) {
	r := leaderOver(t)
	r.wait(time.Second)
	fx := r.take()
	r.want("beats in a second", len(fx.sent(MsgBeat)), 2)
	r.hung = true
	r.wait(5 * time.Second)
	fx = r.take()
	r.want("beats while the loop hangs", len(fx.sent(MsgBeat)), 0)
}

func TestHandOver(t *testing.T) {
	r := leaderOver(t)
	r.step(Event{Kind: EvHandOver})
	r.wait(tick)
	fx := r.take()
	prepare := fx.sent(MsgPrepare)
	if len(prepare) != 1 {
		t.Fatalf("%d messages prepare", len(prepare))
	}
	r.step(Event{Kind: EvMessage, From: run(2), Message: Message{Kind: MsgReady, Hand: prepare[0].Hand}})
	fx = r.take()
	r.want("after ready", fx.Park, Drain)
	r.step(Event{Kind: EvLeave})
	r.wait(tick)
	if fx = r.take(); fx.Left {
		t.Error("the process may end in the middle of a hand-over")
	}
	parked := r.log
	parked.Pos.Slot, parked.PrevCRC = 12, 77
	r.step(Event{Kind: EvParked, Report: parked})
	fx = r.take()
	take := fx.sent(MsgTake)
	if len(take) != 1 || take[0].Hand.Pos.Slot != 12 || take[0].Hand.PrevCRC != 77 || take[0].Hand.Undrained {
		t.Fatalf("take: %+v", take)
	}
	r.beats[run(2)] = leads(6)
	r.wait(tick)
	fx = r.take()
	r.want("the leader stops", fx.StepDown, true)
	if !fx.Handed || fx.HandErr != nil {
		t.Errorf("operator: %v, %v", fx.Handed, fx.HandErr)
	}
}

func TestAHandOverThatTakesTooLongIsAborted(t *testing.T) {
	r := leaderOver(t)
	r.step(Event{Kind: EvLeave})
	r.wait(tick)
	fx := r.take()
	r.step(Event{Kind: EvMessage, From: run(2), Message: Message{Kind: MsgReady, Hand: fx.sent(MsgPrepare)[0].Hand}})
	r.step(Event{Kind: EvParked, Report: r.log})
	r.wait(1900 * time.Millisecond)
	if fx = r.take(); fx.Park == Unpark || fx.Left {
		t.Error("aborted before its time")
	}
	r.wait(500 * time.Millisecond)
	fx = r.take()
	r.want("after the abort", fx.Park, Unpark)
	r.want("nothing is left to try", fx.Left, true)
}

func TestALinkThatEndsLosesNoHandOver(t *testing.T) {
	r := leaderOver(t)
	r.step(Event{Kind: EvHandOver})
	r.wait(time.Second)
	fx := r.take()
	if n := len(fx.sent(MsgPrepare)); n < 2 {
		t.Errorf("%d messages prepare in a second without an answer", n)
	}
	r.step(Event{Kind: EvMessage, From: run(2), Message: Message{Kind: MsgReady, Hand: fx.sent(MsgPrepare)[0].Hand}})
	r.step(Event{Kind: EvParked, Report: r.log})
	r.wait(time.Second)
	fx = r.take()
	if n := len(fx.sent(MsgTake)); n < 2 {
		t.Errorf("%d messages take in a second without an answer", n)
	}
}

func TestAnOperatorHearsThatThereIsNoStandby(t *testing.T) {
	r := leaderOver(t)
	delete(r.beats, run(2))
	r.wait(3 * time.Second)
	r.step(Event{Kind: EvHandOver})
	if fx := r.take(); !fx.Handed || !errors.Is(fx.HandErr, ErrNoStandby) {
		t.Errorf("answer %v, %v", fx.Handed, fx.HandErr)
	}
	r.link(2, following(4)) // it never catches up
	r.wait(time.Second)
	r.step(Event{Kind: EvHandOver})
	r.wait(4 * time.Second)
	if fx := r.take(); fx.Handed {
		t.Errorf("answer %v while the standby may catch up", fx.HandErr)
	}
	r.wait(2 * time.Second)
	if fx := r.take(); !fx.Handed || !errors.Is(fx.HandErr, ErrNoStandby) {
		t.Errorf("answer %v, %v", fx.Handed, fx.HandErr)
	}
}

func TestALeaderWhoseStoreDoesNotAnswerHandsOverUndrained(t *testing.T) {
	r := leaderOver(t)
	r.log.InFlight, r.log.Oldest, r.log.Verdict = 2, 4*time.Second, r.now.Add(-4*time.Second)
	r.wait(tick)
	fx := r.take()
	if len(fx.sent(MsgPrepare)) != 1 {
		t.Fatal("no hand-over")
	}
	r.step(Event{Kind: EvMessage, From: run(2), Message: Message{Kind: MsgReady, Hand: fx.sent(MsgPrepare)[0].Hand}})
	fx = r.take()
	r.want("after ready", fx.Park, Park)
	r.step(Event{Kind: EvParked, Report: r.log})
	fx = r.take()
	if take := fx.sent(MsgTake); len(take) != 1 || !take[0].Hand.Undrained || !fx.StepDown {
		t.Errorf("take %+v, steps down %v", take, fx.StepDown)
	}
}

func TestAStandbyTakesOver(t *testing.T) {
	hand := Hand{ID: 7, Epoch: 5, Nonce: nonce(5)}
	r := standbyOf(t)
	r.take()
	hand.Pos = state.Position{Epoch: 5, Slot: 20}
	r.step(Event{Kind: EvMessage, From: run(2), Message: Message{Kind: MsgPrepare, Hand: hand}})
	r.wait(tick)
	fx := r.take()
	r.want("reads up to", fx.Reach, hand.Pos)
	if len(fx.sent(MsgReady)) != 0 {
		t.Error("it is ready before it has caught up")
	}
	r.log.Pos.Slot = 16
	r.wait(tick)
	fx = r.take()
	if ready := fx.sent(MsgReady); len(ready) != 1 || ready[0].Hand.ID != 7 {
		t.Fatalf("ready: %+v", ready)
	}
	hand.Pos, hand.PrevCRC = state.Position{Epoch: 5, Slot: 22}, 77
	r.step(Event{Kind: EvMessage, From: run(2), Message: Message{Kind: MsgTake, Hand: hand}})
	r.want("stands before it has the last slot", r.wait(time.Second), time.Second)
	fx = r.take()
	r.want("reads up to", fx.Reach, hand.Pos)
	r.log.Pos, r.log.PrevCRC = hand.Pos, 77
	r.want("stands after", r.wait(time.Second), tick)

	r = standbyOf(t)
	hand.Undrained = true
	r.step(Event{Kind: EvMessage, From: run(2), Message: Message{Kind: MsgTake, Hand: hand}})
	r.want("undrained: stands after", r.wait(time.Second), tick)
	r.want("against a leader that has stopped", r.take().Gone, true)
	r.step(Event{Kind: EvStood, Err: errors.New("overtaken")})
	r.step(Event{Kind: EvReport, Report: r.log, StoreOK: true})
	r.want("and again after", r.wait(10*time.Second), time.Second)
}

func TestATakeThatIsOverIsForgotten(t *testing.T) {
	for name, change := range map[string]func(r *rig, h *Hand){
		"of a run that has not sealed the epoch": func(r *rig, h *Hand) { r.log.Sealer = run(3); r.wait(tick) },
		"with another checksum":                  func(_ *rig, h *Hand) { h.PrevCRC = 78 },
		"when the leader has continued":          func(r *rig, _ *Hand) { r.log.Pos.Slot = 13 },
		"of another epoch":                       func(_ *rig, h *Hand) { h.Nonce = nonce(4) },
	} {
		t.Run(name, func(t *testing.T) {
			r := standbyOf(t)
			r.link(3, following(5))
			r.log.Pos.Slot, r.log.PrevCRC = 12, 77
			hand := Hand{ID: 7, Epoch: 5, Nonce: nonce(5), Pos: r.log.Pos, PrevCRC: 77}
			change(r, &hand)
			r.step(Event{Kind: EvMessage, From: run(2), Message: Message{Kind: MsgTake, Hand: hand}})
			r.want("stands after", r.wait(2*time.Second), 2*time.Second)
		})
	}
}

func TestAnOldProgramDoesNotTakeOver(t *testing.T) {
	r := leaderOver(t)
	r.log.Level = state.LevelMax + 1
	r.step(Event{Kind: EvHandOver})
	r.wait(time.Second)
	if fx := r.take(); len(fx.sent(MsgPrepare)) != 0 {
		t.Error("a hand-over to a broker that cannot read the log")
	}
	if w := r.c.Wrong(); len(w) != 1 || !strings.Contains(w[0], "newer version") {
		t.Errorf("wrong: %q", w)
	}
}

func TestAStandbyIsNotReady(t *testing.T) {
	for name, change := range map[string]func(r *rig){
		"in another epoch":                func(r *rig) { r.log.Pos.Epoch, r.log.Nonce = 6, nonce(6) },
		"while its store does not answer": func(r *rig) { r.store = false },
		"while it ends":                   func(r *rig) { r.step(Event{Kind: EvLeave}) },
	} {
		t.Run(name, func(t *testing.T) {
			r := standbyOf(t)
			change(r)
			r.wait(tick)
			r.take()
			r.step(Event{Kind: EvMessage, From: run(2), Message: Message{Kind: MsgPrepare, Hand: Hand{ID: 7, Epoch: 5, Nonce: nonce(5)}}})
			r.wait(tick)
			if fx := r.take(); len(fx.sent(MsgReady)) != 0 {
				t.Error("it says that it is ready")
			}
		})
	}
}

func TestWhatIsWrong(t *testing.T) {
	has := func(c *Core, text string) bool {
		return slices.ContainsFunc(c.Wrong(), func(s string) bool { return strings.Contains(s, text) })
	}
	r := newRig(t, Config{})
	r.list(2)
	r.wait(2 * time.Second)
	if w := r.c.Wrong(); len(w) != 0 {
		t.Errorf("wrong at a start, before the others can be heard: %q", w)
	}
	r = leaderOver(t)
	if w := r.c.Wrong(); len(w) != 0 {
		t.Errorf("wrong in a healthy cluster: %q", w)
	}
	delete(r.beats, run(2))
	r.wait(5 * time.Second)
	if !has(r.c, `The broker "b"`) || !has(r.c, "was not heard for") || !has(r.c, "seb cluster forget") {
		t.Errorf("a silent broker: %q", r.c.Wrong())
	}
	r.step(Event{Kind: EvMessage, From: run(2), Message: Message{Kind: MsgGoodbye}})
	if w := r.c.Wrong(); len(w) != 0 || len(r.c.Members()) != 1 {
		t.Errorf("after a goodbye: %q, %d members", w, len(r.c.Members()))
	}
	r.log.Leads = false
	r.store = false
	r.wait(time.Second)
	if !has(r.c, "No broker leads") || !has(r.c, "object store does not answer") {
		t.Errorf("no leader, no store: %q", r.c.Wrong())
	}
}

// TestAClaimNeedsAStore: a run that sealed the epoch, and whose store does not answer, claims no stand,
// because others wait for that. Neither does it stand again after it has given up.
func TestAClaimNeedsAStore(t *testing.T) {
	r := standbyOf(t)
	r.log.Stands, r.log.Sealer, r.log.Verdict = true, run(1), r.now
	r.wait(2 * time.Second)
	claims := func() (n int) {
		fx := r.take()
		for _, m := range fx.sent(MsgBeat) {
			if m.Beat.Stands {
				n++
			}
		}
		return n
	}
	if claims() == 0 {
		t.Error("an attempt is not claimed")
	}
	r.wait(10 * time.Second)
	r.take()
	r.wait(10 * time.Second)
	r.want("claims while the store does not answer", claims(), 0)
	r.log.Verdict = r.now
	r.wait(time.Second)
	if claims() == 0 {
		t.Error("an attempt is not claimed after the store has answered")
	}
}

func TestNothingIsRaisedBeforeOthersAreKnown(t *testing.T) {
	r := newRig(t, Config{})
	r.lead()
	r.log.Level = state.LevelStandby - 1
	r.wait(tick)
	r.want("level before the LIST", r.c.LevelMax(), r.log.Level)
	r.list()
	r.want("level after it", r.c.LevelMax(), uint32(state.LevelMax))
}

// TestAnIdleStandbyLooksAtItsStore: otherwise one request without an answer would keep it from a hand-over.
func TestAnIdleStandbyLooksAtItsStore(t *testing.T) {
	r := standbyOf(t)
	r.store = false
	r.wait(10 * time.Second)
	r.want("reads", r.take().Read, true)
	r.store = true
	r.wait(10 * time.Second)
	r.want("reads when the store has answered", r.take().Read, false)
}
