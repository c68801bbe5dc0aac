package rules

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sebbroker/seb/driplang/monitor"
	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/internal/triggers/rules/store"
)

// explainFirings bounds the firings of an Explanation.
const explainFirings = 100

// Explanation is the state of an entity for a trigger.
type Explanation struct {
	Trigger  string
	Version  int
	Entity   string
	Known    bool  // the entity has state
	True     bool  // the expression's value
	Complete int64 // the instant (ms) of that value
	Next     int64 // the instant (ms) of the next change without further events; 0: none
	// Completed: the state never changes again. Otherwise Names lists the events that can change
	// it.
	Completed bool
	Names     []string
	Instances int  // matches of the left side of THEN that wait for the right side
	Degraded  bool // instances were dropped: the value may be wrong
	Fired     bool // at least once, including historic firings
	Witness   []int64
	Waits     string // MustCome and MustNotCome in words
	// MustCome lists the parts of the expression that it waits for, MustNotCome those whose events
	// would keep it from being true or end that: each once, in canonical text.
	MustCome, MustNotCome []string
	// Awaited has the events of both lists, and those that would start another instance, at most
	// rule.WaitsMax in no particular order.
	Awaited []monitor.AwaitedEvent
	Firings []Firing
}

// Explain returns the state of an entity for a trigger. Errors: ErrUnknownTrigger, ErrUnavailable.
func (e *Engine) Explain(ctx context.Context, trigger, entity string) (Explanation, error) {
	return e.explain(ctx, trigger, entity, func(q store.Queries, x *Explanation) (err error) {
		x.Firings, err = q.EntityFirings(ctx, entity, trigger, explainFirings)
		return err
	})
}

// explain is Explain without firings. more is called with the queries that read the state.
func (e *Engine) explain(ctx context.Context, trigger, entity string, more func(store.Queries, *Explanation) error) (x Explanation, err error) {
	p, _, err := e.follower.Peek()
	if err != nil {
		return x, err
	}
	t, err := e.Trigger(ctx, trigger)
	if err != nil {
		return x, err
	}
	r, err := rule.Compile(t.Definition)
	if err != nil {
		return x, err
	}
	r.Bind(t.Events)
	x = Explanation{Trigger: t.ID, Version: t.Version, Entity: entity, Complete: p.Complete[t.Events], Names: r.Names()}
	if t.Late {
		x.Complete = 0 // unknown
	}
	err = e.follower.Query(func(q store.Queries) error {
		rows, err := rowsOf(ctx, q, t.No, t.Group, entity)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			truth, err := r.Truth(&rule.Row{}, x.Complete)
			if err != nil {
				return err
			}
			x.needs(truth.Waits)
		}
		for i := range rows { // the last partition counts; usually there is one
			if err := x.add(r, &rows[i]); err != nil {
				return err
			}
		}
		return more(q, &x)
	})
	x.Waits = x.words(t)
	return x, err
}

// add adds the state of a row.
func (x *Explanation) add(r *rule.Rule, row *rule.Row) error {
	truth, err := r.Truth(row, x.Complete)
	if err != nil {
		return fmt.Errorf("%w: %w", localdb.ErrDamaged, err)
	}
	x.Known, x.True, x.Next, x.Instances = true, truth.True, truth.Next, truth.Instances
	x.Witness = truth.Witness
	x.needs(truth.Waits)
	x.Completed, x.Fired = row.Flags&rule.Completed != 0, row.Flags&rule.Fired != 0
	x.Degraded = row.Flags&rule.Degraded != 0
	return nil
}

// needs separates the events that must come from those that must not.
func (x *Explanation) needs(waits []monitor.AwaitedEvent) {
	x.MustCome, x.MustNotCome, x.Awaited = nil, nil, waits
	for i := range waits {
		w := &waits[i]
		list := &x.MustCome
		if w.Absent {
			list = &x.MustNotCome
		}
		if !w.Begins && !slices.Contains(*list, w.Expr) {
			*list = append(*list, w.Expr)
		}
	}
	slices.Sort(x.MustCome)
	slices.Sort(x.MustNotCome)
}

func (x *Explanation) words(t *Trigger) string {
	switch {
	case t.Missing:
		return fmt.Sprintf("topic missing: topic %s was deleted; the trigger follows the next topic of that name", t.Topic)
	case t.Backfilling:
		return "the trigger is still reading the history"
	case t.Late:
		return "the trigger is behind the events: it costs more than all others of its topic together, and reads them separately"
	case x.Completed && x.Fired && t.Fire == rule.Once:
		return "nothing: it has fired, and fires once"
	case x.Completed:
		return "nothing: its value cannot change any more"
	}
	text := "it waits for " + strings.Join(x.MustCome, ", ")
	at := time.UnixMilli(x.Next).UTC().Format(time.RFC3339Nano)
	switch {
	case x.True && x.Next != 0:
		text = "it is true until " + at + orEarlier(x.MustNotCome)
	case x.True && len(x.MustNotCome) > 0:
		return "it is true until " + strings.Join(x.MustNotCome, " or ") + " comes"
	case x.True:
		return "it is true; further events do not change that, or start it again"
	case x.Next != 0:
		text = "it becomes true at " + at
		if len(x.MustNotCome) > 0 {
			text += " unless " + strings.Join(x.MustNotCome, " or ") + " comes before"
		}
		if len(x.MustCome) > 0 {
			text += "; earlier if " + strings.Join(x.MustCome, ", ") + " make it so"
		}
	case len(x.MustCome) == 0: // such as the left side of a THEN, again
		text = "it waits for one of " + strings.Join(x.Names, ", ") + ", which starts it again"
	case len(x.MustNotCome) > 0:
		text += "; " + strings.Join(x.MustNotCome, ", ") + " must not come"
	}
	return text
}

