package httpapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/internal/triggers/delivery/webhook"
	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/internal/triggers/secrets"
)

// TriggersOptions configure NewTriggers.
type TriggersOptions struct {
	Engine      *rules.Engine  // nil: this broker runs no trigger engine
	EventsTopic string         // default topic of triggers
	Targets     webhook.Policy // allowed addresses of webhooks
	AckTimeout  time.Duration  // how long a change waits for the store and the engine
	Pace        httpconn.ProgressTimeout
	Drain       *httpconn.DrainGroup // ends dry runs
	DryRunBytes int64                // memory of all dry runs
	Evaluator   *Evaluator           // bounds the evaluations that run at once
}

// Triggers answers requests about triggers and firings. All methods may be called concurrently.
// Results use the memory of their request, which the caller releases after sending the answer.
// Errors: *api.Problem, and those of reading a body, of memory and of the engine's broker.
type Triggers struct {
	o       TriggersOptions
	dry     *dryRuns   // that are running
	listing sync.Mutex // held while a list shows a trigger, to bound garbage
	// passedMax bounds the firings that a page leaves out, because they have another state or the
	// client may not see them. Then the page ends.
	passedMax int
	// examinedMax bounds the triggers that a page of an entity looks up.
	examinedMax int
}

// NewTriggers returns Triggers.
func NewTriggers(o TriggersOptions) *Triggers {
	return &Triggers{o: o, dry: newDryRuns(o.DryRunBytes), passedMax: passedMax, examinedMax: examinedMax}
}

// Path variables, see http.Request.PathValue.
const (
	VariableID     = "id"
	VariableEntity = "entity"
)

// engine returns the engine, or an error if there is none. After a start it waits until the engine has
// opened its file.
func (t *Triggers) engine(ctx context.Context) (*rules.Engine, error) {
	if t.o.Engine == nil {
		return nil, problem.New(api.TriggersOff, "this broker runs no trigger engine")
	}
	ctx, cancel := context.WithTimeout(ctx, timeoutDefault)
	defer cancel()
	t.o.Engine.Started(ctx)
	return t.o.Engine, nil
}

// change calls f to change the engine. It distinguishes changes that were never sent from those of
// unknown outcome.
func (t *Triggers) change(ctx context.Context, f func(ctx context.Context, e *rules.Engine) error) error {
	e, err := t.engine(ctx)
	if err != nil {
		return err
	}
	if _, err := e.Triggers(); err != nil {
		return triggerFault(err)
	}
	ctx, cancel := context.WithTimeout(ctx, t.o.AckTimeout)
	defer cancel()
	err = f(ctx, e)
	if err != nil && (err == context.Cause(ctx) || errors.Is(err, rules.ErrUnavailable) || errors.Is(err, rules.ErrClosed)) {
		return problem.New(api.OutcomeUnknown, "the change may have been stored; check, or repeat it")
	}
	return triggerFault(err)
}

// triggerFault turns errors of the engine into problems; others stay unchanged.
func triggerFault(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rule.ErrInitiallyTrue):
		return problem.BadField("expr", "%s", rule.ErrInitiallyTrue)
	case errors.Is(err, rules.ErrInvalid):
		return invalid(strings.TrimPrefix(err.Error(), rules.ErrInvalid.Error()+": "))
	case errors.As(err, new(*rules.ConditionError)):
		return problem.New(api.PreconditionFailed, "%s", err)
	case errors.Is(err, rules.ErrUnknownTrigger):
		return problem.New(api.UnknownTrigger, "%s", strings.TrimPrefix(err.Error(), rules.ErrUnknownTrigger.Error()+": "))
	case errors.Is(err, rules.ErrFull):
		return problem.New(api.StateFull, "%s", err)
	case errors.Is(err, rules.ErrUnknownFiring):
		return problem.New(api.UnknownFiring, "%s", err)
	case errors.Is(err, rules.ErrTooLarge):
		return problem.New(api.TooLarge, "%s", strings.TrimPrefix(err.Error(), rules.ErrTooLarge.Error()+": "))
	case errors.Is(err, rules.ErrNotLeader):
		return problem.New(api.NotLeader, "%s: only the leader changes triggers", err)
	case errors.Is(err, rules.ErrClosed):
		return problem.New(api.ShuttingDown, "%s", err)
	case errors.Is(err, rules.ErrUnavailable):
		return problem.New(api.TriggersUnavailable, "the trigger database is unavailable or being rebuilt; retry later")
	}
	return err
}

