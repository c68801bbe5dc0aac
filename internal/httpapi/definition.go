package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/access"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/delivery/webhook"
	"github.com/sebbroker/seb/internal/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/problem"
	"github.com/sebbroker/seb/internal/trigger"
	"github.com/sebbroker/seb/internal/trigger/explain"
	"github.com/sebbroker/seb/internal/trigger/rule"
)

// SpecMax bounds the body of PUT /triggers/{id}.
const SpecMax = 512 << 10

// shownShare bounds the memory of a trigger in an answer, as a multiple of its definition.
const shownShare = 8

func shownBytes(t *trigger.Head) int64 { return 4<<10 + shownShare*int64(t.Size) }

// Classes of triggers in answers.
const (
	windowed = "windowed" // WITHIN or AFTER: depends on time
	constant = "constant" // changes only with events
)

// class returns the class of an expression in JSON. A name may contain these letters too, but JSON
// escapes its quotes.
func class(expr []byte) string {
	if bytes.Contains(expr, []byte(`"within":`)) || bytes.Contains(expr, []byte(`"after":`)) {
		return windowed
	}
	return constant
}

// shown returns a trigger as in answers, without its secrets.
func shown(t *trigger.Head, d *rule.Stored) (api.Trigger, error) {
	out := api.Trigger{
		ID: d.ID, Version: d.Version, Tag: rule.Tag(d.Version, d.Offset), Text: d.Text, Expr: d.Expr, Names: append([]string{}, t.Names...), Class: class(d.Expr), Topic: d.Topic, Fire: string(d.Fire),
		Backfill: string(d.Backfill), CarryFired: d.CarryFired, OnRetract: string(d.OnRetract), Status: string(d.Status),
		Backfilling: t.Backfilling, Late: t.Late, TopicMissing: t.Missing, CreatedAt: instant(d.Created), VersionAt: instant(d.At),
	}
	if d.Cooldown > 0 {
		out.Cooldown = driplang.FormatDuration(time.Duration(d.Cooldown) * time.Millisecond)
	}
	if len(d.Deliver) > 0 {
		w, err := webhook.ParseStored(d.Deliver)
		if err != nil {
			// No part of an unreadable definition is shown, because it is unknown where its secrets
			// are.
			return out, nil
		}
		out.Deliver, err = json.Marshal(w)
		return out, err
	}
	return out, nil
}

// shownBy is shown, with the reason for which the engine holds deliveries.
func shownBy(e *trigger.Engine, t *trigger.Head, d *rule.Stored) (api.Trigger, error) {
	out, err := shown(t, d)
	if _, held := e.Opened(&d.Definition); held != nil {
		out.Blocked = held.Error()
	}
	return out, err
}

func instant(millis int64) time.Time { return time.UnixMilli(millis).UTC() }

// instantIf returns an instant, or nil if millis is zero.
func instantIf(millis int64) *time.Time {
	if millis == 0 {
		return nil
	}
	return new(instant(millis))
}

// instantOrZero returns an instant, or the zero time.
func instantOrZero(millis int64) (t time.Time) {
	if millis != 0 {
		t = instant(millis)
	}
	return t
}

// Put answers PUT /triggers/{id}.
func (t *Triggers) Put(c *triggerCall) (out *api.TriggerStored, err error) {
	is, err := condition(c.r)
	if err != nil {
		return nil, err
	}
	d, s, err := t.readSpec(c)
	if err != nil {
		return nil, err
	}
	d.ID = c.r.PathValue(VariableID)
	ctx, err := c.mayDefine(&d)
	if err != nil {
		return nil, err
	}
	err = t.change(ctx, func(ctx context.Context, e *trigger.Engine) error {
		old, err := e.Head(d.ID)
		switch {
		case errors.Is(err, trigger.ErrUnknownTrigger):
			c.status = http.StatusCreated
		case err != nil:
			return err
		case s.Status == "" && old.Paused:
			d.Status = rule.Paused
		}
		if s.KeepDeliver {
			if d.Deliver, err = t.keptDelivery(ctx, c, e, &d); err != nil {
				return err
			}
		}
		put, err := e.PutIf(ctx, d, is)
		if err != nil {
			return err
		}
		stored, err := c.get(ctx, d.ID)
		if err != nil {
			return err
		}
		stored.Tag = put.Tag // a later change may be stored already
		c.tagged(put.Tag)
		out = &api.TriggerStored{Trigger: *stored, Warnings: append([]string{}, put.Warnings...), History: history(put.History)}
		return nil
	})
	return out, err
}

