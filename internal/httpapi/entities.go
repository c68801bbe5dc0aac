package httpapi

import (
	"cmp"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/access"
	"github.com/sebbroker/seb/internal/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/trigger"
	"github.com/sebbroker/seb/internal/trigger/rule"
)

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
