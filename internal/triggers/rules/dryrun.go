package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/sebbroker/seb/internal/engine/views"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"

	"github.com/sebbroker/seb/record"
)

const (
	// dryReadBytes bounds one read of a dry run.
	dryReadBytes = 512 << 10
	// dryPoll is the number of records, or at the end of entities, after which a dry run looks at its
	// context and its pacer.
	dryPoll = 64
	// A dry run works for dryFree, about 100,000 events, as fast as it can. After that it pauses after
	// each dryWork for as long as it has worked, at most dryPauseMax. It so takes at most half of a
	// processor from producers, and less if it waits for the processor itself.
	dryFree     = 100 * time.Millisecond
	dryWork     = 5 * time.Millisecond
	dryPauseMax = 50 * time.Millisecond
)

// DryRunOptions configure DryRun.
type DryRunOptions struct {
	rule.TrialOptions
	// Progress is called about every 64 records with growing numbers, by the goroutine of the caller.
	// Its error ends the dry run. nil: none.
	Progress func(DryRunProgress) error
}

// DryRunProgress is how far a dry run is.
type DryRunProgress struct {
	Read  int64 // records that were read or skipped
	Total int64 // records in the history, at most: deleted ones count, and those after Until
}

// DryRun is the result of a definition that was applied to the history.
type DryRun struct {
	rule.Trial
	Samples  []Firing // the last firings, at most 20
	History  []int64  // the offset of the first event of each partition; earlier events are unknown
	Complete int64    // the instant (ms) up to which the history was evaluated
	Skipped  int64    // records that are no events
	// Known is the time (ms) of the first event after all that were deleted by retention or a trim, or
	// lost in a recovery: the counts of earlier times are too small. 0: no event is missing.
	Known    int64
	Warnings []string
}

// dry is a running dry run.
type dry struct {
	*rule.Trial
	log  Log
	o    DryRunOptions
	out  *DryRun
	p    DryRunProgress
	done int64 // records of earlier partitions
	n    int   // records
	pacer
}

// pacer bounds the share of the processor that a dry run takes.
type pacer struct {
	began  time.Time // of the work since the last pause
	worked time.Duration
}

// pace pauses if it is time to.
func (p *pacer) pace() {
	work := time.Since(p.began)
	if work < dryWork {
		return
	}
	if p.worked += work; p.worked > dryFree {
		time.Sleep(min(work, dryPauseMax))
	}
	p.began = time.Now()
}

// waited says that the dry run has waited for the log for a time.
func (p *pacer) waited(d time.Duration) { p.began = p.began.Add(d) }

// ErrTooLarge: a value exceeds its share of memory; the text names it.
var ErrTooLarge = errors.New("too large")

// DryRun applies a definition to the history. It uses about o.Limit bytes of memory and writes
// nothing. If the entities do not fit, it evaluates the first ones and sets Truncated. The history
// always begins with the first event of the log, because events before o.Since can lead to firings
// after it; it ends at o.Until. DryRun ignores d.Backfill and the members that the engine sets.
// Errors: ErrInvalid, ErrUnavailable, ErrTooLarge, ctx's, those of the log and of o's functions.
func (e *Engine) DryRun(ctx context.Context, d rule.Definition, o DryRunOptions) (*DryRun, error) {
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
	if o.Until == 0 {
		o.Until = math.MaxInt64
	}
	x := &dry{
		log: e.opt.Log, o: o, pacer: pacer{began: time.Now()},
		out: &DryRun{Complete: min(p.CompleteIn(0), o.Until-1), Warnings: rule.Warnings(&d)},
	}
	o.Poll = func() error { return x.poll(ctx) }
	x.Trial = rule.NewTrial(r, o.TrialOptions)
	if err := x.run(ctx, t.ID, p.Topics[0]); err != nil {
		if errors.Is(err, rule.ErrTrialMemory) {
			err = fmt.Errorf("%w: %w; evaluate a sample of the entities, or create the trigger paused, with backfill silent: it lists these firings as historic",
				ErrTooLarge, err)
		}
		return nil, err
	}
	x.out.Trial = *x.Trial
	for _, s := range x.Last {
		x.out.Samples = append(x.out.Samples, Firing{
			ID: s.ID, Trigger: d.ID, Entity: s.Entity, Version: d.Version, Topic: d.Topic, Partition: s.Partition,
			At: s.At, Cause: s.Cause, Witness: s.Witness, State: s.State,
		})
	}
	return x.out, nil
}

