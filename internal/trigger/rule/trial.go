package rule

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

const (
	trialSamples = 20
	// trialRow is the estimated memory of an entity, without its name and state; trialID that of an
	// event ID.
	trialRow = 200
	trialID  = 48
)

// ErrTrialMemory: a history does not fit into the limit of a Trial.
var ErrTrialMemory = errors.New("history does not fit into memory")

// Trial applies a rule to a history in memory, and counts. If there are more entities than fit, the
// first ones are evaluated with all their events, and the others are ignored.
type Trial struct {
	Events   int64 // in the history; Matched of them have an effect
	Matched  int64
	Entities int // with events that have an effect
	Firings  int64
	True     int // entities for which the expression is true at the end
	// Waiting is the number of entities with a deadline, the first at Next (ms).
	Waiting int
	Next    int64
	Days    map[string]int64 // firings by day, UTC, as 2006-01-02
	Last    []Sample         // the last firings, at most 20
	// Instances is the largest number of left sides of THEN that were open at once for an entity.
	Instances int
	Truncated bool // there were too many entities: others were ignored

	rule   *Rule
	rows   map[instanceKey]*Row
	seen   map[uint64]int64 // hashes of events with IDs, of one partition, with their times
	part   uint32           // partition of seen
	pruned int64            // time of the last pruning of seen
	limit  int64
	bytes  int64 // estimated memory
}

// Sample is a firing of a trial.
type Sample struct {
	Transition
	Entity    string
	Partition uint32
}

type instanceKey struct {
	entity    string
	partition uint32
}

// NewTrial starts a trial of a rule, which it uses until its end. It needs about limit bytes at
// most.
func NewTrial(r *Rule, limit int64) *Trial {
	return &Trial{Days: map[string]int64{}, rule: r, rows: map[instanceKey]*Row{}, seen: map[uint64]int64{}, limit: limit}
}

// Erase removes an entity.
func (t *Trial) Erase(entity string, partition uint32) {
	k := instanceKey{entity, partition}
	if row := t.rows[k]; row != nil {
		t.bytes -= k.bytes() + int64(cap(row.State))
		delete(t.rows, k)
	}
}

func (k *instanceKey) bytes() int64 { return trialRow + int64(len(k.entity)) }

// full reports whether no more entities may be added; the rest of the limit is for the growth of
// the existing ones.
func (t *Trial) full() bool { return t.bytes > t.limit/2 }

// over returns an error if the limit is exceeded.
func (t *Trial) over() error {
	if t.bytes <= t.limit {
		return nil
	}
	return fmt.Errorf("%w: %d entities and %d event IDs of a day need more than %d bytes", ErrTrialMemory, len(t.rows), len(t.seen), t.limit)
}

// Fresh reports whether an event with an ID of this hash is not a duplicate. Partitions come one
// after another.
func (t *Trial) Fresh(hash [16]byte, e *Event, partition uint32, at int64) (bool, error) {
	if t.part != partition { // duplicates are detected within a partition
		t.bytes -= trialID * int64(len(t.seen))
		t.part, t.pruned = partition, 0
		t.seen = map[uint64]int64{}
	}
	h := binary.BigEndian.Uint64(hash[:])
	if before, ok := t.seen[h]; ok && before >= at-Horizon {
		return false, nil
	}
	if t.Truncated && t.rows[instanceKey{e.EntityID, partition}] == nil {
		return true, nil // the entity is ignored anyway
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

// forget removes IDs that are too old, from time to time.
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

// Event applies an event at its time (ms) and offset, in the order of its partition.
func (t *Trial) Event(e *Event, partition uint32, at, offset int64) error {
	t.Events++
	kinds := t.rule.Match(e)
	if kinds == 0 {
		return nil
	}
	t.Matched++
	k := instanceKey{e.EntityID, partition}
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
	s := &Instance{Entity: k.entity, Partition: partition, Row: row}
	if err := t.rule.Event(s, kinds, at, offset); err != nil {
		return err
	}
	t.Instances = max(t.Instances, t.rule.m.Instances())
	t.edges(s)
	t.bytes += int64(cap(row.State) - before)
	return t.over()
}

// edges counts the firings.
func (t *Trial) edges(s *Instance) {
	for _, e := range s.Transitions {
		if e.Retracts || e.State == Suppressed {
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

// Finish completes an instant (ms), and counts the entities for which the expression is true.
func (t *Trial) Finish(at int64) error {
	for k, row := range t.rows {
		s := &Instance{Entity: k.entity, Partition: k.partition, Row: row}
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
