package core

import "github.com/sebbroker/seb/internal/engine/log/state"

// Report is what a core knows of its log and of its part in it. Times are on the clock of Step's now;
// 0: never.
type Report struct {
	Leads  bool
	Stands bool // an attempt to lead is under way
	Loaded bool // the position of the state is one of the log; without a state there is no log yet
	// Hint is the address in the newest SEAL of the path; "": unknown.
	Hint string
	// Life is when the newest slot or SEAL was committed or found.
	Life int64
	// InFlight counts frozen slots that are not committed. Oldest is when the first of them was
	// frozen; 0: none.
	InFlight int
	Oldest   int64
	// Looked is the start of the newest request that showed this leader that it was not fenced.
	Looked int64
}

// Report returns what the core knows.
func (c *Core) Report() Report {
	r := Report{
		Leads:    c.role == RoleLeader,
		Stands:   c.role == RoleStarting && !c.follows(),
		Loaded:   (c.role != RoleStarting || c.attempt.once) && !c.follow.reloading && !c.attempt.outdated,
		Hint:     c.hint,
		Life:     c.life,
		InFlight: len(c.lead.slots),
	}
	if r.Leads {
		r.Looked = c.lead.lookedAt
	}
	if r.InFlight > 0 {
		r.Oldest = c.lead.slots[0].frozenAt
	}
	return r
}

// applied notes that a commit object was applied to the committed state.
func (c *Core) applied(records []state.Record, seal bool) {
	c.life = c.now
	if seal {
		c.hint = leaderHint(records)
	}
}

// leaderHint is the address in the records of a SEAL.
func leaderHint(records []state.Record) string {
	for i := range records {
		if records[i].Kind == state.LeaderHint {
			return records[i].Name
		}
	}
	return ""
}

// looked notes that a request showed this leader that it was not fenced when the request began.
func (c *Core) looked(began int64) { c.lead.lookedAt = max(c.lead.lookedAt, began) }