// members are the names that a fault may start with.
var members = []string{"expr", "topic", "fire", "cooldown", "backfill", "carry_fired", "on_retract", "status", "deliver", "id", "entity", "limit"}

// invalid returns a bad_request for faults on lines, each of which may start with the name of its
// member.
func invalid(text string) *api.Problem {
	p := problem.New(api.BadRequest, "%s", strings.ReplaceAll(text, "\n", "; "))
	for _, m := range members {
		if strings.HasPrefix(text, m+": ") {
			p.Field = m
		}
	}
	return p
}

// entity returns the entity of the path.
func entity(r *http.Request) (string, error) {
	text := r.PathValue(VariableEntity)
	if err := checkEntity(text); err != nil {
		return "", problem.BadField("entity", "%v", err)
	}
	return text, nil
}

func checkEntity(text string) error {
	if !utf8.ValidString(text) || text == "" || len(text) > rule.EntityBytesMax {
		return fmt.Errorf("want 1 to %d bytes of UTF-8, given %d", rule.EntityBytesMax, len(text))
	}
	return nil
}

// ParamCounts asks for the counts of firings.
const ParamCounts = "counts"

// Bounds of the firings that are counted: in an answer about one trigger, and in a list those of all
// triggers together, with a minimum and a maximum for each.
const (
	countedOne  = 10_000
	countedAll  = 20_000
	countedMin  = 10
	countedMax  = 1000
	countsBytes = 4 << 10
)

// firings adds the counts of up to limit firings.
func firings(ctx context.Context, e *rules.Engine, x *api.Trigger, limit int) error {
	c, err := e.Counts(ctx, x.ID, limit)
	if err != nil {
		return triggerFault(err)
	}
	x.Firings = &api.TriggerFirings{
		States: map[string]int{}, Day: c.Day, Week: c.Week, Since: instantIf(c.Since), Last: instantIf(c.Last),
		Pending: c.Pending, OldestPending: instantIf(c.Oldest), LagSeconds: e.LagTime().Seconds(),
	}
	for state, n := range c.States {
		x.Firings.States[string(state)] = n
	}
	return nil
}

// countedEach returns the bound for each trigger of a list; 0: nothing is counted.
func countedEach(e *rules.Engine, counts bool) (int, error) {
	all, err := e.Triggers()
	if err != nil || !counts {
		return 0, triggerFault(err)
	}
	return min(max(countedAll/max(len(all), 1), countedMin), countedMax), nil
}

// list adds each trigger of a page that the client may read to l, ordered by ID. Each trigger is read
// when it is shown.
func (t *Triggers) list(ctx context.Context, by *caller, counts bool, page *listPage, l *list) error {
	e, err := t.engine(ctx)
	if err != nil {
		return err
	}
	counted, err := countedEach(e, counts)
	if err != nil {
		return err
	}
	for id := page.after; ; {
		h, err := e.Next(id)
		if err != nil || h == nil {
			return triggerFault(err)
		}
		if id = h.ID; !page.names(id) && !page.names(h.Names...) || !by.Allow(access.Read, access.Trigger, id) {
			continue
		}
		err = l.add(ctx, id, shownBytes(h)+countsBytes, func() (any, error) {
			t.listing.Lock()
			defer t.listing.Unlock()
			h, d, err := e.Stored(ctx, id)
			if errors.Is(err, rules.ErrUnknownTrigger) {
				return nil, nil
			}
			if err != nil {
				return nil, triggerFault(err)
			}
			out, err := shownBy(e, h, d)
			if err == nil && counted > 0 {
				err = firings(ctx, e, &out, counted)
			}
			return out, err
		})
		if err != nil {
			return err
		}
	}
}

