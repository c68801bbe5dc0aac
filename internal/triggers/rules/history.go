package rules

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sebbroker/seb/driplang/monitor"
	"github.com/sebbroker/seb/internal/engine/views"
	"github.com/sebbroker/seb/internal/engine/views/keyindex"
	"github.com/sebbroker/seb/internal/triggers/rules/explain"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/record"
)

// Limits of a History.
const (
	// HistoryEventsMax bounds the events that are read, HistoryStepsMax the steps of the answer.
	HistoryEventsMax = 10_000
	HistoryStepsMax  = 100
	// HistoryMemory bounds the memory of a history. Half of it is for the data of events, which is
	// kept only for events that the expression mentions.
	HistoryMemory = 4 << 20
	// historyReads and historyWait bound the times of reading, and of waiting for the key index.
	historyReads = 4 * time.Second
	historyWait  = 2 * time.Second
	// historyFirst to historyChunk events are read in the order of the log before older ones are: more
	// while that is fast. Two events that are at most nearby records apart are read together, nearBytes
	// at a time.
	historyFirst = 16
	historyChunk = 500
	nearby       = 1000
	nearBytes    = 64 << 10
	historyPage  = 1000 // entries of one query of the key index
	otherNames   = 20   // of events that the expression does not mention
)

// Entities finds the events of an entity. *keyindex.View implements it.
type Entities interface {
	// History returns the next records of a key. Fewer than requested means the end.
	History(ctx context.Context, topic record.ID, key []byte, q keyindex.HistoryQuery) ([]keyindex.Entry, error)
	// WaitFor waits until the record at an offset is in the index.
	WaitFor(ctx context.Context, topic record.ID, partition uint32, offset int64) error
}

// Unread is the reason why a History has no events, or not all.
type Unread string

// The reasons.
const (
	ReadAll      Unread = ""
	NotIndexed   Unread = "key_index_off"    // the topic has no key index
	IndexBehind  Unread = "key_index_behind" // the index lacks the newest events
	TopicMissing Unread = "unknown_topic"    // the topic was deleted
	TooMany      Unread = "too_many"         // there are older events
	TooSlow      Unread = "too_slow"         // the evaluation took too long
	Trimmed      Unread = "trimmed"          // older events were deleted from the topic: maybe of the entity
)

// History is what the events of an entity did to the expression of a trigger, from the log. It does
// not need the state of the trigger.
type History struct {
	Topic     string // of the events
	Unread    Unread
	Events    int   // that were read
	Since     int64 // time (ms) of the oldest of them; 0: there is none
	Complete  int64 // the instant (ms) up to which they were evaluated
	Value     monitor.Value
	Others    []NameCount // events that the expression does not mention, the most frequent first, at most 20
	Steps     []Step      // the newest ones of the others, and deadlines, oldest first, at most 100
	More      int         // older steps
	Partition uint32      // of all events that were read
	// Elsewhere: the entity has events in another partition, which count by themselves.
	Elsewhere bool

	first, last, idle *Step // of the newest wait: its begin and its newest step; the newest step without effect
}

// NameCount counts events of a name.
type NameCount struct {
	Name  string
	Count int
}

// Step is an event or a deadline of a History.
type Step struct {
	explain.Moment
	Name   string // of the event; "": a deadline
	Offset int64  // of the event; -1: a deadline
}

// entityHistory is a History that is read and evaluated.
type entityHistory struct {
	*History
	e       *Engine
	t       *Trigger
	rule    *rule.Rule
	entity  string
	events  []explain.Event // without names: not in the expression
	offsets []int64         // of events
	from    int             // index of the first event of the chunk
	bytes   int             // of events
	full    bool            // events were dropped
	erased  bool            // there is a tombstone before the events
}

// History reads the events of an entity by the key index, the newest HistoryEventsMax at most, and
// evaluates the expression of a trigger. It needs about HistoryMemory. Errors: ErrUnknownTrigger,
// ErrUnavailable, ctx's, those of the log.
func (e *Engine) History(ctx context.Context, trigger, entity string) (*History, error) {
	t, err := e.Trigger(ctx, trigger)
	if err != nil {
		return nil, err
	}
	x := &entityHistory{History: &History{Topic: t.Topic}, e: e, t: t, entity: entity}
	if x.rule, err = rule.Compile(t.Definition); err != nil {
		return nil, err
	}
	x.rule.Bind(t.Events)
	p, _, err := e.follower.Peek()
	if err != nil {
		return nil, err
	}
	if x.Complete = p.Complete[t.Events]; t.Missing {
		x.Unread = TopicMissing
		return x.History, nil
	}
	at, known := e.opt.Log.Position(t.Events)
	if !known {
		return nil, ErrUnavailable
	}
	if t.Late || t.Backfilling {
		x.Complete = at.CompleteIn(0)
	}
	entries, err := x.find(ctx, at.Topics[0])
	if err != nil {
		return nil, err
	}
	if err := x.read(ctx, entries); err != nil {
		return nil, err
	}
	if x.Unread == ReadAll && !x.erased && slices.ContainsFunc(at.Topics[0], func(s views.Span) bool { return s.Start > 0 }) {
		x.Unread = Trimmed
	}
	return x.History, x.evaluate(ctx)
}

