package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/delivery/webhook"
	"github.com/sebbroker/seb/internal/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/problem"
	"github.com/sebbroker/seb/internal/trigger"
	"github.com/sebbroker/seb/internal/trigger/rule"
)

// TriggersOptions are what NewTriggers needs.
type TriggersOptions struct {
	Engine      *trigger.Engine // nil: this broker follows no triggers, and says so
	EventsTopic string          // of triggers that name none
	Targets     webhook.Policy  // which addresses webhooks may go to
	AckTimeout  time.Duration   // how long a change waits for the store and the engine
	Pace        httpconn.ProgressTimeout
	Stops       *httpconn.DrainGroup // ends dry runs
	DryRunBytes int64                // what one may keep in memory
}

// Triggers answers requests about triggers and firings. All methods may be called concurrently.
// What they return has the memory of a request m behind it, which the caller releases when the
// answer is sent. Errors: *api.Problem, those of reading a body and of memory, those of the broker
// that the engine stands on.
type Triggers struct {
	o    TriggersOptions
	turn chan struct{} // holds a token while there is a dry run
	list sync.Mutex    // held while a trigger is shown in a list: garbage of one at a time
}

// NewTriggers returns Triggers.
func NewTriggers(o TriggersOptions) *Triggers { return &Triggers{o: o, turn: make(chan struct{}, 1)} }

// The variables of paths, see http.Request.PathValue.
const (
	VariableID     = "id"
	VariableEntity = "entity"
)

// engine is the engine if it can be asked.
func (t *Triggers) engine() (*trigger.Engine, error) {
	if t.o.Engine == nil {
		return nil, problem.New(api.TriggersOff, "this broker follows no triggers")
	}
	return t.o.Engine, nil
}

// change has the engine change something. What has failed before anything was sent is told from
// what may come yet.
func (t *Triggers) change(ctx context.Context, f func(ctx context.Context, e *trigger.Engine) error) error {
	e, err := t.engine()
	if err != nil {
		return err
	}
	if _, err := e.Triggers(); err != nil {
		return triggerFault(err)
	}
	ctx, cancel := context.WithTimeout(ctx, t.o.AckTimeout)
	defer cancel()
	err = f(ctx, e)
	if err != nil && (err == context.Cause(ctx) || errors.Is(err, trigger.ErrUnavailable) || errors.Is(err, trigger.ErrClosed)) {
		return problem.New(api.OutcomeUnknown, "it may have been stored: ask whether it was, or do it again")
	}
	return triggerFault(err)
}

// triggerFault makes problems of the engine's errors; others stay as they are.
func triggerFault(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rule.ErrInitiallyTrue):
		return problem.BadField("expr", "%s", rule.ErrInitiallyTrue)
	case errors.Is(err, trigger.ErrInvalid):
		return invalid(strings.TrimPrefix(err.Error(), trigger.ErrInvalid.Error()+": "))
	case errors.Is(err, trigger.ErrUnknownTrigger):
		return problem.New(api.UnknownTrigger, "%s", strings.TrimPrefix(err.Error(), trigger.ErrUnknownTrigger.Error()+": "))
	case errors.Is(err, trigger.ErrFull):
		return problem.New(api.StateFull, "%s", err)
	case errors.Is(err, trigger.ErrUnknownFiring):
		return problem.New(api.UnknownFiring, "%s", err)
	case errors.Is(err, trigger.ErrTooLarge):
		return problem.New(api.TooLarge, "%s", strings.TrimPrefix(err.Error(), trigger.ErrTooLarge.Error()+": "))
	case errors.Is(err, trigger.ErrNotLeader):
		return problem.New(api.Fenced, "%s: only the broker that leads changes triggers", err)
	case errors.Is(err, trigger.ErrClosed):
		return problem.New(api.ShuttingDown, "%s", err)
	case errors.Is(err, trigger.ErrUnavailable):
		return problem.New(api.TriggersUnavailable, "it can not use its file, or is making it; it tries again")
	}
	return err
}

