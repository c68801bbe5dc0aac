package triggers

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/sebbroker/seb/internal/triggers/entry"
	"github.com/sebbroker/seb/internal/triggers/rule"
	"github.com/sebbroker/seb/internal/triggers/store"
	"github.com/sebbroker/seb/record"
)

// Limits of a dry run.
const (
	dryEntities = 1_000_000 // entities, and ids of events, that are kept in memory
	drySamples  = 20
)

// DryRun is what a trigger would have done had it always been there.
type DryRun struct {
	Events   int64 // in the history; Matched of them matter
	Matched  int64
	Entities int // to which something has happened that matters
	Firings  int64
	True     int // entities of which the expression is true now
	// Waiting is how many entities will change by themselves, the first at Next (ms).
	Waiting int
	Next    int64
	Days    map[string]int64 // firings by day, UTC, as 2006-01-02
	Samples []Firing         // the last ones, at most 20
	// Instances is the most left sides of THEN that were followed at once for one entity.
	Instances int
	History   []int64 // the offset of the first event of each partition: what came before is not known
	Complete  int64   // the instant (ms) up to which it was looked at
	Truncated bool    // there were too many entities: the rest of the history was left out
	Warnings  []string
}

// dry is a dry run in the making.
type dry struct {
	*DryRun
	r    *rule.Rule
	d    *rule.Definition
	rows map[store.InstKey]*rule.Row
	seen map[store.Hash]int64
}

// DryRun applies a definition to the history, in memory and without writing anything. Its Backfill and what is the engine's
// in it do not matter. Errors: ErrInvalid, ErrUnavailable, ctx's, those of the log.
func (e *Engine) DryRun(ctx context.Context, d rule.Definition) (*DryRun, error) {
	d = d.WithDefaults()
	if d.ID == "" {
		d.ID = "dry-run"
	}
	d.Backfill, d.Version, d.From, d.At = rule.Replay, 1, nil, math.MinInt64
	if err := d.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	r, err := rule.Compile(d)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	t, ok := e.opt.Log.Topic(d.Topic)
	if !ok || !t.AppendTime {
		return nil, fmt.Errorf("%w: topic: %s is no topic of events", ErrInvalid, d.Topic)
	}
	p, known := e.opt.Log.Position(t.ID)
	if !known {
		return nil, ErrUnavailable
	}
	run := &dry{
		DryRun: &DryRun{Days: map[string]int64{}, Complete: p.complete(), Warnings: rule.Warnings(&d)},
		r:      r, d: &d, rows: map[store.InstKey]*rule.Row{}, seen: map[store.Hash]int64{},
	}
	for part, span := range p.Topics[0] {
		run.History = append(run.History, span.Start)
		if err := run.partition(ctx, e.opt.Log, lane{t.ID, uint32(part)}, span); err != nil {
			return nil, err
		}
	}
	return run.DryRun, run.finish()
}

// lane is a partition of a topic.
type lane struct {
	topic record.ID
	part  uint32
}

// partition applies the events of one.
func (x *dry) partition(ctx context.Context, log Log, at lane, span Span) error {
	clock := int64(0)
	for from := span.Start; from < span.Next && !x.Truncated; {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		b, err := log.Read(ctx, at.topic, at.part, from, usualSizes.readBytes)
		if err != nil {
			return err
		}
		before := from
		for _, part := range b.Parts {
			if from, err = x.batches(part, at, &clock, Span{from, span.Next}); err != nil {
				break
			}
		}
		if b.Release != nil {
			b.Release()
		}
		if err != nil {
			return err
		}
		if from == before {
			return nil
		}
	}
	return nil
}

// batches applies those of a run of batches that lie in a span, and returns the offset behind.
func (x *dry) batches(part []byte, at lane, clock *int64, span Span) (next int64, err error) {
	var r record.Reader
	next = span.Start
	for rest := part; len(rest) > 0; {
		var one record.Batch
		if one, rest, err = record.Split(rest); err != nil {
			return next, err
		}
		next = one.BaseOffset() + one.Span()
		if one.Attributes()&record.AttrLogAppendTime == 0 {
			continue
		}
		for r.Reset(one, span.Start); r.Next() && r.Offset() < span.Next; {
			rec := r.Record()
			*clock = max(*clock, rec.Timestamp)
			if err := x.record(rec, at, *clock); err != nil {
				return next, err
			}
		}
		if r.Err() != nil {
			return next, r.Err()
		}
	}
	return next, nil
}

func (x *dry) record(rec *record.Record, at lane, clock int64) error {
	k := store.InstKey{Entity: string(rec.Key), Partition: at.part}
	if rec.Value == nil {
		delete(x.rows, k)
		return nil
	}
	e, err := entry.ParseEvent(rec.Key, rec.Value)
	if err != nil {
		return nil // as the engine skips it
	}
	x.Events++
	if e.ID != "" {
		h := hash(at.topic, at.part, e.EntityID, e.ID)
		if before, ok := x.seen[h]; ok && before >= clock-horizon {
			return nil
		}
		x.remember(h, clock)
	}
	kinds := x.r.Match(&e)
	if kinds == 0 {
		return nil
	}
	x.Matched++
	row := x.rows[k]
	if row == nil {
		if x.Truncated = x.Truncated || len(x.rows) >= dryEntities; x.Truncated {
			return nil
		}
		row = &rule.Row{}
		x.rows[k] = row
	}
	s := &rule.Spot{Entity: k.Entity, Partition: k.Partition, Row: row}
	if err := x.r.Event(s, kinds, clock, rec.Offset); err != nil {
		return err
	}
	x.Instances = max(x.Instances, x.r.Instances())
	x.edges(s)
	return nil
}

// remember notes an id, and forgets those that are too old when there are too many.
func (x *dry) remember(h store.Hash, clock int64) {
	if len(x.seen) >= dryEntities {
		for h, at := range x.seen {
			if at < clock-horizon {
				delete(x.seen, h)
			}
		}
		x.Truncated = x.Truncated || len(x.seen) >= dryEntities
	}
	x.seen[h] = clock
}

// edges counts what has happened.
func (x *dry) edges(s *rule.Spot) {
	for i := range s.Edges {
		e := &s.Edges[i]
		if e.Falls || e.State == entry.Suppressed {
			continue
		}
		x.Firings++
		x.Days[time.UnixMilli(e.At).UTC().Format(time.DateOnly)]++
		f := Firing{
			ID: e.ID, Trigger: x.d.ID, Entity: s.Entity, Version: x.d.Version, Topic: x.d.Topic, Partition: s.Partition,
			At: e.At, Cause: e.Cause, Witness: e.Witness, State: e.State,
		}
		if len(x.Samples) == drySamples {
			copy(x.Samples, x.Samples[1:])
			x.Samples = x.Samples[:drySamples-1]
		}
		x.Samples = append(x.Samples, f)
	}
}

// finish passes what is due by now.
func (x *dry) finish() error {
	for k, row := range x.rows {
		s := &rule.Spot{Entity: k.Entity, Partition: k.Partition, Row: row}
		if err := x.r.Until(s, x.Complete); err != nil {
			return err
		}
		x.edges(s)
		if row.Flags&rule.True != 0 {
			x.True++
		}
		if row.Due != 0 {
			if x.Waiting++; x.Next == 0 || row.Due < x.Next {
				x.Next = row.Due
			}
		}
	}
	x.Entities = len(x.rows)
	return nil
}