// orEarlier returns the events that end a value before its time.
func orEarlier(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return ", or until " + strings.Join(list, " or ") + " comes"
}

// Duplicate reports whether an event of an entity with an ID would be a duplicate of the event at
// an offset of the partition, less than a day before. known is false if the engine cannot decide:
// no trigger reads the topic, or part of the partition is unread.
func (e *Engine) Duplicate(ctx context.Context, topic string, partition uint32, entity, id string) (offset int64, yes, known bool) {
	t, ok := e.opt.Log.Topic(topic)
	if !ok || id == "" {
		return 0, false, true
	}
	at, ok := e.opt.Log.Position(t.ID)
	if p, _, err := e.follower.Peek(); ok && err == nil && int(partition) < min(len(p.Applied[t.ID]), len(at.Topics[0])) {
		known = p.Applied[t.ID][partition] >= at.Topics[0][partition].Next
	}
	err := e.follower.Query(func(q store.Queries) error {
		x, ok, err := q.SeenAt(ctx, rule.Hash(t.ID, partition, entity, id))
		offset, yes = x.Offset, ok && x.Time >= at.Time/1000-rule.Horizon
		return err
	})
	if err != nil {
		return 0, false, false
	}
	return offset, yes, yes || known
}

// EntityQuery selects triggers that know an entity.
type EntityQuery struct {
	Entity string
	After  string               // only triggers with a higher ID
	May    func(id string) bool // only these triggers
	// Examined bounds the triggers that are looked up, whether they know the entity or not.
	Examined int
}

// EntityState is the state of an entity for a trigger.
type EntityState struct {
	Explanation // without Firings
	Topic       string
	Count       int   // its firings, at most store.FiredMax
	Last        int64 // the instant (ms) of the newest firing; 0: none
}

// Entity calls add for each trigger that has state or firings of an entity, ordered by ID, until
// add returns false. next is the After that continues, or "" at the end. Errors: ErrUnavailable,
// ErrClosed.
func (e *Engine) Entity(ctx context.Context, q EntityQuery, add func(x *EntityState) bool) (next string, err error) {
	chunk := make([]*Head, 0, store.GroupsMax/2)
	for next = q.After; q.Examined > 0; {
		chunk = chunk[:0]
		last := next
		for len(chunk) < min(store.GroupsMax/2, q.Examined) {
			h, err := e.Next(last)
			if err != nil {
				return "", err
			}
			if h == nil {
				break
			}
			if last = h.ID; q.May(h.ID) {
				chunk = append(chunk, h)
			}
		}
		if len(chunk) == 0 {
			return "", nil
		}
		q.Examined -= len(chunk)
		known, err := e.knowing(ctx, q.Entity, next, chunk)
		if err != nil {
			return "", err
		}
		for _, h := range chunk {
			if known[h.ID] {
				x, err := e.entityState(ctx, h, q.Entity)
				switch {
				case errors.Is(err, ErrUnknownTrigger): // deleted meanwhile
				case err != nil:
					return "", err
				case !add(&x):
					return next, nil
				}
			}
			next = h.ID
		}
	}
	return next, nil
}

// knowing returns which triggers of a chunk, whose IDs follow after in order, have state or firings
// of an entity.
func (e *Engine) knowing(ctx context.Context, entity, after string, chunk []*Head) (map[string]bool, error) {
	known := map[string]bool{}
	byNo, groups := map[int64]string{}, make([]int64, 0, 2*len(chunk))
	for _, h := range chunk {
		byNo[h.No], groups = h.ID, append(groups, -h.No, h.Group)
	}
	err := e.follower.Query(func(q store.Queries) error {
		err := q.EntityInsts(ctx, entity, groups, func(_ store.InstKey, in store.Inst) error {
			return eachEntry(&in, func(no, _ int64, _ []byte) (bool, error) {
				if id, ok := byNo[no]; ok {
					known[id] = true
				}
				return true, nil
			})
		})
		if err != nil {
			return err
		}
		for id := after; ; {
			if id, err = q.NextFired(ctx, entity, id); err != nil || id == "" || id > chunk[len(chunk)-1].ID {
				return err
			}
			known[id] = true
		}
	})
	return known, err
}

func (e *Engine) entityState(ctx context.Context, h *Head, entity string) (x EntityState, err error) {
	x.Topic = h.Topic
	x.Explanation, err = e.explain(ctx, h.ID, entity, func(q store.Queries, _ *Explanation) (err error) {
		x.Count, x.Last, err = q.Fired(ctx, entity, h.ID)
		return err
	})
	return x, err
}

// rowsOf returns the states of an entity for a trigger: one for each partition with its events.
func rowsOf(ctx context.Context, q store.Queries, no, group int64, entity string) (rows []rule.Row, err error) {
	byPart := map[uint32]rule.Row{}
	err = q.EntityInsts(ctx, entity, []int64{-no, group}, func(k store.InstKey, in store.Inst) error {
		row, ok, err := entryOf(&in, no)
		if ok {
			byPart[k.Partition] = row
		}
		return err
	})
	for _, part := range slices.Sorted(maps.Keys(byPart)) {
		rows = append(rows, byPart[part])
	}
	return rows, err
}
