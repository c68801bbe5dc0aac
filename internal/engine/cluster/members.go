package cluster

import (
	"cmp"
	"fmt"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/sorting"
)

// Members returns what this run knows of all runs, for a Board.
func (c *Core) Members() []Member {
	self := Member{
		Registration: c.cfg.Self, Self: true, Leads: c.l != nil, Up: true, Linked: true, Beat: c.beat, HasBeat: !c.beat.From.IsZero(),
		Why: whyNot(&c.cfg.Self, c.otherKey(), c.leaving, c.storeOK),
	}
	leader := c.leader()
	var others []Member
	for _, p := range c.peers {
		if p.replaced || p.left || !p.listed && !p.hasBeat {
			continue
		}
		m := Member{Registration: p.reg, Leads: c.l == nil && p == leader, Up: c.heard(p), Linked: p.up, Gone: p.gone, Apart: p.apart(), Beat: p.beat, HasBeat: p.hasBeat}
		m.Run = p.run
		if !m.Up {
			m.Silence = c.age(p)
		}
		m.Why = whyNot(&p.reg, !m.Leads && (p.otherKey || p.beat.OtherKey), p.beat.Leaving, !p.hasBeat || p.beat.StoreOK)
		if p.gone {
			m.Why = "it has ended"
		}
		others = append(others, m)
	}
	sorting.Stable(others, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), compareRuns(a.Run, b.Run))
	})
	return append([]Member{self}, others...)
}

// LevelMax returns the highest format level that all runs read which have not ended.
func (c *Core) LevelMax() uint32 {
	level := c.cfg.Self.LevelMax
	if !c.listed {
		level = min(level, c.report.Level) // before the others are known nothing is raised
	}
	for _, p := range c.peers {
		if !p.over() && (p.listed || p.up) && !p.reg.Run.IsZero() {
			level = min(level, p.reg.LevelMax)
		}
	}
	return level
}

// ApartHint says what to do about brokers that do not reach each other.
const ApartHint = "To run both, start them with --advertise and addresses at which they reach each other; to run one, stop the other, or start it with --take-over"

// whyNot says why a run does not become the leader.
func whyNot(r *Registration, otherKey, leaving, storeOK bool) string {
	switch {
	case r.ReadOnly:
		return "it is read-only"
	case otherKey:
		return "its root key is not the leader's"
	case !r.Reachable():
		return "other brokers cannot reach it: it has no --advertise and listens on a loopback address"
	case leaving:
		return "it is stopping"
	case !storeOK:
		return "the object store does not answer it"
	}
	return ""
}

// Wrong returns sentences about what is wrong with the brokers of the bucket.
func (c *Core) Wrong() []string {
	var list []string
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	members := c.Members()
	led, awaited := false, false // awaited: a broker that may be heard soon
	for i := range members {
		m := &members[i]
		led = led || m.Leads
		name := fmt.Sprintf("broker %q (run %s)", m.Name, m.Run.ID)
		switch {
		case m.Self:
		case m.Apart:
			say("The %s is registered, and broker %q and it do not reach each other. One of them takes over when the other commits nothing for %v. "+
				"%s", name, c.cfg.Self.Name, c.t.Apart, ApartHint)
		case m.Gone:
			say("The %s has ended without a goodbye. If it does not return, remove it with: seb cluster forget %s", name, m.Run.ID)
		case !m.Up && m.Stands() && m.Silence <= c.t.Silent:
			awaited = true // a start, or a link that begins
		case !m.Up && m.Stands():
			say("The %s is registered and was not heard for %v. Until it returns the leader commits an empty object from time to time. "+
				"If it does not return, remove it with: seb cluster forget %s", name, m.Silence.Round(time.Second), m.Run.ID)
		}
		if m.HasBeat && !m.Beat.StoreOK && (m.Self || m.Up) {
			say("The object store does not answer the %s.", name)
		}
		if !m.Self && m.Up && m.LevelMax != 0 && m.LevelMax < c.report.Level {
			say("The %s reads format levels up to %d, and the log has level %d: install a newer version there.", name, m.LevelMax, c.report.Level)
		}
		if m.Beat.OtherKey || c.otherKeyOf(m.Run) {
			say("The %s has another root key than the leader: it serves reads only. Start it with the leader's key.", name)
		}
		if p := c.find(m.Run); p != nil && p.secrets && m.Up {
			say("The %s has another secrets key than broker %q, or one of them has none: the one that leads holds deliveries whose "+
				"secrets it cannot read. Start both with the same --secrets-key-file.", name, c.cfg.Self.Name)
		}
	}
	switch {
	case led || awaited || c.reported == 0:
	case c.foreign():
		say("A program that is no broker of this bucket, such as one that embeds Seb, leads the log. Brokers do not take over from it. " +
			"When it has ended, start one of them with --take-over.")
	default:
		say("No broker leads the log, as far as this broker knows.")
	}
	return list
}

func (c *Core) otherKeyOf(run Run) bool {
	p := c.find(run)
	return p != nil && p.otherKey && !p.over() && c.l != nil
}