// members are what a fault may name first.
var members = []string{"expr", "topic", "fire", "cooldown", "backfill", "carry_fired", "on_retract", "status", "deliver", "id", "entity", "limit"}

// invalid is a bad_request of faults on lines, each of which may begin with the name of its member.
func invalid(text string) *api.Problem {
	p := problem.New(api.BadRequest, "%s", strings.ReplaceAll(text, "\n", "; "))
	for _, m := range members {
		if strings.HasPrefix(text, m+": ") {
			p.Field = m
		}
	}
	return p
}

// entity is the entity of the path.
func entity(r *http.Request, variable string) (string, error) {
	text := r.PathValue(variable)
	if !utf8.ValidString(text) || text == "" || len(text) > rule.EntityBytesMax {
		return "", problem.BadField("entity", "want 1 to %d bytes of UTF-8, given %d", rule.EntityBytesMax, len(text))
	}
	return text, nil
}

// List has add called for each trigger, by id: with how much memory it takes to show it, and what
// shows it, nil if it is not there any more. The triggers are those that are there when it is their
// turn.
func (t *Triggers) List(ctx context.Context, add func(size int64, show func() (any, error)) error) error {
	e, err := t.engine()
	if err != nil {
		return err
	}
	for id := ""; ; {
		h, err := e.Next(id)
		if err != nil || h == nil {
			return triggerFault(err)
		}
		id = h.ID
		err = add(shownBytes(h), func() (any, error) {
			t.list.Lock()
			defer t.list.Unlock()
			h, d, err := e.Stored(ctx, id)
			if errors.Is(err, trigger.ErrUnknownTrigger) {
				return nil, nil
			}
			if err != nil {
				return nil, triggerFault(err)
			}
			return shown(h, d)
		})
		if err != nil {
			return err
		}
	}
}

// Get answers GET /triggers/{id}.
func (t *Triggers) Get(r *http.Request, m *budget.Arena) (*api.Trigger, error) {
	e, err := t.engine()
	if err != nil {
		return nil, err
	}
	return get(r.Context(), e, r.PathValue(VariableID), m)
}

func get(ctx context.Context, e *trigger.Engine, id string, m *budget.Arena) (*api.Trigger, error) {
	h, err := e.Head(id)
	if errors.Is(err, trigger.ErrUnknownTrigger) {
		return nil, problem.New(api.UnknownTrigger, "no trigger %s", problem.Quote(id))
	}
	if err != nil {
		return nil, triggerFault(err)
	}
	if err := m.Hold(shownBytes(h)); err != nil {
		return nil, err
	}
	h, d, err := e.Stored(ctx, id)
	if err != nil {
		return nil, triggerFault(err)
	}
	out, err := shown(h, d)
	return &out, err
}

// Pause answers POST /triggers/{id}/pause, and with paused false /resume.
func (t *Triggers) Pause(r *http.Request, m *budget.Arena, paused bool) (out *api.Trigger, err error) {
	id := r.PathValue(VariableID)
	err = t.change(r.Context(), func(ctx context.Context, e *trigger.Engine) error {
		if err := e.Pause(ctx, id, paused); err != nil {
			return err
		}
		out, err = get(ctx, e, id, m)
		return err
	})
	return out, err
}

// Delete answers DELETE /triggers/{id}, which has no content.
func (t *Triggers) Delete(r *http.Request) error {
	return t.change(r.Context(), func(ctx context.Context, e *trigger.Engine) error { return e.Delete(ctx, r.PathValue(VariableID)) })
}

// Erase answers DELETE /entities/{entity}, which has no content.
func (t *Triggers) Erase(r *http.Request) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	topic := t.o.EventsTopic
	if _, given := q.Text(httpconn.ParamTopic); given {
		topic = q.Topic()
	}
	if q.Fault != nil {
		return q.Fault
	}
	name, err := entity(r, VariableEntity)
	if err != nil {
		return err
	}
	return t.change(r.Context(), func(ctx context.Context, e *trigger.Engine) error { return e.Erase(ctx, topic, name) })
}
