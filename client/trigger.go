package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/sebbroker/seb/api"
)

// TriggerSpec describes a trigger to create or change. A field that is not set has its default.
type TriggerSpec struct {
	// Expr is the expression: text, or the JSON form, which begins with a brace. Required.
	Expr     string
	Topic    string // with its events; "": the broker's events topic
	Fire     string // once (default), edge, reset
	Cooldown string // such as 7d: further firings are suppressed for this time
	// Backfill is the effect of older events: silent (default), current, replay or none.
	Backfill string
	// CarryFired false lets a fire-once trigger fire again for entities that fired under an earlier
	// version. nil means true.
	CarryFired *bool
	OnRetract  string // "" or notify
	// Status is active or paused; "": unchanged, and active for a new trigger.
	Status string
	// Deliver is the destination of firings; docs/guide/webhooks.md describes its members. nil: no
	// delivery.
	Deliver json.RawMessage
	// KeepDeliver keeps the delivery of the existing trigger, with its secrets. Not with Deliver.
	KeepDeliver bool
	// IfTag lets PutTrigger change only a stored trigger with this Tag, so that it does not undo the
	// change of another client; "": any trigger, or none.
	IfTag string
	// IfNew lets PutTrigger only create a trigger.
	IfNew bool
}

// FiringQuery selects firings.
type FiringQuery struct {
	Trigger string // "": all triggers
	Entity  string // "": all entities
	State   string // such as dead; "": all states
	After   int64  // only firings with a higher Seq
	Before  int64  // only firings with a lower Seq; 0: no bound
	Newest  bool   // the newest first
	Limit   int    // at most 1,000; 0 means 100
}

// body returns the spec as JSON.
func (s *TriggerSpec) body() ([]byte, error) {
	expr, err := expression(s.Expr)
	if err != nil {
		return nil, err
	}
	return json.Marshal(&api.TriggerSpec{
		Expr: expr, Topic: s.Topic, Fire: s.Fire, Cooldown: s.Cooldown, Backfill: s.Backfill, CarryFired: s.CarryFired,
		OnRetract: s.OnRetract, Status: s.Status, Deliver: s.Deliver, KeepDeliver: s.KeepDeliver,
	})
}

// PutTrigger creates the trigger with this ID, or replaces its definition. A change that affects
// the evaluation creates a new version. An *Error about the expression has the position of the
// error. A repeated call has the same result. Error: ErrPreconditionFailed, with IfTag and IfNew.
func (c *Client) PutTrigger(ctx context.Context, id string, s TriggerSpec) (StoredTrigger, error) {
	var out StoredTrigger
	body, err := s.body()
	if err != nil {
		return out, rejected(err)
	}
	header := map[string]string{"Content-Type": api.JSON}
	if s.IfTag != "" {
		header["If-Match"] = `"` + s.IfTag + `"`
	}
	if s.IfNew {
		header["If-None-Match"] = "*"
	}
	err = c.call(ctx, &request{
		method: http.MethodPut, path: "/triggers/" + url.PathEscape(id), body: body, write: true, idempotent: true, header: header,
	}, &out)
	return out, err
}

// Trigger returns the trigger with this ID. Error: ErrUnknownTrigger.
func (c *Client) Trigger(ctx context.Context, id string) (Trigger, error) {
	return get[Trigger](ctx, c, "/triggers/"+url.PathEscape(id), nil)
}

// Triggers returns all triggers, sorted by ID.
func (c *Client) Triggers(ctx context.Context) ([]Trigger, error) {
	return listed(ctx, c, "/triggers", nil, triggersOf)
}

// CountedTrigger is Trigger, with Firings.
func (c *Client) CountedTrigger(ctx context.Context, id string) (Trigger, error) {
	return get[Trigger](ctx, c, "/triggers/"+url.PathEscape(id), url.Values{"counts": {"true"}})
}

// CountedTriggers is Triggers, with Firings.
func (c *Client) CountedTriggers(ctx context.Context) ([]Trigger, error) {
	return listed(ctx, c, "/triggers", url.Values{"counts": {"true"}}, triggersOf)
}

func triggersOf(p *api.Triggers) ([]Trigger, *string) { return p.Triggers, p.Next }

// DeleteTrigger deletes a trigger and drops its undelivered firings. Error: ErrUnknownTrigger.
func (c *Client) DeleteTrigger(ctx context.Context, id string) error {
	return c.call(ctx, &request{method: http.MethodDelete, path: "/triggers/" + url.PathEscape(id), write: true}, nil)
}

// PauseTrigger with paused true suppresses new firings and holds undelivered ones; with paused
// false it ends that.
func (c *Client) PauseTrigger(ctx context.Context, id string, paused bool) (Trigger, error) {
	what := "/resume"
	if paused {
		what = "/pause"
	}
	return post[Trigger](ctx, c, "/triggers/"+url.PathEscape(id)+what, nil, true)
}

// Explain returns the state of a trigger for an entity.
func (c *Client) Explain(ctx context.Context, id, entity string) (Explanation, error) {
	return get[Explanation](ctx, c, "/triggers/"+url.PathEscape(id)+"/entities/"+url.PathEscape(entity), nil)
}

