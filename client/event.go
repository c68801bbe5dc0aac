package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sebbroker/seb/api"
)

// Event is an occurrence for an entity, which triggers evaluate.
type Event struct {
	Name     string          `json:"event"`     // at most 256 bytes
	EntityID string          `json:"entity_id"` // the entity, at most 1024 bytes
	Data     json.RawMessage `json:"data,omitempty"`
	// ID identifies the event among those of the entity, in at most 256 bytes. Triggers ignore an
	// event whose ID occurred within the last day. "": no ID.
	ID         string    `json:"id,omitempty"`
	OccurredAt time.Time `json:"occurred_at,omitzero"` // stored, and informational only
}

// EventOptions select the topic of events.
type EventOptions struct {
	Topic string // "": the broker's events topic
}

// StoredEvent is the position of an event's record.
type StoredEvent struct {
	Topic     string
	Partition int32
	Offset    int64
	Time      time.Time // append time, to the millisecond
	// Duplicate reports that an earlier event of the entity has the same ID, at Original (-1: not
	// known). Triggers ignore the duplicate. False can also mean that the broker does not know.
	Duplicate bool
	Original  int64
}

// ProduceEvent appends an event and returns once it is durable. An event with an ID is sent again
// after an unknown outcome, because triggers ignore the second one.
func (c *Client) ProduceEvent(ctx context.Context, e Event, o EventOptions) (StoredEvent, error) {
	r, err := eventRequest([]Event{e}, api.JSON, o)
	if err != nil {
		return StoredEvent{}, rejected(err)
	}
	var out StoredEvent
	err = c.ask(ctx, r, func(resp *http.Response) error {
		var stored api.EventStored
		if err := json.NewDecoder(resp.Body).Decode(&stored); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusCreated || stored.Topic == "" || stored.Offset < 0 || stored.Partition < 0 {
			return fmt.Errorf("%w: event at partition %d of topic %q, offset %d", errNotBroker, stored.Partition, stored.Topic, stored.Offset)
		}
		out = StoredEvent{Topic: stored.Topic, Partition: stored.Partition, Offset: stored.Offset, Time: stored.Time, Original: -1}
		out.Duplicate = stored.Duplicate != nil && *stored.Duplicate
		if out.Duplicate && stored.OriginalOffset != nil {
			out.Original = *stored.OriginalOffset
		}
		return nil
	})
	return out, err
}

// ProduceEvents appends events in one request and returns once they are durable, with the positions
// per partition, in the given order. If all events have an ID, they are sent again after an unknown
// outcome, because triggers ignore the second ones.
func (c *Client) ProduceEvents(ctx context.Context, events []Event, o EventOptions) ([]ProduceResult, error) {
	r, err := eventRequest(events, api.NDJSON, o)
	if err != nil {
		return nil, rejected(err)
	}
	var list []ProduceResult
	err = c.ask(ctx, r, func(resp *http.Response) (err error) {
		var p api.Produced
		if err := json.NewDecoder(resp.Body).Decode(&p); err != nil {
			return err
		}
		list, err = acknowledged(&p, int64(len(events)))
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// eventRequest returns a request with the events as JSON lines.
func eventRequest(events []Event, kind string, o EventOptions) (*request, error) {
	r := &request{
		method: http.MethodPost, path: "/event", query: url.Values{}, header: map[string]string{"Content-Type": kind},
		write: true, idempotent: true,
	}
	if o.Topic != "" {
		r.query.Set("topic-name", o.Topic)
	}
	if len(events) == 0 {
		return nil, errors.New("no events")
	}
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	for i := range events {
		e := &events[i]
		r.idempotent = r.idempotent && e.ID != ""
		err := e.check()
		if err == nil {
			err = enc.Encode(e)
		}
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", i, err)
		}
	}
	r.body = body.Bytes()
	return r, nil
}

// check returns an error if encoding/json would change the event.
func (e *Event) check() error {
	for _, s := range []string{e.Name, e.EntityID, e.ID} {
		if !utf8.ValidString(s) {
			return fmt.Errorf("%q is not valid UTF-8", s)
		}
	}
	return nil
}

// EventNamesQuery selects names of events.
type EventNamesQuery struct {
	Topic  string // "": the broker's events topic
	Prefix string // only names with it
	Limit  int    // at most 1,000; 0 means 100
}

// EventNames returns the names of the events in a topic, the most frequent first, with the
// properties of the newest events.
func (c *Client) EventNames(ctx context.Context, o EventNamesQuery) (EventNames, error) {
	q := url.Values{"limit": {strconv.Itoa(o.Limit)}}
	if o.Topic != "" {
		q.Set("topic-name", o.Topic)
	}
	if o.Prefix != "" {
		q.Set("prefix", o.Prefix)
	}
	return get[EventNames](ctx, c, "/events/names", q)
}

// RiemannIndex returns the events in the index of Riemann events for which a query is true, in
// Riemann's query language. "true" matches all.
func (c *Client) RiemannIndex(ctx context.Context, query string) (RiemannIndex, error) {
	return get[RiemannIndex](ctx, c, "/riemann/index", url.Values{"query": {query}})
}

// ParseExpression parses an expression, as text or in JSON form, which begins with a brace. The Text
// of an expression in JSON form is written like source, the text of a similar expression; "": it is
// canonical. An *Error has the position of the error in the expression, or in source, as its Detail says.
func (c *Client) ParseExpression(ctx context.Context, expr, source string) (Expression, error) {
	var given struct {
		Expr   json.RawMessage `json:"expr"`
		Source string          `json:"source,omitempty"`
	}
	var out Expression
	var err error
	if given.Expr, err = expression(expr); err != nil {
		return out, rejected(err)
	}
	given.Source = source
	body, err := json.Marshal(&given)
	if err != nil {
		return out, rejected(err)
	}
	err = c.call(ctx, &request{method: http.MethodPost, path: "/drip/parse", body: body, header: map[string]string{"Content-Type": api.JSON}}, &out)
	return out, err
}

// Stories returns short histories of one entity that show what an expression means: text, or the
// JSON form, which begins with a brace. Some fire, some do not, and some are not decided yet. An
// *Error about the expression has the position of the error.
func (c *Client) Stories(ctx context.Context, expr string) (Stories, error) {
	var out Stories
	value, err := expression(expr)
	if err != nil {
		return out, rejected(err)
	}
	body, err := json.Marshal(map[string]json.RawMessage{"expr": value})
	if err != nil {
		return out, rejected(err)
	}
	err = c.call(ctx, &request{
		method: http.MethodPost, path: "/drip/stories", body: body, header: map[string]string{"Content-Type": api.JSON},
	}, &out)
	return out, err
}

// expression returns an expression as a member of a request: a string, or its JSON form.
func expression(text string) (json.RawMessage, error) {
	if strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") {
		return json.RawMessage(text), nil
	}
	return json.Marshal(text)
}