// Get answers GET /triggers/{id}.
func (t *Triggers) Get(c *triggerCall) (*api.Trigger, error) {
	q := httpconn.ParseParams(c.r.URL.RawQuery)
	counts := q.Bool(ParamCounts)
	if q.Fault != nil {
		return nil, q.Fault
	}
	out, err := c.get(c.r.Context(), c.r.PathValue(VariableID))
	if err == nil && counts {
		err = firings(c.r.Context(), c.Engine, out, countedOne)
	}
	return out, err
}

func (c *triggerCall) get(ctx context.Context, id string) (*api.Trigger, error) {
	h, err := c.Head(id)
	if errors.Is(err, rules.ErrUnknownTrigger) {
		return nil, problem.New(api.UnknownTrigger, "no trigger %s", problem.Quote(id))
	}
	if err != nil {
		return nil, triggerFault(err)
	}
	if err := c.m.Hold(shownBytes(h)); err != nil {
		return nil, err
	}
	h, d, err := c.Stored(ctx, id)
	if err != nil {
		return nil, triggerFault(err)
	}
	out, err := shownBy(c.Engine, h, d)
	c.tagged(out.Tag)
	return &out, err
}

// tagged sets the ETag of the answer.
func (c *triggerCall) tagged(tag string) { c.w.Header().Set("ETag", `"`+tag+`"`) }

// condition returns the condition of If-Match and If-None-Match; nil: none.
func condition(r *http.Request) (rules.Condition, error) {
	must, err := httpconn.IfMatch(r)
	if err != nil {
		return nil, err
	}
	mustNot, err := httpconn.IfNoneMatch(r)
	if err != nil || must == nil && mustNot == nil {
		return nil, err
	}
	return func(h *rules.Head) bool {
		if h == nil {
			return must == nil
		}
		tag := `"` + h.Tag() + `"`
		return (must == nil || must.Matches(tag)) && !mustNot.Matches(tag)
	}, nil
}

// pausing answers POST /triggers/{id}/pause, and with paused false /resume.
func pausing(paused bool) func(*Triggers, *triggerCall) (*api.Trigger, error) {
	return func(t *Triggers, c *triggerCall) (out *api.Trigger, err error) {
		id := c.r.PathValue(VariableID)
		ctx, err := c.by.changing(c.r.Context(), access.Write, access.Trigger, id)
		if err != nil {
			return nil, err
		}
		err = t.change(ctx, func(ctx context.Context, e *rules.Engine) error {
			if err := e.Pause(ctx, id, paused); err != nil {
				return err
			}
			out, err = c.get(ctx, id)
			return err
		})
		return out, err
	}
}

// Delete answers DELETE /triggers/{id}, which has no content.
func (t *Triggers) Delete(r *http.Request, by *caller) error {
	id := r.PathValue(VariableID)
	is, err := condition(r)
	if err != nil {
		return err
	}
	ctx, err := by.changing(r.Context(), access.Delete, access.Trigger, id)
	if err != nil {
		return err
	}
	return t.change(ctx, func(ctx context.Context, e *rules.Engine) error { return e.Delete(ctx, id, is) })
}

// Erase answers DELETE /entities/{entity}, which has no content.
func (t *Triggers) Erase(r *http.Request, by *caller) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	topic := t.o.EventsTopic
	if _, given := q.Text(httpconn.ParamTopic); given {
		topic = q.Topic()
	}
	if q.Fault != nil {
		return q.Fault
	}
	name, err := entity(r)
	if err != nil {
		return err
	}
	ctx, err := by.changing(r.Context(), access.Delete, access.Trigger, access.Any)
	if err != nil {
		return err
	}
	return t.change(ctx, func(ctx context.Context, e *rules.Engine) error { return e.Erase(ctx, topic, name) })
}

