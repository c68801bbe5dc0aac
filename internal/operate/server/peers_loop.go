package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/pause"
	"github.com/sebbroker/seb/internal/engine/base/wake"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/cluster/link"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
)

const (
	// messagesMax bounds the events that wait for the loop. Beyond it, messages of other brokers are
	// lost, as on a bad network.
	messagesMax = 1024
)

// loop steps the Core. One goroutine, run, does so and performs the effects.
type loop struct {
	p    *peers
	wake wake.Signal // there are events
	turn wake.Signal // the log has begun or ended to lead

	in     sync.Mutex // guards events
	events []cluster.Event

	mu   sync.Mutex // guards core
	core *cluster.Core

	left    chan struct{} // closed when nothing is left to hand over
	ended   chan struct{} // closed when run has returned
	hands   chan chan error
	rounds  cluster.Rounds
	waits   []chan error // unanswered calls of HandOver; capacity 1 each
	changed bool         // front ends may see something new
	told    time.Time    // when they were told
	leads   bool         // as of the newest Report
	feeds   bool         // the log gives its slots
	heard   bool         // another broker is heard to lead, so the log need not look for its slots
	known   map[cluster.Run]string
	leader  cluster.Run
}

func newLoop(p *peers, core *cluster.Core) *loop {
	return &loop{
		p: p, core: core, wake: wake.New(), turn: wake.New(), left: make(chan struct{}), ended: make(chan struct{}), hands: make(chan chan error),
		known: map[cluster.Run]string{}, rounds: cluster.Rounds{Every: cluster.Round},
	}
}

func (l *loop) run(ctx context.Context, found []cluster.Registration) {
	defer close(l.ended)
	timer := time.NewTimer(0)
	defer timer.Stop()
	l.p.running.Go(func() { l.join(ctx, found) })
	l.p.s.node.WhileLeading(func(ctx context.Context) {
		l.turn.Send()
		<-ctx.Done()
		l.turn.Send()
	})
	for {
		select {
		case <-l.wake:
			for _, ev := range l.take() {
				l.step(ctx, &ev)
			}
		case answer := <-l.hands:
			l.waits = append(l.waits, answer)
			l.step(ctx, &cluster.Event{Kind: cluster.EvHandOver})
		case <-l.turn:
			l.ask(ctx, l.rounds.Turned(time.Now()))
		case <-timer.C:
			l.ask(ctx, l.rounds.Begin(time.Now()))
		case <-ctx.Done():
			for _, answer := range l.waits {
				answer <- context.Cause(ctx)
			}
			return
		}
		timer.Reset(l.rounds.Wait(time.Now(), l.leads && l.core.Alone())) // alone it leads without rounds
	}
}

// join tells the Core which runs there are, after the own registration is stored: others refuse links
// of a run that is not registered, and two brokers that start at the same time may both have listed
// before either was. A store check delays every PUT, so this broker could not lead earlier either.
func (l *loop) join(ctx context.Context, found []cluster.Registration) {
	if !l.registered(ctx) {
		return
	}
	if listing, err := l.p.list(ctx, l.p.store); err == nil && !listing.More {
		found = listing.Found
	}
	l.p.meet(found)
	l.put(cluster.Event{Kind: cluster.EvListed, Listed: found})
}

// ask asks for a Report, if one is wanted. The answer of the loop that owns the log shows that it runs,
// so without an answer there is no beat.
func (l *loop) ask(ctx context.Context, wanted bool) {
	if !wanted {
		return
	}
	l.p.running.Go(func() {
		ev := cluster.Event{Kind: cluster.EvReport}
		ev.Report, ev.Err = l.p.s.node.Report(ctx)
		ev.StoreOK = l.p.s.node.StoreFault() == nil
		l.put(ev)
	})
}

// put adds an event. It does not wait.
func (l *loop) put(ev cluster.Event) {
	l.in.Lock()
	if ev.Kind != cluster.EvMessage || len(l.events) < messagesMax {
		l.events = append(l.events, ev)
	}
	l.in.Unlock()
	l.wake.Send()
}

func (l *loop) take() []cluster.Event {
	l.in.Lock()
	defer l.in.Unlock()
	events := l.events
	l.events = nil
	return events
}

// linkEvent handles an event of a link. Slots go to the log, which checks them.
func (l *loop) linkEvent(ev link.Event) {
	e := cluster.Event{From: ev.From}
	switch ev.Kind {
	case link.Fed:
		switch n := l.p.s.node; {
		case ev.Prefix == nil:
			n.Reach(state.Position{Epoch: ev.Pos.Epoch, Slot: ev.Pos.Slot + 1})
		default:
			if err := n.Feed(ev.Prefix); err != nil && !errors.Is(err, broker.ErrClosed) {
				l.p.log.Warn("slot of another broker ignored", "run", ev.From.String(), "err", err)
			}
		}
		return
	case link.Linked:
		e.Kind, e.Registration, e.OtherKey, e.OtherSecrets = cluster.EvLinked, ev.Registration, ev.OtherKey, ev.OtherSecrets
		if ev.OtherKey || ev.OtherSecrets {
			l.p.log.Warn("another broker has other keys", "broker", ev.Registration.Name, "run", ev.From.String(), "other_root_key", ev.OtherKey,
				"other_secrets_key", ev.OtherSecrets, "hint", "--http-api-key-file, --secrets-key-file")
		}
	case link.Received:
		e.Kind, e.Message = cluster.EvMessage, ev.Message
	case link.Ended:
		e.Kind, e.ByPeer = cluster.EvEnded, ev.ByPeer
	case link.Refused:
		e.Kind = cluster.EvRefused
	case link.Replaced:
		e.Kind = cluster.EvReplaced
	default:
		return
	}
	l.put(e)
}

