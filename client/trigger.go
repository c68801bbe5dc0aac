package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/sebbroker/seb/api"
)

// TriggerSpec is what a trigger is made or changed with. What is left out has its default.
type TriggerSpec struct {
	// Expr is the expression: text, or the JSON form, which begins with a brace. Required.
	Expr     string
	Topic    string // of its events; "": the broker's
	Fire     string // once (default), edge, reset
	Cooldown string // such as 7d: after a firing others are suppressed for so long
	Backfill string // silent (default), current, replay, none: what the events do that were there before
	// CarryFired false: what earlier versions have fired does not count for a trigger that fires once. nil is true.
	CarryFired *bool
	OnRetract  string // "" or notify
	Status     string // active or paused; "": as it is, active if it is new
	// Deliver says where firings go: docs/guide/webhooks.md has its members. nil: nowhere.
	Deliver json.RawMessage
}

// FiringQuery says which firings are wanted.
type FiringQuery struct {
	Trigger string // "": of all
	After   int64  // only those with a higher Seq
	Limit   int    // at most so many, up to 1,000; 0: 100
}

// body is the spec in JSON.
func (s *TriggerSpec) body() ([]byte, error) {
	expr := json.RawMessage(s.Expr)
	if !strings.HasPrefix(strings.TrimLeft(s.Expr, " \t\r\n"), "{") {
		var err error
		if expr, err = json.Marshal(s.Expr); err != nil {
			return nil, err
		}
	}
	return json.Marshal(&api.TriggerSpec{
		Expr: expr, Topic: s.Topic, Fire: s.Fire, Cooldown: s.Cooldown, Backfill: s.Backfill, CarryFired: s.CarryFired,
		OnRetract: s.OnRetract, Status: s.Status, Deliver: s.Deliver,
	})
}

// PutTrigger makes a trigger, or changes the one of that id: all of it is given. If what it makes of events is another, it is a
// new version. An *Error about the expression has the fault's place. The outcome of a repeated call is the same.
func (c *Client) PutTrigger(ctx context.Context, id string, s TriggerSpec) (StoredTrigger, error) {
	var out StoredTrigger
	body, err := s.body()
	if err != nil {
		return out, rejected(err)
	}
	err = c.call(ctx, &request{
		method: http.MethodPut, path: "/triggers/" + url.PathEscape(id), body: body, write: true, harmless: true,
		header: map[string]string{"Content-Type": api.JSON},
	}, &out)
	return out, err
}

// DryRun says what a trigger would have done had it always been there. It changes nothing, and may take minutes.
func (c *Client) DryRun(ctx context.Context, s TriggerSpec) (DryRun, error) {
	var out DryRun
	body, err := s.body()
	if err != nil {
		return out, rejected(err)
	}
	err = c.call(ctx, &request{method: http.MethodPost, path: "/triggers/dry-run", body: body, header: map[string]string{"Content-Type": api.JSON}}, &out)
	return out, err
}

// Trigger is the trigger of an id, or ErrUnknownTrigger.
func (c *Client) Trigger(ctx context.Context, id string) (Trigger, error) {
	var out Trigger
	err := c.call(ctx, &request{method: http.MethodGet, path: "/triggers/" + url.PathEscape(id)}, &out)
	return out, err
}

// Triggers are all triggers, by id.
func (c *Client) Triggers(ctx context.Context) ([]Trigger, error) {
	var out struct{ Triggers []Trigger }
	err := c.call(ctx, &request{method: http.MethodGet, path: "/triggers"}, &out)
	return out.Triggers, err
}

// DeleteTrigger deletes a trigger, or says ErrUnknownTrigger. What it has not delivered is not delivered any more.
func (c *Client) DeleteTrigger(ctx context.Context, id string) error {
	return c.call(ctx, &request{method: http.MethodDelete, path: "/triggers/" + url.PathEscape(id), write: true}, nil)
}

// PauseTrigger suppresses what fires from now on, and lets what is to be delivered wait; with paused false it ends that.
func (c *Client) PauseTrigger(ctx context.Context, id string, paused bool) (Trigger, error) {
	what := "/resume"
	if paused {
		what = "/pause"
	}
	var out Trigger
	err := c.call(ctx, &request{method: http.MethodPost, path: "/triggers/" + url.PathEscape(id) + what, write: true, harmless: true}, &out)
	return out, err
}

// Explain says what a trigger knows of an entity.
func (c *Client) Explain(ctx context.Context, id, entity string) (Explanation, error) {
	var out Explanation
	path := "/triggers/" + url.PathEscape(id) + "/entities/" + url.PathEscape(entity)
	err := c.call(ctx, &request{method: http.MethodGet, path: path}, &out)
	return out, err
}

// Firings are firings in the order of Seq. next is what to give as After for those that follow; 0: there are none now.
func (c *Client) Firings(ctx context.Context, q FiringQuery) (list []Firing, next int64, err error) {
	v := url.Values{"after": {strconv.FormatInt(q.After, 10)}, "limit": {strconv.Itoa(q.Limit)}}
	if q.Trigger != "" {
		v.Set("trigger", q.Trigger)
	}
	var out struct {
		Firings []Firing
		Next    int64
	}
	err = c.call(ctx, &request{method: http.MethodGet, path: "/firings", query: v}, &out)
	return out.Firings, out.Next, err
}

// Firing is the firing of an id with the events because of which it has fired, or ErrUnknownFiring.
func (c *Client) Firing(ctx context.Context, id string) (Firing, error) {
	var out Firing
	err := c.call(ctx, &request{method: http.MethodGet, path: "/firings/" + url.PathEscape(id)}, &out)
	return out, err
}

// ResendFiring delivers a firing once more, whatever became of it.
func (c *Client) ResendFiring(ctx context.Context, id string) (Firing, error) {
	var out Firing
	err := c.call(ctx, &request{method: http.MethodPost, path: "/firings/" + url.PathEscape(id) + "/resend", write: true}, &out)
	return out, err
}

// EraseEntity has the triggers of a topic ("": the broker's topic of events) forget an entity, with its firings.
func (c *Client) EraseEntity(ctx context.Context, topic, entity string) error {
	q := url.Values{}
	if topic != "" {
		q.Set("topic-name", topic)
	}
	return c.call(ctx, &request{method: http.MethodDelete, path: "/entities/" + url.PathEscape(entity), query: q, write: true, harmless: true}, nil)
}