// keptDelivery returns the delivery of the existing trigger for its new definition.
func (t *Triggers) keptDelivery(ctx context.Context, c *triggerCall, e *trigger.Engine, d *rule.Definition) (json.RawMessage, error) {
	h, old, err := e.Stored(ctx, d.ID)
	if errors.Is(err, trigger.ErrUnknownTrigger) {
		return nil, problem.BadField("keep_deliver", "no trigger %s", problem.Quote(d.ID))
	}
	if err != nil {
		return nil, err
	}
	if err := c.m.Hold(shownBytes(h)); err != nil {
		return nil, err
	}
	text, err := e.Opened(&old.Definition)
	if err != nil {
		return nil, problem.BadField("keep_deliver", "%v", err)
	}
	return t.delivery(text, d.Expr.Names())
}

// mayDefine returns a context for the change to a definition. A trigger shows the events of its
// topic, so that the client needs the right to read it, and to create it if it does not exist.
func (c *triggerCall) mayDefine(d *rule.Definition) (context.Context, error) {
	if err := c.by.may(access.Read, access.Topic, d.Topic); err != nil {
		return nil, err
	}
	if _, known := c.b.TopicNamed(d.Topic); !known {
		if err := c.by.may(access.Create, access.Topic, d.Topic); err != nil {
			return nil, err
		}
	}
	return c.by.changing(c.r.Context(), access.Write, access.Trigger, d.ID)
}

func history(starts []int64) []api.HistoryStart {
	list := []api.HistoryStart{}
	for i, offset := range starts {
		list = append(list, api.HistoryStart{Partition: i, Offset: offset})
	}
	return list
}

// readSpec reads the body of a request.
func (t *Triggers) readSpec(c *triggerCall) (d rule.Definition, s api.TriggerSpec, err error) {
	in := httpconn.Body{W: c.w, R: c.r, Timeout: t.o.Pace, Max: SpecMax, Memory: budget.Arena{Class: c.m.Class, Buffers: c.m.Buffers}}
	defer in.Memory.Release()
	if err := in.Open(); err != nil {
		return d, s, err
	}
	body, err := in.ReadAll()
	if err != nil {
		return d, s, err
	}
	if err := c.m.Hold(decodedShare * int64(len(body))); err != nil {
		return d, s, err
	}
	if err := httpconn.Decode(body, &s); err != nil {
		return d, s, err
	}
	d, err = t.definition(&s)
	return d, s, err
}

// definition returns the definition of a spec, with defaults. It checks all that needs no other
// component. The result shares no memory with s.
func (t *Triggers) definition(s *api.TriggerSpec) (d rule.Definition, err error) {
	if len(s.Expr) == 0 || string(s.Expr) == "null" {
		return d, problem.BadField("expr", "missing")
	}
	expr, err := explain.ParseExpr(s.Expr)
	if err != nil {
		return d, questionFault(err)
	}
	d = rule.Definition{
		Expr: expr, Text: expr.String(), Topic: s.Topic, Fire: rule.Fire(s.Fire), Backfill: rule.Backfill(s.Backfill),
		CarryFired: s.CarryFired == nil || *s.CarryFired, OnRetract: rule.Retraction(s.OnRetract), Status: rule.Status(s.Status),
	}
	if s.Expr[0] == '"' {
		if err := json.Unmarshal(s.Expr, &d.Text); err != nil {
			return d, err
		}
	}
	d.Topic = cmp.Or(d.Topic, t.o.EventsTopic)
	if err := state.CheckTopicName(d.Topic); err != nil {
		return d, problem.BadField("topic", "%s", err)
	}
	if s.Cooldown != "" {
		cooldown, err := driplang.ParseDuration(s.Cooldown)
		if fault, ok := errors.AsType[*driplang.Error](err); ok {
			return d, problem.BadField("cooldown", "%s", fault.Message)
		}
		d.Cooldown = cooldown.Milliseconds()
	}
	if d.Deliver, err = t.delivery(s.Deliver, expr.Names()); err == nil && s.KeepDeliver && d.Deliver != nil {
		err = problem.BadField("keep_deliver", "not together with deliver")
	}
	return d, err
}

