package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/sebbroker/seb/api"
)

// TopicSpec describes a topic to create or update.
type TopicSpec struct {
	Partitions int               // 0: one at creation, unchanged on update
	Settings   map[string]string // merged into the current settings; "" removes one
}

// Topic describes a topic. Error: ErrUnknownTopic.
func (c *Client) Topic(ctx context.Context, name string) (Topic, error) {
	return get[Topic](ctx, c, "/topic", url.Values{"topic-name": {name}})
}

// OffsetsSince finds, for each partition of a topic, the first record with a time or a later one. A
// partition without such a record has its end as the offset. Error: ErrUnknownTopic.
func (c *Client) OffsetsSince(ctx context.Context, topic string, at time.Time) ([]PartitionOffset, error) {
	all, err := get[api.TopicOffsets](ctx, c, "/topic/offsets", url.Values{
		"topic-name": {topic}, "time": {at.UTC().Format(time.RFC3339Nano)},
	})
	return all.Partitions, err
}

// Topics describes all topics, sorted by name.
func (c *Client) Topics(ctx context.Context) ([]Topic, error) {
	return listed(ctx, c, "/topics", nil, func(p *api.Topics) ([]Topic, *string) { return p.Topics, p.Next })
}

// Settings describes the settings that topics have.
func (c *Client) Settings(ctx context.Context) ([]Setting, error) {
	all, err := get[api.Settings](ctx, c, "/settings", nil)
	return all.Settings, err
}

// CreateTopic creates a topic. Error: ErrTopicExists.
func (c *Client) CreateTopic(ctx context.Context, name string, spec TopicSpec) (Topic, error) {
	return c.putTopic(ctx, name, spec, map[string]string{"If-None-Match": "*"})
}

// UpdateTopic changes a topic: it can add partitions, and it merges settings. Error:
// ErrUnknownTopic.
func (c *Client) UpdateTopic(ctx context.Context, name string, spec TopicSpec) (Topic, error) {
	// A broker that does not support If-Match would create the topic.
	if t, err := c.Topic(ctx, name); err != nil {
		return t, err
	}
	return c.putTopic(ctx, name, spec, map[string]string{"If-Match": "*"})
}

// PutTopic creates a topic, or changes an existing one: it can add partitions, and it merges
// settings.
func (c *Client) PutTopic(ctx context.Context, name string, spec TopicSpec) (Topic, error) {
	return c.putTopic(ctx, name, spec, map[string]string{})
}

func (c *Client) putTopic(ctx context.Context, name string, spec TopicSpec, header map[string]string) (Topic, error) {
	body := api.TopicSpec{Partitions: spec.Partitions, Settings: map[string]json.RawMessage{}}
	for k, v := range spec.Settings {
		raw, err := json.Marshal(v)
		if err != nil {
			return Topic{}, rejected(err)
		}
		body.Settings[k] = raw
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return Topic{}, rejected(err)
	}
	var t Topic
	header["Content-Type"] = api.JSON
	err = c.call(ctx, &request{
		method: http.MethodPut, path: "/topic", query: url.Values{"topic-name": {name}}, body: raw, write: true, header: header,
	}, &t)
	return t, err
}

// DeleteTopic deletes a topic and all its records. Errors: ErrUnknownTopic, ErrTopicInUse if
// triggers use it.
func (c *Client) DeleteTopic(ctx context.Context, name string) error {
	return c.deleteTopic(ctx, url.Values{"topic-name": {name}})
}

// ForceDeleteTopic is DeleteTopic for a topic that triggers may use. The triggers report a missing
// topic, and follow the next topic with this name.
func (c *Client) ForceDeleteTopic(ctx context.Context, name string) error {
	return c.deleteTopic(ctx, url.Values{"topic-name": {name}, "force": {"true"}})
}

func (c *Client) deleteTopic(ctx context.Context, query url.Values) error {
	return c.call(ctx, &request{method: http.MethodDelete, path: "/topic", query: query, write: true}, nil)
}

// get sends a read and decodes its answer.
func get[T any](ctx context.Context, c *Client, path string, query url.Values) (v T, err error) {
	err = c.call(ctx, &request{method: http.MethodGet, path: path, query: query}, &v)
	return v, err
}

// pageElements is the number of elements for which listed asks.
const pageElements = 1000

// listed returns all elements of a list. It requests page by page, because an answer with a whole list
// has no bound. A broker that knows no pages answers with everything.
func listed[P, E any](ctx context.Context, c *Client, path string, query url.Values, of func(*P) ([]E, *string)) (all []E, err error) {
	q := url.Values{"limit": {strconv.Itoa(pageElements)}}
	maps.Copy(q, query)
	for all = []E{}; ; {
		page, err := get[P](ctx, c, path, q)
		if err != nil {
			return nil, err
		}
		elements, next := of(&page)
		if all = append(all, elements...); next == nil {
			return all, nil
		}
		q.Set("after", *next)
	}
}

// post sends a change without a body and decodes its answer.
func post[T any](ctx context.Context, c *Client, path string, query url.Values, idempotent bool) (v T, err error) {
	err = c.call(ctx, &request{method: http.MethodPost, path: path, query: query, write: true, idempotent: idempotent}, &v)
	return v, err
}

// call sends r and decodes the answer into v. If v is nil the answer must be empty.
func (c *Client) call(ctx context.Context, r *request, v any) error {
	return c.ask(ctx, r, func(resp *http.Response) error {
		if v == nil {
			return noContent(resp)
		}
		err := json.NewDecoder(resp.Body).Decode(v)
		if err == nil && isForeign(v) {
			err = fmt.Errorf("%w: its JSON is of another kind", errNotBroker)
		}
		return err
	})
}

// isForeign reports whether an answer has no member that each broker sends. A proxy with an answer in JSON must
// not acknowledge a write.
func isForeign(v any) bool {
	switch v := v.(type) {
	case *api.Topic:
		return v.Name == ""
	case *api.Queue:
		return v.Name == ""
	case *api.Schedule:
		return v.Name == ""
	case *api.Transaction:
		return v.ID == ""
	case *api.Trigger:
		return v.ID == ""
	case *api.TriggerStored:
		return v.Version == 0
	case *api.Explanation:
		return v.Trigger == ""
	case *api.Firing:
		return v.ID == ""
	case *api.Firings:
		return v.Firings == nil
	case *api.MessageResults:
		return v.Messages == nil
	case *api.QueueMessages:
		return v.Messages == nil
	}
	return false
}

// ask is do for JSON answers. It closes the body.
func (c *Client) ask(ctx context.Context, r *request, read func(*http.Response) error) error {
	if r.header == nil {
		r.header = map[string]string{}
	}
	r.header["Accept"] = api.JSON + ", " + api.ProblemJSON
	return c.do(ctx, r, func(resp *http.Response) error {
		defer drain(resp.Body)
		return read(resp)
	})
}

// errNotBroker: an answer with a 2xx status that no broker sends; a proxy may have sent it.
var errNotBroker = errors.New("not the answer of a broker")

func noContent(resp *http.Response) error {
	if resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("%w: status %d, want %d", errNotBroker, resp.StatusCode, http.StatusNoContent)
	}
	return nil
}