// find returns the entries of the events in the partition of the newest one, newest first.
func (x *entityHistory) find(ctx context.Context, spans []views.Span) (all []keyindex.Entry, err error) {
	if x.e.opt.Entities == nil {
		x.Unread = NotIndexed
		return nil, nil
	}
	if err := x.await(ctx, spans); err != nil {
		return nil, err
	}
	q := keyindex.HistoryQuery{Partition: -1, NewestFirst: true, Limit: historyPage}
	for found := 0; ; {
		list, err := x.e.opt.Entities.History(ctx, x.t.Events, []byte(x.entity), q)
		if errors.Is(err, keyindex.ErrNotIndexed) {
			x.Unread = NotIndexed
			return nil, nil
		} else if err != nil {
			return nil, err
		}
		for i := range list {
			one := list[i]
			switch found, one.Key = found+1, nil; {
			case found > HistoryEventsMax:
				x.Unread = TooMany
				return all, nil
			case len(all) > 0 && one.Partition != all[0].Partition:
				x.Elsewhere = true
			case one.Deleted: // the events before were erased
				x.erased = true
				return all, nil
			default:
				x.Partition = one.Partition
				all = append(all, one)
			}
		}
		if len(list) < q.Limit {
			return all, nil
		}
		last := &list[len(list)-1]
		q.After = &keyindex.RecordID{Partition: last.Partition, Offset: last.Offset}
	}
}