// partitionKey is a partition of a topic.
type partitionKey struct {
	topic record.ID
	part  uint32
}

// run applies the history of a topic.
func (x *dry) run(ctx context.Context, topic record.ID, spans []views.Span) error {
	for _, span := range spans {
		x.out.History = append(x.out.History, span.Start)
		x.p.Total += span.Next - span.Start
	}
	if err := x.progress(0); err != nil {
		return err
	}
	for part, span := range spans {
		if err := x.partition(ctx, partitionKey{topic, uint32(part)}, span); err != nil {
			return err
		}
		x.done += span.Next - span.Start
		if err := x.progress(x.done); err != nil {
			return err
		}
	}
	return x.Finish(x.out.Complete)
}

// progress reports the number of records that were read.
func (x *dry) progress(read int64) error {
	if x.p.Read = read; x.o.Progress == nil {
		return nil
	}
	return x.o.Progress(x.p)
}

// dryPart is a partition that is read up to next.
type dryPart struct {
	partitionKey
	views.Span
	clock int64
	next  int64
	gap   bool // events before the next record are missing
	over  bool // the time o.Until is reached
}

// partition applies the events of a partition.
func (x *dry) partition(ctx context.Context, at partitionKey, span views.Span) error {
	p := &dryPart{partitionKey: at, Span: span, next: span.Start, gap: span.Start > 0}
	for p.next < p.Next && !p.over {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		asked := time.Now()
		b, err := x.log.Read(ctx, at.topic, at.part, p.next, dryReadBytes)
		x.waited(time.Since(asked))
		if err != nil {
			if x.trimmed(p) {
				continue
			}
			return err
		}
		before := p.next
		err = x.batches(ctx, &b, p)
		b.Release()
		if err != nil {
			return err
		}
		if p.next == before {
			break
		}
	}
	if p.gap {
		x.known(x.out.Complete) // all its events are missing
	}
	return nil
}

// trimmed reports whether the next record was deleted meanwhile, and skips to the first one that was
// not.
func (x *dry) trimmed(p *dryPart) bool {
	now, known := x.log.Position(p.topic)
	if !known || int(p.part) >= len(now.Topics[0]) || now.Topics[0][p.part].Start <= p.next {
		return false
	}
	p.next, p.gap = now.Topics[0][p.part].Start, true
	return true
}

// known notes that events before a time are missing.
func (x *dry) known(at int64) { x.out.Known = max(x.out.Known, at) }

// batches applies the records of a read.
func (x *dry) batches(ctx context.Context, b *views.Batches, p *dryPart) error {
	var r record.Reader
	from := p.next
	if b.From > p.next {
		p.next, p.gap = b.From, true
	}
	for one, err := range b.All() {
		if err != nil {
			return err
		}
		p.next = one.BaseOffset() + one.Span()
		if one.Attributes()&record.AttrLogAppendTime == 0 {
			continue
		}
		for r.Reset(one, from); r.Next() && r.Offset() < p.Next; {
			rec := r.Record()
			p.clock = max(p.clock, rec.Timestamp)
			if p.over = p.clock >= x.o.Until; p.over {
				return nil
			}
			if p.gap {
				p.gap = false
				x.known(p.clock)
			}
			if err := x.record(rec, p); err != nil {
				return err
			}
			if x.n++; x.n%dryPoll == 0 {
				if err := x.poll(ctx); err != nil {
					return err
				}
				if err := x.progress(x.done + r.Offset() + 1 - p.Start); err != nil {
					return err
				}
			}
		}
		if r.Err() != nil {
			return r.Err()
		}
	}
	p.next = max(p.next, min(b.End, p.Next)) // what is left out behind the last batch
	return nil
}

// poll pauses if it is time to, and returns an error if the dry run is to end.
func (x *dry) poll(ctx context.Context) error {
	if x.pace(); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (x *dry) record(rec *record.Record, p *dryPart) error {
	if rec.Value == nil {
		x.Erase(string(rec.Key), p.part)
		return nil
	}
	if !x.Covers(rec.Key) {
		return nil
	}
	e, err := rule.ParseEvent(rec.Key, rec.Value)
	if err != nil {
		x.out.Skipped++ // as the engine does
		return nil
	}
	if e.ID != "" {
		fresh, err := x.Fresh(rule.Hash(p.topic, p.part, e.EntityID, e.ID), &e, p.part, p.clock)
		if err != nil || !fresh {
			return err
		}
	}
	return x.Event(&e, p.part, p.clock, rec.Offset)
}
