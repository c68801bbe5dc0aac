package rule

import (
	"time"

	"github.com/sebbroker/seb/internal/triggers/entry"
)

// Limits of a trial.
const (
	trialEntities = 1_000_000 // entities that are kept in memory
	trialSamples  = 20
)

// Trial applies a rule to a history in memory, and counts.
type Trial struct {
	Events   int64 // in the history; Matched of them matter
	Matched  int64
	Entities int // to which something has happened that matters
	Firings  int64
	True     int // entities of which the expression is true at the end
	// Waiting is how many entities will change by themselves, the first at Next (ms).
	Waiting int
	Next    int64
	Days    map[string]int64 // firings by day, UTC, as 2006-01-02
	Last    []Sample         // the last firings, at most 20
	// Instances is the most left sides of THEN that were followed at once for one entity.
	Instances int
	Truncated bool // there were too many entities: others were left out

	rule *Rule
	rows map[spotKey]*Row
}

// Sample is a firing of a trial.
type Sample struct {
	Edge
	Entity    string
	Partition uint32
}

type spotKey struct {
	entity    string
	partition uint32
}

// NewTrial is a trial of a rule, which it uses until its end.
func NewTrial(r *Rule) *Trial {
	return &Trial{Days: map[string]int64{}, rule: r, rows: map[spotKey]*Row{}}
}

// Erase forgets an entity.
func (t *Trial) Erase(entity string, partition uint32) { delete(t.rows, spotKey{entity, partition}) }

// Event applies an event of a partition at its time (ms) and offset, in the order of the partition.
func (t *Trial) Event(e *entry.Event, partition uint32, at, offset int64) error {
	t.Events++
	kinds := t.rule.Match(e)
	if kinds == 0 {
		return nil
	}
	t.Matched++
	k := spotKey{e.EntityID, partition}
	row := t.rows[k]
	if row == nil {
		if t.Truncated = t.Truncated || len(t.rows) >= trialEntities; t.Truncated {
			return nil
		}
		row = &Row{}
		t.rows[k] = row
	}
	s := &Spot{Entity: k.entity, Partition: partition, Row: row}
	if err := t.rule.Event(s, kinds, at, offset); err != nil {
		return err
	}
	t.Instances = max(t.Instances, t.rule.m.Instances())
	t.edges(s)
	return nil
}

// edges counts what has happened.
func (t *Trial) edges(s *Spot) {
	for _, e := range s.Edges {
		if e.Falls || e.State == entry.Suppressed {
			continue
		}
		t.Firings++
		t.Days[time.UnixMilli(e.At).UTC().Format(time.DateOnly)]++
		if len(t.Last) == trialSamples {
			copy(t.Last, t.Last[1:])
			t.Last = t.Last[:trialSamples-1]
		}
		t.Last = append(t.Last, Sample{e, s.Entity, s.Partition})
	}
}

// Finish completes an instant (ms), and counts what is true then.
func (t *Trial) Finish(at int64) error {
	for k, row := range t.rows {
		s := &Spot{Entity: k.entity, Partition: k.partition, Row: row}
		if err := t.rule.Until(s, at); err != nil {
			return err
		}
		t.edges(s)
		if row.Flags&True != 0 {
			t.True++
		}
		if row.Due != 0 {
			if t.Waiting++; t.Next == 0 || row.Due < t.Next {
				t.Next = row.Due
			}
		}
	}
	t.Entities = len(t.rows)
	return nil
}