// step handles an event.
func (l *loop) step(ctx context.Context, ev *cluster.Event) {
	if ev.Kind == cluster.EvReport && !l.rounds.Answered(ev.Err) {
		return
	}
	var fx cluster.Effects
	l.mu.Lock()
	l.core.Step(time.Now(), ev, &fx)
	l.mu.Unlock()
	l.perform(ctx, &fx)
	l.changed = l.changed || fx.Ask || len(fx.Send) > 0 || fx.Left
	if ev.Kind == cluster.EvReport {
		l.report(&ev.Report)
	}
	if fx.Left {
		closeOnce(l.left) // front ends know the next leader
	}
	l.ask(ctx, l.rounds.Stepped(time.Now(), &fx))
}

// perform performs effects, and waits for nothing.
func (l *loop) perform(ctx context.Context, fx *cluster.Effects) {
	n, p := l.p.s.node, l.p
	if p.net != nil {
		for _, run := range fx.Forget {
			p.net.Forget(run)
		}
		for i := range fx.Connect {
			p.net.Expect(&fx.Connect[i])
		}
		for i := range fx.Send {
			p.net.Send(fx.Send[i].To, &fx.Send[i].Message)
		}
	}
	if fx.Reach != (state.Position{}) {
		n.Reach(fx.Reach)
	}
	if fx.Read {
		n.Reach(state.Position{})
	}
	if fx.StepDown {
		p.running.Go(func() { _ = n.StepDown(ctx, fx.Epoch) }) // an error ends the log too
	}
	if fx.Show {
		n.Show(fx.Pace, fx.Promise)
	}
	switch fx.Park {
	case cluster.Unpark:
		n.Unpark()
	case cluster.Park, cluster.Drain:
		parked := n.BeginPark(fx.Park == cluster.Drain) // before an Unpark that comes later
		p.running.Go(func() {
			r, err := parked(ctx)
			if err == nil {
				l.put(cluster.Event{Kind: cluster.EvParked, Report: r})
			}
		})
	}
	if fx.Stand {
		p.log.Info("tries to lead")
		stand := n.Stand
		if fx.Gone {
			stand = n.Succeed
		}
		p.running.Go(func() { l.put(cluster.Event{Kind: cluster.EvStood, Err: stand(ctx)}) })
	}
	if adds := !fx.List; fx.List || fx.Seek {
		p.running.Go(func() { l.list(ctx, adds) })
	}
	if !fx.Find.IsZero() {
		p.running.Go(func() { l.find(ctx, fx.Find) })
	}
	if fx.Register {
		p.running.Go(func() { l.keepRegistered(ctx) })
	}
	if len(fx.Remove) > 0 {
		p.running.Go(func() { p.remove(ctx, fx.Remove) })
	}
	if fx.Exit {
		p.s.end(errApart())
	}
	if fx.Handed {
		for _, answer := range l.waits {
			answer <- fx.HandErr
		}
		l.waits = nil
	}
}

// closeOnce closes a channel that only one goroutine closes at a time.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// report tells front ends and people what has changed.
func (l *loop) report(r *cluster.Report) {
	if !l.changed && l.leads == r.Leads && time.Since(l.told) < time.Second {
		return // nothing since the newest beat
	}
	l.changed, l.told = false, time.Now()
	l.mu.Lock()
	members, wrong := l.core.Members(), l.core.Wrong()
	l.mu.Unlock()
	if l.leads && !r.Leads && !l.p.self.Reachable() {
		l.p.s.end(errApart()) // it reaches no broker, and would stand against the one that deposed it
	}
	if feeds := r.Leads && l.p.net != nil && l.p.net.Linked() > 0; feeds != l.feeds {
		l.feeds = feeds
		l.p.s.node.Feeds(feeds)
	}
	l.leads = r.Leads
	l.p.board.Set(members, wrong)
	for i := range members[1:] {
		m := &members[1+i]
		now := "silent"
		switch {
		case m.Up:
			now = "up"
		case m.Gone:
			now = "gone"
		case m.Apart:
			now = "apart"
		}
		switch was := l.known[m.Run]; {
		case was == now:
		case m.Apart:
			l.p.log.Warn("another broker of the bucket and this one do not reach each other", "name", m.Name, "run", m.Run.ID.String(), "url", m.URL,
				"takes_over_after", cluster.Designed.Apart, "hint", cluster.ApartHint)
		case was != "" || m.Up:
			l.p.log.Info("broker "+now, "name", m.Name, "run", m.Run.ID.String(), "url", m.URL)
		}
		l.known[m.Run] = now
	}
	leader, ok := l.p.board.Leader()
	if heard := ok && leader.Run != l.p.self.Run; heard != l.heard {
		l.heard = heard
		l.p.s.node.Heard(heard)
	}
	if ok && leader.Run != l.leader {
		l.leader = leader.Run
		l.p.log.Info("leader", "name", leader.Name, "run", leader.Run.ID.String(), "url", leader.URL, "self", leader.Run == l.p.self.Run)
	}
}

