package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/internal/triggers/delivery/webhook"
	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/internal/triggers/rules/explain"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
)

// SpecMax bounds the body of PUT /triggers/{id}.
const SpecMax = 512 << 10

// shownShare bounds the memory of a trigger in an answer, as a multiple of its definition.
const shownShare = 8

func shownBytes(t *rules.Head) int64 { return 4<<10 + shownShare*int64(t.Size) }

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
func shown(t *rules.Head, d *rule.Stored) (api.Trigger, error) {
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
func shownBy(e *rules.Engine, t *rules.Head, d *rule.Stored) (api.Trigger, error) {
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
	err = t.change(ctx, func(ctx context.Context, e *rules.Engine) error {
		old, err := e.Head(d.ID)
		switch {
		case errors.Is(err, rules.ErrUnknownTrigger):
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
		if err := c.mayDeliver(d.Deliver); err != nil {
			return err
		}
		put, err := e.Put(ctx, d, is)
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
		if put.Readable && c.by.Allow(access.Alter, access.Cluster, access.ClusterName) { // others cannot act on it
			out.Warnings = append(out.Warnings, "the secrets are readable in the bucket: seb secrets init makes a key to encrypt them")
		}
		return nil
	})
	return out, err
}

// keptDelivery returns the delivery of the existing trigger for its new definition.
func (t *Triggers) keptDelivery(ctx context.Context, c *triggerCall, e *rules.Engine, d *rule.Definition) (json.RawMessage, error) {
	h, old, err := e.Stored(ctx, d.ID)
	if errors.Is(err, rules.ErrUnknownTrigger) {
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
	if err := c.mayFollow(d.Topic); err != nil {
		return nil, err
	}
	return c.by.changing(c.r.Context(), access.Write, access.Trigger, d.ID)
}

// mayFollow returns why a client must not define a trigger on a topic.
func (c *triggerCall) mayFollow(topic string) error {
	if err := c.by.may(access.Read, access.Topic, topic); err != nil {
		return err
	}
	if _, known := c.b.TopicNamed(topic); !known {
		return c.by.may(access.Create, access.Topic, topic)
	}
	return nil
}

// mayDeliver returns why a client must not let a trigger deliver, or nil. Messages to a queue are sent with
// the rights of the broker, so that the client needs the right to send them. The queue must exist, so that
// brokers which do not know queues cannot follow the trigger.
func (c *triggerCall) mayDeliver(text json.RawMessage) error {
	if len(text) == 0 {
		return nil
	}
	d, err := webhook.ParseOpened(text)
	if err != nil || d.Queue == "" {
		return err
	}
	if err := c.by.may(access.Write, access.Topic, d.Queue); err != nil {
		return err
	}
	r, known := c.b.TopicNamed(d.Queue)
	switch {
	case !known:
		return deliveryError{fmt.Errorf("queue: there is no queue %q", d.Queue)}
	case r.Settings[state.QueueSetting] == "":
		return deliveryError{fmt.Errorf("queue: topic %q is no queue", d.Queue)}
	case d.Delay != "" && state.Resolve(r.Settings).Queue.KeyMode == state.KeyOrder:
		return deliveryError{fmt.Errorf("delay: queue %q keeps the order of keys, so only its setting delay delays messages", d.Queue)}
	}
	return nil
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
	if err := t.decodeSpec(c, &s); err != nil {
		return d, s, err
	}
	d, faults := t.definition(&s)
	if len(faults) > 0 {
		return d, s, faults[0]
	}
	return d, s, nil
}

// decodeSpec decodes the body of a request, which has a spec. The call's memory holds it.
func (t *Triggers) decodeSpec(c *triggerCall, given any) error {
	in := httpconn.Body{W: c.w, R: c.r, Timeout: t.o.Pace, Max: SpecMax, Memory: budget.Arena{Class: c.m.Class, Buffers: c.m.Buffers}}
	defer in.Memory.Release()
	if err := in.Open(); err != nil {
		return err
	}
	body, err := in.ReadAll()
	if err != nil {
		return err
	}
	if err := c.m.Hold(decodedShare * int64(len(body))); err != nil {
		return err
	}
	return httpconn.Decode(body, given)
}

// definition returns the definition of a spec, with defaults, and all its faults. It checks all that
// needs no other component. The result shares no memory with s.
func (t *Triggers) definition(s *api.TriggerSpec) (d rule.Definition, faults []error) {
	bad := func(field string, err any) { faults = append(faults, problem.BadField(field, "%v", err)) }
	d = rule.Definition{
		Topic: cmp.Or(s.Topic, t.o.EventsTopic), Fire: rule.Fire(s.Fire), Backfill: rule.Backfill(s.Backfill),
		CarryFired: s.CarryFired == nil || *s.CarryFired, OnRetract: rule.Retraction(s.OnRetract), Status: rule.Status(s.Status),
	}
	var events []string // nil: unknown
	switch expr, err := explain.ParseExpr(s.Expr); {
	case len(s.Expr) == 0 || string(s.Expr) == "null":
		bad("expr", "missing")
	case err != nil:
		faults = append(faults, questionFault(err))
	default:
		d.Expr, d.Text, events = expr, expr.String(), expr.Names()
		if s.Expr[0] == '"' {
			if err := json.Unmarshal(s.Expr, &d.Text); err != nil {
				faults = append(faults, err)
			}
		}
	}
	if err := state.CheckTopicName(d.Topic); err != nil {
		bad("topic", err)
	}
	if s.Cooldown != "" {
		cooldown, err := driplang.ParseDuration(s.Cooldown)
		if fault, ok := errors.AsType[*driplang.Error](err); ok {
			bad("cooldown", fault.Message)
		}
		d.Cooldown = cooldown.Milliseconds()
	}
	deliver, err := t.delivery(s.Deliver, events)
	if d.Deliver = deliver; err != nil {
		faults = append(faults, err)
	} else if s.KeepDeliver && d.Deliver != nil {
		bad("keep_deliver", "not together with deliver")
	}
	return d, faults
}

// deliveryError has all faults of a delivery. To a client it is a problem of the field deliver.
type deliveryError struct{ error }

func (e deliveryError) Unwrap() error {
	text := strings.TrimPrefix(e.Error(), "delivery: ")
	return problem.BadField("deliver", "%s", strings.ReplaceAll(text, "\n", "; "))
}

// delivery checks a delivery and returns it as it was given. events are the names in the expression;
// nil: any. Errors: deliveryError.
func (t *Triggers) delivery(text json.RawMessage, events []string) (json.RawMessage, error) {
	if len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	w, err := webhook.ParseDelivery(text)
	if err == nil {
		_, err = w.Plan(t.o.Targets, events)
	}
	if err != nil {
		return nil, deliveryError{err}
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
	next, err := c.Engine.Entity(c.r.Context(), rules.EntityQuery{
		Entity: name, After: after, Examined: t.examinedMax,
		May: func(id string) bool { return c.by.Allow(access.Read, access.Trigger, id) },
	}, func(x *rules.EntityState) bool {
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

func entityTrigger(x *rules.EntityState) api.EntityTrigger {
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

// Check answers POST /triggers/check: all that PUT would refuse. It changes nothing.
func (t *Triggers) Check(c *triggerCall) (*api.TriggerCheck, error) {
	is, err := condition(c.r)
	if err != nil {
		return nil, err
	}
	var s api.TriggerSpec
	if err := t.decodeSpec(c, &s); err != nil {
		return nil, err
	}
	d, faults := t.definition(&s)
	d.ID = c.r.URL.Query().Get(VariableID)
	if d = d.WithDefaults(); len(d.Expr.Names()) > 0 {
		_, err := rule.Compile(d)
		faults = append(faults, triggerFault(err))
	} else if d.Expr, err = driplang.Parse("unknown"); err != nil { // its fault is known
		return nil, err
	}
	out := &api.TriggerCheck{Faults: []api.TriggerFault{}}
	if err := d.Validate(); err != nil {
		addFaults(out, "", members, err.Error())
	}
	mine := c.by.Allow(access.Write, access.Trigger, d.ID)
	if mine && s.KeepDeliver {
		d.Deliver, err = t.keptDelivery(c.r.Context(), c, c.Engine, &d)
		faults = append(faults, err)
	}
	faults = append(faults, c.storable(&d, is, mine)...)
	for _, err := range faults {
		deliver, ok := errors.AsType[deliveryError](err)
		p, named := errors.AsType[*api.Problem](err)
		switch {
		case err == nil:
		case ok:
			addFaults(out, "deliver.", deliverMembers, strings.TrimPrefix(deliver.Error(), "delivery: "))
		case named && p.Field != "":
			addFaults(out, "", []string{p.Field}, p.Detail)
		default:
			return nil, err
		}
	}
	return out, nil
}

// storable returns why a client cannot store a definition, whose stored trigger has to meet a
// condition. mine: the client may write the trigger, and so may know whether it exists.
func (c *triggerCall) storable(d *rule.Definition, is rules.Condition, mine bool) (faults []error) {
	bad := func(field string, err error) {
		if p, ok := errors.AsType[*api.Problem](err); ok {
			err = errors.New(p.Detail)
		}
		faults = append(faults, problem.BadField(field, "%v", err))
	}
	if h, err := c.Head(d.ID); mine && err == nil && is != nil && !is(h) {
		bad("id", fmt.Errorf("there is a trigger %s already, version %d", problem.Quote(d.ID), h.Version))
	} else if rule.CheckID(d.ID) == nil && !mine {
		bad("id", forbidden(access.Write, access.Trigger, d.ID))
	}
	if err := c.mayDeliver(d.Deliver); errors.As(err, new(deliveryError)) {
		faults = append(faults, err)
	} else if err != nil {
		bad("deliver", err)
	}
	if state.CheckTopicName(d.Topic) != nil { // reported before
		return faults
	}
	if err := c.mayFollow(d.Topic); err != nil {
		bad("topic", err)
	} else if err := c.CheckTopic(d.Topic); err != nil {
		bad("topic", err)
	}
	return faults
}

// deliverMembers are the fields of a delivery in its errors.
var deliverMembers = []string{"url", "headers", "secrets", "template", "content_type", "topic", "queue", "delay", "quiet hours", "frequency cap", "retries", "concurrency", "backoff"}

// addFaults adds the faults of a text: of each member of a section that a line begins with. The other
// lines continue the fault before them.
func addFaults(out *api.TriggerCheck, section string, members []string, text string) {
	for i, line := range strings.Split(text, "\n") {
		field, detail, ok := strings.Cut(line, ": ")
		switch last := len(out.Faults) - 1; {
		case ok && slices.Contains(members, field):
			out.Faults = append(out.Faults, api.TriggerFault{Field: section + strings.ReplaceAll(field, " ", "_"), Detail: detail})
		case i > 0:
			out.Faults[last].Detail += "; " + line
		default:
			out.Faults = append(out.Faults, api.TriggerFault{Field: strings.TrimSuffix(section, "."), Detail: line})
		}
	}
}
