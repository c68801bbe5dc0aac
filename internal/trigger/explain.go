package trigger

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sebbroker/seb/driplang/monitor"
	"github.com/sebbroker/seb/internal/localdb"
	"github.com/sebbroker/seb/internal/trigger/rule"

	"github.com/sebbroker/seb/internal/trigger/store"
)

// explainFirings is how many firings an Explanation has at most.
const explainFirings = 100

// Explanation is what a trigger knows of an entity.
type Explanation struct {
	Trigger  string
	Version  int
	Entity   string
	Known    bool  // something has happened to it that matters
	True     bool  // the expression is
	Complete int64 // the instant (ms) as of which that is so
	Next     int64 // the instant (ms) at which that changes if nothing more happens; 0: none
	// Over is whether nothing will ever come of it again. Names are those of the events that it waits for otherwise.
	Completed bool
	Names     []string
	Instances int  // left sides of THEN that are followed
	Degraded  bool // there were too many: the value may be wrong
	Fired     bool // at least once, historic ones too
	Witness   []int64
	Waits     string // the same in words
	// MustCome and MustNotCome are the parts of the expression that it waits for, and those of which the events would prevent or
	// end that it is true: in canonical text form, each once.
	MustCome, MustNotCome []string
	Firings               []Firing
}

// Explain says what a trigger knows of an entity. Errors: ErrUnknownTrigger, ErrUnavailable.
func (e *Engine) Explain(ctx context.Context, trigger, entity string) (x Explanation, err error) {
	p, _, err := e.fold.Peek()
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
		x.Complete = 0 // it is not known
	}
	err = e.fold.Query(func(q store.Queries) error {
		_, rows, err := q.Insts(ctx, t.No, entity)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			truth, err := r.Truth(&rule.Row{})
			if err != nil {
				return err
			}
			x.needs(truth.Waits)
		}
		for i := range rows { // of several partitions the last one: an entity has its events in one
			if err := x.add(r, &rows[i]); err != nil {
				return err
			}
		}
		x.Firings, err = q.EntityFirings(ctx, entity, trigger, explainFirings)
		return err
	})
	x.Waits = x.words(t)
	return x, err
}

// add takes in what a row says.
func (x *Explanation) add(r *rule.Rule, in *store.Inst) error {
	var row rule.Row
	if err := row.Decode(in.Data, in.Due); err != nil {
		return fmt.Errorf("%w: %w", localdb.ErrDamaged, err)
	}
	truth, err := r.Truth(&row)
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

// needs tells what must come from what must not.
func (x *Explanation) needs(waits []monitor.AwaitedEvent) {
	x.MustCome, x.MustNotCome = nil, nil
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
		return fmt.Sprintf("topic missing: the topic %s was deleted; the trigger follows the next topic of that name", t.Topic)
	case t.Backfilling:
		return "the trigger is still reading the history"
	case t.Late:
		return "the trigger is behind the events: it costs more than all others of its topic, and reads them by itself"
	case x.Completed && x.Fired && t.Fire == rule.Once:
		return "nothing: it has fired, and fires once"
	case x.Completed:
		return "nothing: its value can not change any more"
	}
	text := "it waits for " + strings.Join(x.MustCome, ", ")
	at := time.UnixMilli(x.Next).UTC().Format(time.RFC3339Nano)
	switch {
	case x.True && x.Next != 0:
		text = "it is true until " + at + orEarlier(x.MustNotCome)
	case x.True && len(x.MustNotCome) > 0:
		return "it is true until " + strings.Join(x.MustNotCome, " or ") + " comes"
	case x.True:
		return "it is true; what happens now changes nothing about that, or starts it again"
	case x.Next != 0:
		text = "it becomes true at " + at
		if len(x.MustNotCome) > 0 {
			text += " unless " + strings.Join(x.MustNotCome, " or ") + " comes before"
		}
		if len(x.MustCome) > 0 {
			text += "; earlier if " + strings.Join(x.MustCome, ", ") + " make it so"
		}
	case len(x.MustCome) == 0: // such as the left side of a THEN, once more
		text = "it waits for one of " + strings.Join(x.Names, ", ") + " that starts it again"
	case len(x.MustNotCome) > 0:
		text += "; " + strings.Join(x.MustNotCome, ", ") + " must not come"
	}
	if !x.Known {
		text = "nothing that has happened matters now; " + text
	}
	return text
}

// orEarlier says what ends something before its time.
func orEarlier(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return ", or until " + strings.Join(list, " or ") + " comes"
}

// Duplicate is whether an event of an entity with an id would not count: one of that id was there within a day before, at an
// offset of the partition. known is false if the engine can not tell: no trigger reads the topic, or it has not read all of the
// partition yet.
func (e *Engine) Duplicate(ctx context.Context, topic string, partition uint32, entity, id string) (offset int64, yes, known bool) {
	t, ok := e.opt.Log.Topic(topic)
	if !ok || id == "" {
		return 0, false, true
	}
	at, ok := e.opt.Log.Position(t.ID)
	if p, _, err := e.fold.Peek(); ok && err == nil && int(partition) < min(len(p.Applied[t.ID]), len(at.Topics[0])) {
		known = p.Applied[t.ID][partition] >= at.Topics[0][partition].Next
	}
	err := e.fold.Query(func(q store.Queries) error {
		x, ok, err := q.SeenAt(ctx, rule.Hash(t.ID, partition, entity, id))
		offset, yes = x.Offset, ok && x.Time >= at.Time/1000-rule.Horizon
		return err
	})
	if err != nil {
		return 0, false, false
	}
	return offset, yes, yes || known
}
