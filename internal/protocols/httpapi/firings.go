package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/internal/triggers/delivery/webhook"
	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
)

const (
	firingsDefault = 100
	firingsMax     = 1000
	// A page of firings is read from the engine in steps. It ends before answerBytes, even below
	// its limit.
	firingsStep = 20
	passedMax   = 10_000 // see Triggers
	answerBytes = 512 << 10
	// firingBytes bounds the memory of a firing without its outcome.
	firingBytes = 8 << 10
	// An answer has up to eventBytes of matched events, and one more. matchedBytes bounds their
	// memory.
	eventBytes   = 512 << 10
	matchedBytes = 3 << 20
	// heldBytes bounds the memory of reading a definition.
	heldBytes = 1 << 20
)

// Query parameters of GET /firings. The entity has the name of the path variable.
const (
	ParamTrigger = "trigger"
	ParamState   = "state"
)

// firingsQuery is a request for firings.
type firingsQuery struct {
	rules.FiringQuery
	state rule.State // "": all
	limit int
}

func parseFirings(query string) (f firingsQuery, err error) {
	q := httpconn.ParseParams(query)
	f.After, f.Before = q.Number(httpconn.ParamAfter, 0, math.MaxInt64), q.Number(httpconn.ParamBefore, 0, math.MaxInt64)
	f.limit = cmp.Or(int(q.Number(httpconn.ParamLimit, firingsDefault, firingsMax)), firingsDefault)
	var given bool
	if f.Trigger, given = q.Text(ParamTrigger); given {
		if err := rule.CheckID(f.Trigger); err != nil {
			q.Fail(ParamTrigger, "%v", err)
		}
	}
	if f.Entity, given = q.Text(VariableEntity); given {
		if err := checkEntity(f.Entity); err != nil {
			q.Fail(VariableEntity, "%v", err)
		}
	}
	text, given := q.Text(ParamState)
	if f.state = rule.State(text); given && !slices.Contains(rule.States, f.state) {
		q.Fail(ParamState, "want one of %s, given %s", joined(rule.States), problem.Quote(text))
	}
	switch text, given := q.Text(httpconn.ParamOrder); {
	case text == newestFirst:
		f.Newest = true
	case given && text != oldestFirst:
		q.Fail(httpconn.ParamOrder, "want %s or %s, given %s", newestFirst, oldestFirst, problem.Quote(text))
	}
	if q.Fault != nil {
		return f, q.Fault
	}
	return f, nil
}

func joined(list []rule.State) string {
	var b strings.Builder
	for i, s := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(s))
	}
	return b.String()
}

// next returns the cursor: the Seq of the last firing that was read.
func (f *firingsQuery) next() *int64 {
	if f.Newest {
		return &f.Before
	}
	return &f.After
}

