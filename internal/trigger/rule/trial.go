package rule

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

const (
	trialSamples = 20
	// trialRow is about what an entity takes in memory beside its name and its state, trialID what an event's id does.
	trialRow = 200
	trialID  = 48
)

// ErrTrialMemory says that what is to be kept of a history does not fit into the limit of a Trial.
var ErrTrialMemory = errors.New("it does not fit into memory")

// Trial applies a rule to a history in memory, and counts. Where there are more entities than fit, those that come first
// count, with all that happens to them, and others do not.
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

	rule   *Rule
	rows   map[spotKey]*Row
	seen   map[uint64]int64 // hashes of events with ids, of one partition, with their times
	part   uint32           // which one
	pruned int64            // when those were left out last that are too old
	limit  int64
	bytes  int64 // about what is held
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

// NewTrial is a trial of a rule, which it uses until its end. It keeps about limit bytes at most.
func NewTrial(r *Rule, limit int64) *Trial {
	return &Trial{Days: map[string]int64{}, rule: r, rows: map[spotKey]*Row{}, seen: map[uint64]int64{}, limit: limit}
}

// Erase forgets an entity.
func (t *Trial) Erase(entity string, partition uint32) {
	k := spotKey{entity, partition}
	if row := t.rows[k]; row != nil {
		t.bytes -= k.bytes() + int64(cap(row.State))
		delete(t.rows, k)
	}
}

func (k *spotKey) bytes() int64 { return trialRow + int64(len(k.entity)) }

// full is whether no entity is to be added: the rest is for what those come to need that are there.
func (t *Trial) full() bool { return t.bytes > t.limit/2 }

// over is the error when more is held than the limit.
func (t *Trial) over() error {
	if t.bytes <= t.limit {
		return nil
	}
	return fmt.Errorf("%w: %d entities and %d ids of events of a day need more than %d bytes", ErrTrialMemory, len(t.rows), len(t.seen), t.limit)
}

// Fresh is whether an event counts, which has an id of this hash: none of that id was there within a day before. Partitions
// come one after another.
func (t *Trial) Fresh(hash [16]byte, e *Event, partition uint32, at int64) (bool, error) {
	if t.part != partition { // what was seen matters within a partition
		t.bytes -= trialID * int64(len(t.seen))
		t.part, t.pruned = partition, 0
		t.seen = map[uint64]int64{}
	}
	h := binary.BigEndian.Uint64(hash[:])
	if before, ok := t.seen[h]; ok && before >= at-Horizon {
		return false, nil
	}
	if t.Truncated && t.rows[spotKey{e.EntityID, partition}] == nil {
		return true, nil // it is not counted, so it makes no difference
	}
	if _, ok := t.seen[h]; !ok {
		t.bytes += trialID
	}
	t.seen[h] = at
	if t.full() {
		t.forget(at)
	}
	return true, t.over()
}

// forget leaves out the ids that are too old, now and then.
func (t *Trial) forget(at int64) {
	if at < t.pruned+Horizon/24 {
		return
	}
	t.pruned = at
	for h, seen := range t.seen {
		if seen < at-Horizon {
			t.bytes -= trialID
			delete(t.seen, h)
		}
	}
}

// Event applies an event of a partition at its time (ms) and offset, in the order of the partition.
func (t *Trial) Event(e *Event, partition uint32, at, offset int64) error {
	t.Events++
	kinds := t.rule.Match(e)
	if kinds == 0 {
		return nil
	}
	t.Matched++
	k := spotKey{e.EntityID, partition}
	row := t.rows[k]
	if row == nil {
		if t.full() {
			t.forget(at)
		}
		if t.Truncated = t.Truncated || t.full(); t.Truncated {
			return nil
		}
		row = &Row{}
		t.rows[k] = row
		t.bytes += k.bytes()
	}
	before := cap(row.State)
	s := &Spot{Entity: k.entity, Partition: partition, Row: row}
	if err := t.rule.Event(s, kinds, at, offset); err != nil {
		return err
	}
	t.Instances = max(t.Instances, t.rule.m.Instances())
	t.edges(s)
	t.bytes += int64(cap(row.State) - before)
	return t.over()
}

// edges counts what has happened.
func (t *Trial) edges(s *Spot) {
	for _, e := range s.Edges {
		if e.Falls || e.State == Suppressed {
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