// EntityTriggers returns the triggers with an ID after the given one that have state or firings of
// an entity, sorted by ID, with one request per page. An error is the last element.
func (c *Client) EntityTriggers(ctx context.Context, entity, after string) iter.Seq2[EntityTrigger, error] {
	return func(yield func(EntityTrigger, error) bool) {
		q := url.Values{}
		for next := &after; next != nil; {
			if *next != "" {
				q.Set("after", *next)
			}
			page, err := get[api.Entity](ctx, c, "/entities/"+url.PathEscape(entity), q)
			if err != nil {
				yield(EntityTrigger{}, err)
				return
			}
			for i := range page.Triggers {
				if !yield(page.Triggers[i], nil) {
					return
				}
			}
			next = page.Next
		}
	}
}

// Firings returns firings in the order of Seq. next is the After of the next page, or with Newest
// the Before; 0: there are no more firings now. A page can have fewer firings than Limit, or none,
// and a next.
func (c *Client) Firings(ctx context.Context, q FiringQuery) (list []Firing, next int64, err error) {
	v := url.Values{"after": {strconv.FormatInt(q.After, 10)}, "limit": {strconv.Itoa(q.Limit)}}
	for name, value := range map[string]string{"trigger": q.Trigger, "entity": q.Entity, "state": q.State} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.Before != 0 {
		v.Set("before", strconv.FormatInt(q.Before, 10))
	}
	if q.Newest {
		v.Set("order", "newest")
	}
	out, err := get[api.Firings](ctx, c, "/firings", v)
	if out.Next != nil {
		next = *out.Next
	}
	return out.Firings, next, err
}

// Firing returns the firing with this ID and its matched events. Error: ErrUnknownFiring.
func (c *Client) Firing(ctx context.Context, id string) (Firing, error) {
	return get[Firing](ctx, c, "/firings/"+url.PathEscape(id), nil)
}

// ResendFiring delivers a firing again, whatever its state.
func (c *Client) ResendFiring(ctx context.Context, id string) (Firing, error) {
	return post[Firing](ctx, c, "/firings/"+url.PathEscape(id)+"/resend", nil, false)
}

// EraseEntity deletes the state and the firings of an entity from the triggers of a topic ("": the
// broker's events topic).
func (c *Client) EraseEntity(ctx context.Context, topic, entity string) error {
	q := url.Values{}
	if topic != "" {
		q.Set("topic-name", topic)
	}
	return c.call(ctx, &request{method: http.MethodDelete, path: "/entities/" + url.PathEscape(entity), query: q, write: true, idempotent: true}, nil)
}

// DryRunOptions describe one DryRunWith. The zero value asks for all that a DryRun has.
type DryRunOptions struct {
	// Since and Until bound the log times of the firings that count, Until exclusively. Earlier
	// events are history of the expression. Zero: no bound.
	Since, Until time.Time
	// Sample evaluates one of so many entities; the answer has an Estimate. 0 and 1: all.
	Sample int
	// Progress is called about twice a second until the call returns. The numbers grow, except that
	// a repeated request begins again. nil: none.
	Progress func(DryRunProgress)
}

// DryRun evaluates a trigger on all events that the log still has. It changes nothing, and may take
// minutes. The end of ctx ends it in the broker too.
func (c *Client) DryRun(ctx context.Context, s TriggerSpec) (DryRun, error) {
	return c.DryRunWith(ctx, s, DryRunOptions{})
}

// DryRunWith is DryRun of a range or a sample, or with progress.
func (c *Client) DryRunWith(ctx context.Context, s TriggerSpec, o DryRunOptions) (DryRun, error) {
	var out DryRun
	body, err := s.body()
	if err != nil {
		return out, rejected(err)
	}
	query := url.Values{}
	for name, at := range map[string]time.Time{"since": o.Since, "until": o.Until} {
		if !at.IsZero() {
			query.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	if o.Sample > 1 {
		query.Set("sample", strconv.Itoa(o.Sample))
	}
	r := &request{method: http.MethodPost, path: "/triggers/dry-run", query: query, body: body, header: map[string]string{"Content-Type": api.JSON}}
	if o.Progress == nil {
		err = c.call(ctx, r, &out)
		return out, err
	}
	r.header["Accept"] = api.EventStream + ", " + api.ProblemJSON
	err = c.do(ctx, r, func(resp *http.Response) error {
		defer drain(resp.Body)
		return readDryRun(resp.Body, &out, o.Progress)
	})
	return out, err
}

// readDryRun reads an event stream up to its result.
func readDryRun(stream io.Reader, out *DryRun, progress func(DryRunProgress)) error {
	event := ""
	for in := bufio.NewReader(stream); ; {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		name, value, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(": "))
		switch {
		case string(name) == "event":
			event = string(value)
		case string(name) != "data":
		case event == "progress":
			var p DryRunProgress
			if err := json.Unmarshal(value, &p); err != nil {
				return err
			}
			progress(p)
		case event == "result":
			return json.Unmarshal(value, out)
		case event == "error":
			return streamError(value)
		default:
			return fmt.Errorf("%w: event %s", errNotBroker, strconv.Quote(event))
		}
	}
}

// streamError returns the error of an event with a problem.
func streamError(problem []byte) error {
	var p api.Problem
	if err := json.Unmarshal(problem, &p); err != nil {
		return err
	}
	return errorOf(&http.Response{
		StatusCode: p.Status, Header: http.Header{"Content-Type": {api.ProblemJSON}}, Body: io.NopCloser(bytes.NewReader(problem)),
	}, false)
}