// delivery checks a delivery and returns it as it was given.
func (t *Triggers) delivery(text json.RawMessage, events []string) (json.RawMessage, error) {
	if len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	w, err := webhook.ParseDelivery(text)
	if err == nil {
		_, err = w.Plan(t.o.Targets, events)
	}
	if err != nil {
		text := strings.TrimPrefix(err.Error(), "delivery: ")
		return nil, problem.BadField("deliver", "%s", strings.ReplaceAll(text, "\n", "; "))
	}
	var out bytes.Buffer
	err = json.Compact(&out, text)
	return out.Bytes(), err
}

const (
	entityTriggers    = 100 // default of limit
	entityTriggersMax = 1000
	// examinedMax bounds the triggers that a page looks up, because most may not know the entity.
	examinedMax = 10_000
	// entityBytes bounds the answer of a trigger without its texts.
	entityBytes = 1 << 10
)

// Entity answers GET /entities/{entity}.
func (t *Triggers) Entity(c *triggerCall) (*api.Entity, error) {
	q := httpconn.ParseParams(c.r.URL.RawQuery)
	limit := cmp.Or(int(q.Number(httpconn.ParamLimit, entityTriggers, entityTriggersMax)), entityTriggers)
	after, given := q.Text(httpconn.ParamAfter)
	if given {
		if err := rule.CheckID(after); err != nil {
			q.Fail(httpconn.ParamAfter, "%v", err)
		}
	}
	if q.Fault != nil {
		return nil, q.Fault
	}
	name, err := entity(c.r)
	if err != nil {
		return nil, err
	}
	if err := c.m.Hold(3*answerBytes + heldBytes); err != nil {
		return nil, err
	}
	out, size := &api.Entity{Entity: name, Triggers: []api.EntityTrigger{}}, 0
	next, err := c.Engine.Entity(c.r.Context(), trigger.EntityQuery{
		Entity: name, After: after, Examined: t.examinedMax,
		May: func(id string) bool { return c.by.Allow(access.Read, access.Trigger, id) },
	}, func(x *trigger.EntityState) bool {
		y := entityTrigger(x)
		size += sizeOf(&y)
		if len(out.Triggers) == limit || len(out.Triggers) > 0 && size > answerBytes {
			return false
		}
		out.Triggers = append(out.Triggers, y)
		return true
	})
	if err != nil {
		return nil, triggerFault(err)
	}
	if next != "" {
		out.Next = &next
	}
	return out, nil
}

func entityTrigger(x *trigger.EntityState) api.EntityTrigger {
	return api.EntityTrigger{
		Trigger: x.Trigger, Version: x.Version, Topic: x.Topic, Known: x.Known, Value: x.True, AsOf: instantOrZero(x.Complete),
		Next: instantIf(x.Next), Completed: x.Completed, Fired: x.Fired, WaitsFor: x.Waits, Awaited: awaited(x.Awaited),
		Degraded: x.Degraded, Offsets: append([]int64{}, x.Witness...), Firings: x.Count, Last: instantIf(x.Last),
	}
}

// sizeOf estimates the memory of a trigger in an answer.
func sizeOf(x *api.EntityTrigger) int {
	n := entityBytes + len(x.WaitsFor) + 8*len(x.Offsets)
	for i := range x.Awaited {
		n += 256 + len(x.Awaited[i].Event) + len(x.Awaited[i].Expr)
	}
	return n
}