// Firings answers GET /firings.
func (t *Triggers) Firings(c *triggerCall) (*api.Firings, error) {
	f, err := parseFirings(c.r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	if err := c.m.Hold(firingsStep*(firingBytes+rules.OutcomeBytesMax) + 3*answerBytes + heldBytes); err != nil {
		return nil, err
	}
	out, held := &api.Firings{Firings: []api.Firing{}}, t.holds(c)
	for size, passed := 0, 0; len(out.Firings) < f.limit; {
		if f.Limit = firingsStep; f.state == "" {
			f.Limit = min(firingsStep, f.limit-len(out.Firings))
		}
		list, err := c.Engine.Firings(c.r.Context(), f.FiringQuery)
		if err != nil {
			return nil, triggerFault(err)
		}
		for i := range list {
			x := &list[i]
			if f.state != "" && x.State != f.state || !c.by.Allow(access.Read, access.Trigger, x.Trigger) {
				*f.next() = x.Seq
				if passed++; passed == t.passedMax {
					out.Next = f.next()
					return out, nil
				}
				continue
			}
			if size += firingBytes/8 + len(x.Entity) + len(x.Outcome) + 8*len(x.Witness); size > answerBytes || len(out.Firings) == f.limit {
				out.Next = f.next()
				return out, nil
			}
			out.Firings, *f.next() = append(out.Firings, held.firing(x)), x.Seq
		}
		if len(list) < f.Limit {
			return out, nil
		}
	}
	out.Next = f.next()
	return out, nil
}

// Firing answers GET /firings/{id}, with the matched events.
func (t *Triggers) Firing(c *triggerCall) (*api.Firing, error) {
	id, err := firingID(c.r)
	if err != nil {
		return nil, err
	}
	if err := c.m.Hold(matchedBytes + heldBytes); err != nil {
		return nil, err
	}
	x, err := c.firing(id, access.Read)
	if err != nil {
		return nil, err
	}
	out := t.holds(c).firing(&x)
	left := eventBytes
	if out.Witness, err = matchedEvents(c.r.Context(), c.Engine, &x, &left); err != nil {
		return nil, err
	}
	if !c.by.Allow(access.Read, access.Topic, x.Topic) {
		for i := range out.Witness {
			out.Witness[i].ID, out.Witness[i].Data = "", nil
		}
		return &out, nil
	}
	// A token that is revoked, or loses the right, while the answer is sent gets no more of it.
	return &out, c.by.require(access.Read, access.Topic, x.Topic)
}

// firing returns a firing if the client may perform an operation on its trigger. Otherwise it does
// not exist for the client.
func (c *triggerCall) firing(id rule.ID, o access.Operation) (x rules.Firing, err error) {
	if !c.by.AllowSome(o, access.Trigger) {
		return x, forbidden(o, access.Trigger, access.Any)
	}
	x, err = c.Engine.Firing(c.r.Context(), id)
	switch {
	case err != nil:
		return x, triggerFault(err)
	case !c.by.Allow(o, access.Trigger, x.Trigger):
		return x, triggerFault(fmt.Errorf("%w: %s", rules.ErrUnknownFiring, id))
	}
	return x, c.by.require(o, access.Trigger, x.Trigger) // the right is checked again when the answer is written
}

func firingID(r *http.Request) (rule.ID, error) {
	id, err := rule.ParseID(r.PathValue(VariableID))
	if err != nil {
		return id, problem.New(api.UnknownFiring, "a firing ID has 32 hex digits, given %s", problem.Quote(r.PathValue(VariableID)))
	}
	if id.IsZero() {
		return id, problem.New(api.UnknownFiring, "no firing has this ID")
	}
	return id, nil
}

// matchedEvents returns the matched events of a firing until left, the remaining bytes of data, is
// used up.
func matchedEvents(ctx context.Context, e *rules.Engine, x *rules.Firing, left *int) (out []api.MatchedEvent, err error) {
	single := *x
	for _, offset := range x.Witness {
		if *left <= 0 {
			break
		}
		// One event at a time, because their sizes are unknown.
		single.Witness = []int64{offset}
		list, err := e.MatchedEvents(ctx, &single)
		if err != nil {
			return nil, triggerFault(err)
		}
		for i := range list {
			w := &list[i]
			*left -= len(w.Data)
			out = append(out, api.MatchedEvent{Event: w.Name, Offset: w.Offset, Time: instant(w.Time), ID: w.ID, Data: w.Data})
		}
	}
	return out, nil
}

// Resend answers POST /firings/{id}/resend with the firing.
func (t *Triggers) Resend(c *triggerCall) (out *api.Firing, err error) {
	id, err := firingID(c.r)
	if err != nil {
		return nil, err
	}
	if err := c.m.Hold(firingBytes + rules.OutcomeBytesMax + heldBytes); err != nil {
		return nil, err
	}
	x, err := c.firing(id, access.Write)
	if err != nil {
		return nil, err
	}
	ctx, err := c.by.changing(c.r.Context(), access.Write, access.Trigger, x.Trigger)
	if err != nil {
		return nil, err
	}
	err = t.change(ctx, func(ctx context.Context, e *rules.Engine) error {
		if err := e.Resend(ctx, id); err != nil {
			return err
		}
		x, err := e.Firing(ctx, id)
		if err == nil {
			out = new(t.holds(c).firing(&x))
		}
		return err
	})
	return out, err
}

// withoutAnswer removes the receiver's answer from an outcome.
func withoutAnswer(outcome json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(outcome, &members) != nil || members == nil {
		return nil
	}
	delete(members, "detail")
	text, _ := json.Marshal(members) // it was read from JSON
	return text
}

// firing converts a firing to its form in answers.
func firing(x *rules.Firing) api.Firing {
	out := api.Firing{
		Seq: x.Seq, ID: x.ID.String(), Trigger: x.Trigger, Version: x.Version, Entity: x.Entity, At: instant(x.At), Cause: x.Cause,
		State: string(x.State), RecordedAt: instantOrZero(x.Recorded), RetractedAt: instantOrZero(x.RetractedAt), Retraction: x.Retraction,
		Attempts: x.Tries, Topic: x.Topic, Partition: int32(x.Partition), Offsets: append([]int64{}, x.Witness...),
	}
	if json.Valid(x.Outcome) {
		out.Outcome = x.Outcome
	}
	return out
}

// Reasons why a due firing is not delivered.
const (
	heldQuiet  = "quiet_hours"
	heldPaused = "paused"
)

// holds adds the reasons to firings, from the current definitions of their triggers. It belongs to
// one request.
type holds struct {
	*Triggers
	c     *triggerCall
	known map[string]hold
}

// hold is the part of a trigger that delays its firings.
type hold struct {
	paused bool
	quiet  webhook.QuietHours
}

func (t *Triggers) holds(c *triggerCall) *holds { return &holds{t, c, map[string]hold{}} }

// of reads the state of a trigger. A trigger that was deleted, or cannot be read, delays nothing.
func (h *holds) of(id string) hold {
	x, ok := h.known[id]
	if !ok {
		h.listing.Lock()
		defer h.listing.Unlock()
		if head, d, err := h.c.Stored(h.c.r.Context(), id); err == nil {
			x = hold{paused: head.Paused, quiet: webhook.QuietOf(d.Deliver)}
		}
		h.known[id] = x
	}
	return x
}

// firing converts a firing to its form in answers. A receiver may repeat events in its answer, so a
// client without the right to read them gets the outcome without the answer.
func (h *holds) firing(x *rules.Firing) api.Firing {
	out := firing(x)
	if !h.c.by.Allow(access.Read, access.Topic, x.Topic) {
		out.Outcome = withoutAnswer(out.Outcome)
	}
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
