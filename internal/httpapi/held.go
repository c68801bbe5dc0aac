package httpapi

import (
	"context"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/delivery/webhook"
	"github.com/sebbroker/seb/internal/trigger"
	"github.com/sebbroker/seb/internal/trigger/rule"
)

// Reasons why a due firing is not delivered.
const (
	heldQuiet  = "quiet_hours"
	heldPaused = "paused"
)

// holds adds the reasons to firings, from the current definitions of their triggers. It belongs to
// one request.
type holds struct {
	*Triggers
	ctx   context.Context
	e     *trigger.Engine
	known map[string]hold
}

// hold is the part of a trigger that delays its firings.
type hold struct {
	paused bool
	quiet  webhook.QuietHours
}

func (t *Triggers) holds(ctx context.Context, e *trigger.Engine) *holds {
	return &holds{Triggers: t, ctx: ctx, e: e, known: map[string]hold{}}
}

// of reads the state of a trigger. A trigger that was deleted, or cannot be read, delays nothing.
func (h *holds) of(id string) hold {
	x, ok := h.known[id]
	if !ok {
		h.list.Lock()
		defer h.list.Unlock()
		if head, d, err := h.e.Stored(h.ctx, id); err == nil {
			x = hold{paused: head.Paused, quiet: webhook.QuietOf(d.Deliver)}
		}
		h.known[id] = x
	}
	return x
}

// firing converts a firing to its form in answers.
func (h *holds) firing(x *trigger.Firing) api.Firing {
	out := firing(x)
	if x.State != rule.Pending {
		return out
	}
	out.NextAttempt = instantOrZero(x.NextTry)
	switch of := h.of(x.Trigger); {
	case of.paused:
		out.NextAttempt, out.Held = time.Time{}, heldPaused
	default:
		due := time.Now()
		if at := time.UnixMilli(x.NextTry); at.After(due) {
			due = at
		}
		if at := of.quiet.Next(due); at.After(due) {
			out.NextAttempt, out.Held = at.UTC().Truncate(time.Millisecond), heldQuiet
		}
	}
	return out
}
