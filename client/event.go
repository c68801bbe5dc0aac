package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
	"unicode/utf8"

	"github.com/sebbroker/seb/api"
)

// Event is something that happened to an entity, for triggers to look at.
type Event struct {
	Name     string          `json:"event"`     // at most 256 bytes, as EntityID, which may have 1024
	EntityID string          `json:"entity_id"` // what it happened to
	Data     json.RawMessage `json:"data,omitempty"`
	// ID names it among the events of the entity: triggers ignore one that comes again within a day. "": it has none. At most
	// 256 bytes.
	ID         string    `json:"id,omitempty"`
	OccurredAt time.Time `json:"occurred_at,omitzero"` // kept, and nothing goes by it
}

// EventOptions say where events go.
type EventOptions struct {
	Topic string // "": the broker's topic of events
}

// StoredEvent is where the record of an event is.
type StoredEvent struct {
	Topic     string
	Partition int32
	Offset    int64
	Time      time.Time // when the log took it, to the millisecond
	// Duplicate: an event of the entity with this ID was there already, at Original (-1: not known), and triggers ignore this
	// one. If it is false the broker may also not know.
	Duplicate bool
	Original  int64
}

// ProduceEvent appends an event and returns once it is durable. If it has an ID it is sent again after an attempt whose outcome
// is unknown, as triggers ignore the second one.
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
			return fmt.Errorf("%w: it places an event in partition %d of topic %q at %d", errNotBroker, stored.Partition, stored.Topic, stored.Offset)
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

// ProduceEvents appends events in one request and returns once they are durable, with the place of each partition's, in the order
// in which they were given. If all have an ID they are sent again after an attempt whose outcome is unknown, as triggers ignore
// the second ones.
func (c *Client) ProduceEvents(ctx context.Context, events []Event, o EventOptions) ([]Placed, error) {
	r, err := eventRequest(events, api.NDJSON, o)
	if err != nil {
		return nil, rejected(err)
	}
	var list []Placed
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

// eventRequest is a request with events, one on a line.
func eventRequest(events []Event, kind string, o EventOptions) (*request, error) {
	r := &request{
		method: http.MethodPost, path: "/event", query: url.Values{}, header: map[string]string{"Content-Type": kind},
		write: true, harmless: true,
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
		r.harmless = r.harmless && e.ID != ""
		for _, s := range []string{e.Name, e.EntityID, e.ID} {
			if !utf8.ValidString(s) {
				return nil, fmt.Errorf("event %d: %q is not valid UTF-8", i, s)
			}
		}
		if err := enc.Encode(e); err != nil {
			return nil, fmt.Errorf("event %d: %w", i, err)
		}
	}
	r.body = body.Bytes()
	return r, nil
}