// list reads the registrations again. Without an answer the next round of the Core asks again. adds: runs
// that are not listed may have lost their registrations.
func (l *loop) list(ctx context.Context, adds bool) {
	listing, err := l.p.listOnce(ctx, l.p.store)
	switch {
	case err != nil:
	case adds:
		for i := range listing.Found {
			l.put(cluster.Event{Kind: cluster.EvFound, Registration: listing.Found[i]})
		}
	case !listing.More: // an incomplete list would show runs as gone that are registered
		l.put(cluster.Event{Kind: cluster.EvListed, Listed: listing.Found})
	}
}

// find reads the registration of a run.
func (l *loop) find(ctx context.Context, run cluster.Run) {
	if !l.registered(ctx) {
		return
	}
	if r, err := l.p.get(ctx, run); err == nil {
		l.put(cluster.Event{Kind: cluster.EvFound, Registration: r})
	}
}

// registered waits until the own registration is stored.
func (l *loop) registered(ctx context.Context) bool {
	select {
	case <-l.p.registered:
		return true
	case <-ctx.Done():
		return false
	}
}

// keepRegistered stores the registration again if it was removed.
func (l *loop) keepRegistered(ctx context.Context) {
	if !l.registered(ctx) {
		return
	}
	_, err := link.Get(ctx, l.p.store, l.p.self.Run)
	for errors.Is(err, objstore.ErrNoVerdict) && ctx.Err() == nil {
		if pause.Wait(ctx, listPause) == nil {
			_, err = link.Get(ctx, l.p.store, l.p.self.Run)
		}
	}
	if errors.Is(err, objstore.ErrNotFound) {
		l.p.log.Warn("registration of this broker was removed, and is stored again")
		switch err := link.Put(ctx, l.p.store, &l.p.self); {
		case err == nil:
			l.list(ctx, true) // a broker that has started meanwhile did not find this one
		case ctx.Err() == nil:
			l.p.log.Warn("registration not stored", "err", err)
		}
	}
}

// leave tells the Core that this process ends, and waits until nothing is left to hand over.
func (l *loop) leave(ctx context.Context) {
	l.put(cluster.Event{Kind: cluster.EvLeave})
	select {
	case <-l.left:
	case <-l.ended:
	case <-ctx.Done():
	}
}

// inDoubt reports whether this leader may have been deposed without knowing it.
func (p *peers) inDoubt() bool {
	if p.loop == nil {
		return false
	}
	p.loop.mu.Lock()
	defer p.loop.mu.Unlock()
	return p.loop.core.InDoubt(time.Now())
}

// told returns a position of the leader, and how old it is.
func (p *peers) told() (pos state.Position, age time.Duration, ok bool) {
	if p.loop == nil {
		return pos, 0, false
	}
	p.loop.mu.Lock()
	defer p.loop.mu.Unlock()
	return p.loop.core.Told(time.Now())
}

// raiseMax returns the highest format level that all brokers of the bucket read.
func (p *peers) raiseMax() uint32 {
	if p.loop == nil {
		return state.LevelMax
	}
	p.loop.mu.Lock()
	defer p.loop.mu.Unlock()
	return p.loop.core.LevelMax()
}

// fed gives a committed slot to the other brokers.
func (p *peers) fed(pos state.Position, prefix []byte) {
	if p.net != nil {
		p.net.Feed(pos, prefix)
	}
}

// HandOver implements cluster.Control.
func (p *peers) HandOver(ctx context.Context) error {
	answer := make(chan error, 1)
	select {
	case p.loop.hands <- answer:
	case <-p.loop.ended:
		return broker.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Forget implements cluster.Control.
func (p *peers) Forget(ctx context.Context, run cluster.Run) error {
	for _, m := range p.board.Members() {
		if m.Run == run && m.Up {
			return cluster.ErrRunUp
		}
	}
	if _, err := link.Get(ctx, p.store, run); errors.Is(err, objstore.ErrNotFound) {
		return cluster.ErrUnknownRun
	}
	if err := link.Delete(ctx, p.store, run); err != nil {
		return err
	}
	for _, m := range p.board.Members()[1:] {
		p.net.Send(m.Run, &cluster.Message{Kind: cluster.MsgForgotten})
	}
	p.loop.list(ctx, false)
	return nil
}
