package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

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
	// FiredAnew: what earlier versions have fired does not count for a trigger that fires once.
	FiredAnew bool
	OnRetract string // "" or notify
	Status    string // active or paused; "": as it is, active if it is new
	// Deliver says where firings go: docs/webhooks.md has its members. nil: nowhere.
	Deliver json.RawMessage
}

// Trigger is a trigger as the broker follows it.
type Trigger struct {
	ID          string          `json:"id"`
	Version     int             `json:"version"`
	Text        string          `json:"text"`  // the expression as its author wrote it
	Expr        json.RawMessage `json:"expr"`  // the same in the JSON form
	Names       []string        `json:"names"` // of the events that it mentions
	Class       string          `json:"class"` // windowed, or constant between events
	Topic       string          `json:"topic"`
	Fire        string          `json:"fire"`
	Cooldown    string          `json:"cooldown,omitempty"`
	Backfill    string          `json:"backfill"`
	CarryFired  bool            `json:"carry_fired"`
	OnRetract   string          `json:"on_retract,omitempty"`
	Status      string          `json:"status"`
	Deliver     json.RawMessage `json:"deliver,omitempty"` // with its secrets masked
	Backfilling bool            `json:"backfilling"`       // it reads what was there before it
	// Late: it costs so much that it reads what is new by itself, behind the others.
	Late bool `json:"late,omitempty"`
	// TopicMissing: the topic of its events was deleted. It follows the next one of that name.
	TopicMissing bool      `json:"topic_missing"`
	CreatedAt    time.Time `json:"created_at"`
	VersionAt    time.Time `json:"version_at"`
}

// StoredTrigger is what came of PutTrigger.
type StoredTrigger struct {
	Trigger
	Warnings []string       `json:"warnings"` // what its author may not have meant
	History  []HistoryStart `json:"history"`  // where the events begin that are still there
}

// HistoryStart is the first offset of a partition that is there.
type HistoryStart struct {
	Partition int   `json:"partition"`
	Offset    int64 `json:"offset"`
}

// Firing is a firing and what became of it.
type Firing struct {
	Seq         int64           `json:"seq"` // in the order in which the broker learned of them
	ID          string          `json:"id"`
	Trigger     string          `json:"trigger"`
	Version     int             `json:"version"`
	Entity      string          `json:"entity"`
	At          time.Time       `json:"at"` // in the log's time
	Cause       string          `json:"cause"`
	State       string          `json:"state"`
	RecordedAt  time.Time       `json:"recorded_at,omitzero"`
	RetractedAt time.Time       `json:"retracted_at,omitzero"`
	Retraction  bool            `json:"retraction,omitempty"`
	Attempts    int             `json:"attempts"`
	NextAttempt time.Time       `json:"next_attempt,omitzero"`
	Held        string          `json:"held,omitempty"` // why it is not delivered though it is due: quiet_hours or paused
	Outcome     json.RawMessage `json:"outcome,omitempty"`
	Topic       string          `json:"topic"`
	Partition   int32           `json:"partition"`
	Offsets     []int64         `json:"offsets"`           // of the events because of which it has fired
	Witness     []WitnessEvent  `json:"witness,omitempty"` // those events, where one firing is asked for
}

// WitnessEvent is an event because of which something has fired.
type WitnessEvent struct {
	Event  string          `json:"event"`
	Offset int64           `json:"offset"`
	Time   time.Time       `json:"time"`
	ID     string          `json:"id,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
}

// FiringQuery says which firings are wanted.
type FiringQuery struct {
	Trigger string // "": of all
	After   int64  // only those with a higher Seq
	Limit   int    // at most so many, up to 1,000; 0: 100
}

// Explanation is what a trigger knows of an entity.
type Explanation struct {
	Trigger string    `json:"trigger"`
	Version int       `json:"version"`
	Entity  string    `json:"entity"`
	Known   bool      `json:"known"`
	Value   bool      `json:"value"`
	AsOf    time.Time `json:"as_of,omitzero"`
	Next    time.Time `json:"next,omitzero"` // when Value changes if nothing more happens; zero: never
	Over    bool      `json:"over"`
	Fired   bool      `json:"fired"`
	Waits   string    `json:"waits"` // for people
	// MustCome and MustNotCome are parts of the expression: those that it waits for, and those of which the events prevent or end
	// that it is true.
	MustCome    []string `json:"must_come"`
	MustNotCome []string `json:"must_not_come"`
	Names       []string `json:"names"`
	Instances   int      `json:"instances"`
	Degraded    bool     `json:"degraded"`
	Offsets     []int64  `json:"offsets"`
	Firings     []Firing `json:"firings"`
}

// DryRun is what a trigger would have done had it always been there.
type DryRun struct {
	Events    int64            `json:"events"`
	Matched   int64            `json:"matched"`
	Entities  int              `json:"entities"`
	Firings   int64            `json:"firings"`
	Days      map[string]int64 `json:"days"`     // firings by day, UTC
	True      int              `json:"true_now"` // entities
	Waiting   int              `json:"waiting"`  // entities that will change by themselves, the first at Next
	Next      time.Time        `json:"next,omitzero"`
	Instances int              `json:"instances"`
	AsOf      time.Time        `json:"as_of"`
	Truncated bool             `json:"truncated"` // more entities than fit into memory: those that came first count
	History   []HistoryStart   `json:"history"`
	Names     []string         `json:"names"`
	Class     string           `json:"class"`
	Warnings  []string         `json:"warnings"`
	Samples   []Sample         `json:"samples"` // the last ones
}

// Sample is a firing that would have been.
type Sample struct {
	Entity  string         `json:"entity"`
	At      time.Time      `json:"at"`
	Cause   string         `json:"cause"`
	Offsets []int64        `json:"offsets"`
	Witness []WitnessEvent `json:"witness,omitempty"`
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
		Expr: expr, Topic: s.Topic, Fire: s.Fire, Cooldown: s.Cooldown, Backfill: s.Backfill, CarryFired: new(!s.FiredAnew),
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