// triggerCall is a request to the trigger engine.
type triggerCall struct {
	*rules.Engine
	w      http.ResponseWriter
	r      *http.Request
	b      *broker.Broker
	by     *caller
	m      *budget.Arena // memory of the answer
	status int           // of the answer
}

// answering makes a route of a function that returns an answer.
func answering[T any](class budget.Kind, answer func(*Triggers, *triggerCall) (*T, error)) serveFunc {
	return func(a *API, w http.ResponseWriter, r *http.Request, by *caller) error {
		e, err := a.triggers.engine(r.Context())
		if err != nil {
			return err
		}
		c := a.triggerCall(e, w, r, by, class)
		defer c.m.Release()
		out, err := answer(a.triggers, c)
		if err != nil {
			return err
		}
		return a.writeState(w, c.status, out)
	}
}

// triggerCall returns the call of a request, whose memory of a class the caller releases.
func (a *API) triggerCall(e *rules.Engine, w http.ResponseWriter, r *http.Request, by *caller, class budget.Kind) *triggerCall {
	return &triggerCall{
		Engine: e, w: w, r: r, b: a.b, by: by, status: http.StatusOK,
		m: &budget.Arena{Class: a.b.Budget().Class(class), Buffers: a.buffers},
	}
}

// doing makes a route of a function without an answer.
func doing(do func(t *Triggers, r *http.Request, by *caller) error) serveFunc {
	return func(a *API, w http.ResponseWriter, r *http.Request, by *caller) error {
		if err := do(a.triggers, r, by); err != nil {
			return err
		}
		return a.changed(w)
	}
}

func (a *API) getTriggers(w http.ResponseWriter, r *http.Request, by *caller) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	counts, page := q.Bool(ParamCounts), parsePage(q)
	if q.Fault != nil {
		return q.Fault
	}
	a.readHeaders(w)
	l := a.newList(w, "triggers", page.most)
	return l.end(a.triggers.list(r.Context(), by, counts, &page, l))
}

// Secrets answers GET /secrets.
func (t *Triggers) Secrets(c *triggerCall) (*api.Secrets, error) {
	s, err := c.SecretsState()
	if err != nil {
		return nil, triggerFault(err)
	}
	active := c.Keys().Active().String()
	out := api.Secrets{Keys: []string{}, Readable: s.Readable, Encrypted: map[string]int{}, Blocked: s.Locked, Triggers: []string{}}
	maps.Copy(out.Encrypted, s.Keys)
	for _, id := range s.Names {
		if c.by.Allow(access.Read, access.Trigger, id) {
			out.Triggers = append(out.Triggers, id)
		}
	}
	if sealed := c.b.Access().Signing(); sealed != "" {
		id, _ := secrets.SigningKeyOf(sealed)
		out.SigningKey = id.String()
	}
	for i, id := range c.Keys().IDs() {
		if i == 0 {
			out.Key = active
		} else {
			out.Left += s.Keys[id.String()]
		}
		out.Keys = append(out.Keys, id.String())
	}
	return &out, nil
}

// Rewrap answers POST /secrets/rewrap, which gives some triggers the active key.
func (t *Triggers) Rewrap(c *triggerCall) (out *api.Secrets, err error) {
	ctx, err := c.by.changing(c.r.Context(), access.Alter, access.Cluster, access.ClusterName)
	if err != nil {
		return nil, err
	}
	done := 0
	err = t.change(ctx, func(ctx context.Context, e *rules.Engine) error {
		done, err = e.Rewrap(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	if out, err = t.Secrets(c); err == nil {
		out.Rewrapped = done
	}
	return out, err
}
