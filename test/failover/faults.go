package failover

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// rounds executes all rounds.
func (c *campaign) rounds(ctx context.Context) error {
	type step struct {
		fault Fault
		n     int
	}
	var steps []step
	for _, fault := range c.o.Faults {
		for n := range c.o.Rounds {
			steps = append(steps, step{fault, n + 1})
		}
	}
	if c.o.Shuffle {
		c.rng.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	}
	for i, s := range steps {
		if time.Since(c.began) > c.o.Time {
			break
		}
		c.o.Progress(fmt.Sprintf("%s: round %d of %d, %d of all %d", s.fault, s.n, c.o.Rounds, i+1, len(steps)))
		if s.fault == Standby && !c.fleet.standbys {
			continue // there is none
		}
		if err := c.round(ctx, s.fault, s.n); err != nil {
			return fmt.Errorf("round %d of %s: %w", s.n, s.fault, err)
		}
	}
	return nil
}

// round injects one fault and measures its effects.
func (c *campaign) round(ctx context.Context, fault Fault, number int) error {
	if err := c.settle(ctx); err != nil {
		return err
	}
	leader, before, err := c.fleet.awaitLeader(ctx, 1)
	if err != nil {
		return err
	}
	errorsBefore := map[string]map[string]int{}
	resetsBefore := map[string]int{}
	for _, t := range c.tracks() {
		errorsBefore[t.name], resetsBefore[t.name] = t.counts()
	}
	r := Round{Fault: fault, Number: number, From: time.Since(c.began), Began: time.Now()}
	i := &injection{c: c, round: &r, leader: leader, before: before}
	if err := i.inject(ctx, fault); err != nil {
		return err
	}
	if err := c.settle(ctx); err != nil {
		return err
	}
	r.To = time.Since(c.began)
	_, after, err := c.fleet.awaitLeader(ctx, before)
	if err != nil {
		return err
	}
	r.Takeovers = int(after) - int(before)
	r.Needless = max(0, r.Takeovers-i.due)
	if r.Needless > 0 && c.fleet.net != nil {
		c.violation("round %d of %s (%s), at %s: %d takeovers, epochs %d to %d, want at most %d", number, fault, r.What,
			r.Began.UTC().Format(time.TimeOnly), r.Takeovers, before, after, i.due)
	}
	for _, t := range c.tracks() {
		s := Seen{Client: t.name}
		s.Gap, s.Late, s.Pauses = gaps(t.between(r.From, r.To))
		now, resets := t.counts()
		s.Errors, s.Resets = subtract(now, errorsBefore[t.name]), resets-resetsBefore[t.name]
		r.Seen = append(r.Seen, s)
	}
	c.result.Rounds = append(c.result.Rounds, r)
	return nil
}

// violation notes what the brokers should not have done, though no record suffered.
func (c *campaign) violation(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	c.result.Violations = append(c.result.Violations, text)
	c.o.Progress("violation: " + text)
}

func (c *campaign) tracks() (list []*track) {
	for _, p := range c.producers {
		list = append(list, p.track)
	}
	for _, k := range c.consumers {
		list = append(list, k.track)
	}
	return list
}

// settle waits until all brokers run, one leads and all clients make progress, and then for a time
// without faults.
func (c *campaign) settle(ctx context.Context) error {
	f := c.fleet
	f.reap()
	want := 1
	if f.standbys {
		want = c.o.Brokers
	}
	for len(f.running(nil)) < want {
		if err := f.startReady(ctx, f.idle(f.slots[0])); err != nil {
			return err
		}
	}
	for _, s := range f.running(nil) {
		if err := f.ready(ctx, s); err != nil {
			return err
		}
	}
	if err := c.progressed(ctx); err != nil {
		return err
	}
	sleep(ctx, c.o.Settle)
	f.reap()
	return ctx.Err()
}

// progressed waits until each client has finished a record that was due after the call.
func (c *campaign) progressed(ctx context.Context) error {
	since := time.Since(c.began)
	return await(ctx, "all clients make progress", func() (bool, error) {
		for _, t := range c.tracks() {
			if t.newest() < since {
				return false, nil
			}
		}
		return true, nil
	})
}