// await waits until the index has the events that are committed now.
func (x *entityHistory) await(outer context.Context, spans []views.Span) error {
	ctx, cancel := context.WithTimeout(outer, historyWait)
	defer cancel()
	for part, span := range spans {
		if span.Next <= span.Start {
			continue
		}
		err := x.e.opt.Entities.WaitFor(ctx, x.t.Events, uint32(part), span.Next-1)
		switch {
		case errors.Is(err, keyindex.ErrNotIndexed):
			return nil // History says so
		case err != nil && outer.Err() == nil && ctx.Err() != nil:
			x.Unread = IndexBehind
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// read reads the events of entries, the newest first, as far as memory and time allow.
func (x *entityHistory) read(ctx context.Context, entries []keyindex.Entry) error {
	began, size := time.Now(), historyFirst
	for rest := entries; len(rest) > 0; {
		if x.full || len(x.events) > 0 && time.Since(began) > historyReads {
			x.Unread = TooMany
			break
		}
		from, start := len(x.events), time.Now()
		chunk := rest[:min(len(rest), size)]
		rest, x.from = rest[len(chunk):], from
		if err := x.readChunk(ctx, chunk); err != nil {
			return err
		}
		slices.Reverse(x.events[from:])
		slices.Reverse(x.offsets[from:])
		if time.Since(start) < historyReads/8 {
			size = min(2*size, historyChunk)
		}
	}
	if x.full {
		x.Unread = TooMany
	}
	slices.Reverse(x.events)
	slices.Reverse(x.offsets)
	if x.Events = len(x.events); x.Events > 0 {
		x.Since, x.Complete = x.events[0].At, max(x.Complete, x.events[x.Events-1].At)
	}
	return nil
}

// readChunk adds the events of entries, which are in reverse order of the log, in its order.
func (x *entityHistory) readChunk(ctx context.Context, entries []keyindex.Entry) error {
	left := slices.Clone(entries)
	slices.Reverse(left)
	for len(left) > 0 {
		size := 1
		if len(left) > 1 && left[1].Offset-left[0].Offset <= nearby {
			size = nearBytes
		}
		offset := left[0].Offset
		b, err := x.e.opt.Log.Read(ctx, x.t.Events, x.Partition, offset, size)
		if err != nil {
			if x.trimmed(offset) {
				left = left[1:]
				continue
			}
			return err
		}
		left, err = x.take(&b, left)
		b.Release()
		if err != nil {
			return err
		}
		if len(left) > 0 && left[0].Offset == offset {
			left = left[1:] // the record is gone
		}
	}
	return nil
}

// trimmed reports whether an offset of the partition was deleted.
func (x *entityHistory) trimmed(offset int64) bool {
	p, known := x.e.opt.Log.Position(x.t.Events)
	return known && (int(x.Partition) >= len(p.Topics[0]) || offset < p.Topics[0][x.Partition].Start)
}

// take adds the events of batches that have an entry, and returns the entries after the batches.
func (x *entityHistory) take(b *views.Batches, left []keyindex.Entry) ([]keyindex.Entry, error) {
	var r record.Reader
	for one, err := range b.All() {
		if err != nil {
			return left, err
		}
		stamped := one.Attributes()&record.AttrLogAppendTime != 0
		for r.Reset(one, 0); r.Next(); {
			rec := r.Record()
			for len(left) > 0 && left[0].Offset < rec.Offset {
				left = left[1:]
			}
			if len(left) == 0 {
				return left, nil
			}
			if left[0].Offset == rec.Offset {
				left = left[1:]
				if stamped {
					x.add(rec)
				}
			}
		}
		if r.Err() != nil {
			return left, r.Err()
		}
	}
	return left, nil
}

// add adds an event of the entity. Without memory for it, the oldest ones of the chunk are dropped.
func (x *entityHistory) add(rec *record.Record) {
	ev, err := rule.ParseEvent(rec.Key, rec.Value)
	if err != nil {
		return // as the engine does
	}
	e := explain.Event{Name: ev.Name, At: rec.Timestamp, ID: ev.ID}
	if slices.Contains(x.rule.Names(), ev.Name) {
		e.Data = ev.Data
	}
	x.bytes += bytesOf(&e)
	x.events, x.offsets = append(x.events, e), append(x.offsets, rec.Offset)
	for x.bytes > HistoryMemory/2 && len(x.events) > max(x.from, 1) {
		x.bytes, x.full = x.bytes-bytesOf(&x.events[x.from]), true
		x.events, x.offsets = slices.Delete(x.events, x.from, x.from+1), slices.Delete(x.offsets, x.from, x.from+1)
	}
}

// bytesOf returns the size of an event's texts.
func bytesOf(e *explain.Event) int { return len(e.Name) + len(e.ID) + len(e.Data) }

// evaluate applies the events to the expression.
func (x *entityHistory) evaluate(ctx context.Context) error {
	d := &x.t.Definition
	q := explain.Question{Expr: d.Expr, Events: x.events, At: x.Complete, Restart: d.Fire == rule.OnReset}
	if d.Backfill == rule.None {
		q.Old = func(i int) bool { return x.rule.IsPast(x.Partition, x.offsets[i], x.events[i].At) }
	}
	others := map[string]int{}
	a, err := q.Answer(ctx, func(m explain.Moment) {
		// An event that the expression does not mention can have another Skip, such as Repeated. Its
		// name is for clients that may read the topic, so that it must not be in a step.
		if m.Event >= 0 && !slices.Contains(x.rule.Names(), x.events[m.Event].Name) {
			others[x.events[m.Event].Name]++
			return
		}
		x.step(m)
	})
	if err != nil {
		return err
	}
	switch {
	case a.Value:
		x.Value = monitor.True
	case a.Pending:
		x.Value = monitor.Pending
	}
	for name, n := range others {
		x.Others = append(x.Others, NameCount{name, n})
	}
	slices.SortFunc(x.Others, func(a, b NameCount) int { return cmp.Or(b.Count-a.Count, cmp.Compare(a.Name, b.Name)) })
	x.Others = x.Others[:min(len(x.Others), otherNames)]
	return nil
}

// step adds a step, and notes whether it belongs to the newest wait.
func (x *entityHistory) step(m explain.Moment) {
	s := Step{Moment: m, Offset: -1}
	if m.Event >= 0 {
		s.Name, s.Offset = x.events[m.Event].Name, x.offsets[m.Event]
	}
	if len(x.Steps) == HistoryStepsMax {
		x.Steps, x.More = slices.Delete(x.Steps, 0, 1), x.More+1
	}
	x.Steps = append(x.Steps, s)
	switch {
	case m.Skip != explain.Counted || m.Kind == explain.NoEffect:
		x.idle = &s
		return
	case x.last == nil || x.last.over():
		x.first = &s
	}
	x.last = &s
}

// over reports whether a wait is over after the step.
func (s *Step) over() bool {
	switch s.Kind {
	case explain.True, explain.False, explain.Ends, explain.Missed:
		return true
	}
	return false
}
