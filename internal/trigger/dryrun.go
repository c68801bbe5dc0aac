package trigger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/sebbroker/seb/internal/follow"
	"github.com/sebbroker/seb/internal/trigger/rule"

	"github.com/sebbroker/seb/record"
)

// dryReadBytes bounds one read of a dry run.
const dryReadBytes = 512 << 10

// DryRun is the result of a definition that was applied to the history.
type DryRun struct {
	rule.Trial
	Samples  []Firing // the last firings, at most 20
	History  []int64  // the offset of the first event of each partition; earlier events are unknown
	Complete int64    // the instant (ms) up to which the history was evaluated
	Warnings []string
}

// dry is a running dry run.
type dry struct{ *rule.Trial }

// ErrTooLarge: a value exceeds its share of memory; the text names it.
var ErrTooLarge = errors.New("too large")

// DryRun applies a definition to the history. It uses about limit bytes of memory and writes
// nothing. If the entities do not fit, it evaluates the first ones and sets Truncated. It ignores
// d.Backfill and the members that the engine sets. Errors: ErrInvalid, ErrUnavailable, ErrTooLarge,
// ctx's, those of the log.
func (e *Engine) DryRun(ctx context.Context, d rule.Definition, limit int64) (*DryRun, error) {
	d = d.WithDefaults()
	d.ID = cmp.Or(d.ID, "dry-run")
	d.Backfill, d.Version, d.From, d.At = rule.Replay, 1, nil, math.MinInt64
	if err := d.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	r, err := rule.Compile(d)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	t, ok := e.opt.Log.Topic(d.Topic)
	if !ok {
		return nil, fmt.Errorf("%w: topic: topic %q does not exist yet: the first event creates it", ErrInvalid, d.Topic)
	}
	if !t.AppendTime {
		return nil, fmt.Errorf("%w: topic: topic %q does not hold events", ErrInvalid, d.Topic)
	}
	p, known := e.opt.Log.Position(t.ID)
	if !known {
		return nil, ErrUnavailable
	}
	run, out := &dry{rule.NewTrial(r, limit)}, &DryRun{Complete: p.Complete(), Warnings: rule.Warnings(&d)}
	for part, span := range p.Topics[0] {
		out.History = append(out.History, span.Start)
		if err := run.partition(ctx, e.opt.Log, partitionKey{t.ID, uint32(part)}, span); err != nil {
			if errors.Is(err, rule.ErrTrialMemory) {
				err = fmt.Errorf("%w: %w; instead, create the trigger paused, with backfill silent: it lists these firings as historic",
					ErrTooLarge, err)
			}
			return nil, err
		}
	}
	err = run.Finish(out.Complete)
	out.Trial = *run.Trial
	for _, x := range run.Last {
		out.Samples = append(out.Samples, Firing{
			ID: x.ID, Trigger: d.ID, Entity: x.Entity, Version: d.Version, Topic: d.Topic, Partition: x.Partition,
			At: x.At, Cause: x.Cause, Witness: x.Witness, State: x.State,
		})
	}
	return out, err
}

// partitionKey is a partition of a topic.
type partitionKey struct {
	topic record.ID
	part  uint32
}

// partition applies the events of a partition.
func (x *dry) partition(ctx context.Context, log Log, at partitionKey, span follow.Span) error {
	clock := int64(0)
	for from := span.Start; from < span.Next; {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		b, err := log.Read(ctx, at.topic, at.part, from, dryReadBytes)
		if err != nil {
			return err
		}
		before := from
		from, err = x.batches(&b, at, &clock, follow.Span{Start: from, Next: span.Next})
		b.Release()
		if err != nil {
			return err
		}
		if from == before {
			return nil
		}
	}
	return nil
}

// batches applies the records of a read within a span, and returns the offset after the last one.
func (x *dry) batches(b *follow.Batches, at partitionKey, clock *int64, span follow.Span) (next int64, err error) {
	var r record.Reader
	next = max(span.Start, b.From)
	for one, err := range b.All() {
		if err != nil {
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

func (x *dry) record(rec *record.Record, at partitionKey, clock int64) error {
	if rec.Value == nil {
		x.Erase(string(rec.Key), at.part)
		return nil
	}
	e, err := rule.ParseEvent(rec.Key, rec.Value)
	if err != nil {
		return nil // the engine skips it too
	}
	if e.ID != "" {
		fresh, err := x.Fresh(rule.Hash(at.topic, at.part, e.EntityID, e.ID), &e, at.part, clock)
		if err != nil || !fresh {
			return err
		}
	}
	return x.Event(&e, at.part, clock, rec.Offset)
}