// injection is the fault of one round.
type injection struct {
	c      *campaign
	round  *Round
	leader *slot
	before uint32 // the leader's epoch
	due    int    // takeovers that the fault explains
	used   []*slot
}

// inject causes a fault, waits until the clients have recovered from it, and starts what has ended.
func (i *injection) inject(ctx context.Context, fault Fault) error {
	f := i.c.fleet
	switch fault {
	case None:
		return i.hold(ctx, time.Now().Add(i.c.duration(i.c.o.Hold)))
	case Kill:
		i.due = 1
		i.leader.kill()
		return i.replace(ctx)
	case Term:
		i.due = 1
		return i.terminate(ctx)
	case Stop:
		return i.stop(ctx)
	case Standby:
		others := f.running(i.leader)
		s := others[i.c.rng.IntN(len(others))]
		s.kill()
		sleep(ctx, i.c.o.Settle)
		return f.startReady(ctx, s)
	case Roll:
		return i.roll(ctx)
	}
	return i.disturb(ctx, fault)
}

// terminate ends the leader by SIGTERM, and starts a broker in its place. With standbys it measures
// the takeover while the process ends.
func (i *injection) terminate(ctx context.Context) error {
	f := i.c.fleet
	i.leader.broker.Signal(syscall.SIGTERM)
	if f.standbys {
		if err := i.recovered(ctx); err != nil {
			return err
		}
	}
	if err := f.ended(ctx, i.leader); err != nil {
		return err
	}
	if f.standbys {
		return f.startReady(ctx, f.idle(i.leader))
	}
	return i.replace(ctx)
}

// replace waits for the takeover from a leader that has ended, and starts a broker in its place.
func (i *injection) replace(ctx context.Context) error {
	f := i.c.fleet
	if !f.standbys {
		if err := f.start(f.idle(i.leader)); err != nil {
			return err
		}
		return i.recovered(ctx)
	}
	if err := i.recovered(ctx); err != nil {
		return err
	}
	return f.startReady(ctx, i.leader)
}

// recovered waits until another epoch has a leader and all clients make progress there.
func (i *injection) recovered(ctx context.Context) error {
	f := i.c.fleet
	requests := f.requests()
	if _, _, err := f.awaitLeader(ctx, i.before+1); err != nil {
		return err
	}
	i.round.Led = time.Since(i.c.began) - i.round.From
	err := i.c.progressed(ctx)
	i.round.Requests = named(f.requests().Sub(requests))
	return err
}

// stop stops the leader for a time, during which another broker may take over.
func (i *injection) stop(ctx context.Context) error {
	f := i.c.fleet
	defer func() { // also after an error
		i.leader.broker.Signal(syscall.SIGCONT)
		i.leader.stopped = false
	}()
	i.leader.broker.Signal(syscall.SIGSTOP)
	i.leader.stopped = true
	until := time.Now().Add(i.c.duration(i.c.o.StopTime))
	if f.standbys {
		i.due = 1
		limited, cancel := context.WithDeadline(ctx, until)
		defer cancel()
		if err := i.recovered(limited); err != nil && limited.Err() == nil {
			return err // else the next leader may be the stopped one
		}
	}
	sleep(ctx, time.Until(until))
	return ctx.Err()
}

// roll replaces all brokers, one after the other.
func (i *injection) roll(ctx context.Context) error {
	f := i.c.fleet
	for _, s := range f.running(nil) {
		leader, _, err := f.awaitLeader(ctx, i.before)
		if err != nil {
			return err
		}
		if leader == s {
			i.due++
		}
		next := s
		if i.c.o.Replace {
			next = f.idle(s)
			if err := f.startReady(ctx, next); err != nil {
				return err
			}
		}
		s.broker.Signal(syscall.SIGTERM)
		if err := f.ended(ctx, s); err != nil {
			return err
		}
		if !i.c.o.Replace {
			if err := f.startReady(ctx, next); err != nil {
				return err
			}
		}
		if err := i.c.progressed(ctx); err != nil {
			return err
		}
	}
	return nil
}
