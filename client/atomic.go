package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/record"
)

// Item is a part of ProduceAll: a record with its Topic, a message with its Queue, or an event. Exactly one of
// Topic, Queue and Event is set.
type Item struct {
	Topic     string
	Partition *int32 // nil: that of the key's hash; 0 without a key
	Record    record.Record

	Queue   string
	Message OutgoingMessage // without Dedup

	Event *Event // for the broker's events topic
}

// StoredItem is where an Item is stored.
type StoredItem struct {
	Topic     string // of a record or an event
	Partition int32
	Offset    int64
	Queue     string // of a message
	ID        string
}

// ProduceAll stores all items or none, and returns once they are durable, with their positions in the given
// order. The items have at most 1,000 partitions, and the size of one request. It ignores the Offset of records; a
// Timestamp of 0 means now.
//
// The outcome of an error is that of all items. With ErrRejected none is stored; Error.Detail has the index of a
// refused item, from 0. With ErrOutcomeUnknown all may appear once, or none. As an idempotent producer the client
// sends them again before it returns that. Errors: those of Produce and SendMessages, ErrQueueFull among them.
func (c *Client) ProduceAll(ctx context.Context, items []Item) ([]StoredItem, error) {
	lines, err := encodeItems(items)
	if err != nil {
		return nil, rejected(err)
	}
	return c.ProduceAllLines(ctx, lines)
}

// ProduceAllLines is ProduceAll for items in JSON, one on each line that is not blank, as POST /records with atomic
// takes them. It does not use lines after it has returned.
func (c *Client) ProduceAllLines(ctx context.Context, lines []byte) (list []StoredItem, err error) {
	count := 0
	for line := range bytes.Lines(bytes.TrimPrefix(lines, []byte("\uFEFF"))) { // a mark of UTF-8 is no line
		if len(bytes.TrimSpace(line)) > 0 {
			count++
		}
	}
	r := &request{
		method: http.MethodPost, path: "/records", query: url.Values{"atomic": {"true"}}, header: map[string]string{"Content-Type": api.NDJSON},
		body: lines, write: true,
	}
	if c.producers != nil {
		p := c.producers.take(atomicRequests)
		defer func() {
			p.settleAtomic(err)
			c.producers.give(atomicRequests, p)
		}()
		r.idempotent, r.bounded = true, true
		p.header(r.header)
	}
	err = c.ask(ctx, r, func(resp *http.Response) error {
		var p api.Stored
		if err := json.NewDecoder(resp.Body).Decode(&p); err != nil {
			return err
		}
		list, err = storedItems(p.Records, count)
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// storedItems returns where items are stored. It returns an error unless the answer covers all of them.
func storedItems(records []api.StoredRecord, items int) ([]StoredItem, error) {
	if len(records) != items {
		return nil, fmt.Errorf("%w: %d of %d items acknowledged", errNotBroker, len(records), items)
	}
	list := make([]StoredItem, items)
	for i, r := range records {
		switch {
		case r.Queue != "" && r.ID != "":
			list[i] = StoredItem{Queue: r.Queue, ID: r.ID}
		case r.Topic != "" && r.Partition != nil && r.Offset != nil:
			list[i] = StoredItem{Topic: r.Topic, Partition: *r.Partition, Offset: *r.Offset}
		default:
			return nil, fmt.Errorf("%w: item %d has no position", errNotBroker, i)
		}
	}
	return list, nil
}

// encodeItems returns the lines of items.
func encodeItems(items []Item) ([]byte, error) {
	if len(items) == 0 {
		return nil, errors.New("no items")
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for i := range items {
		x := &items[i]
		var line any
		var err error
		kinds := 0
		if x.Topic != "" {
			kinds++
			line = struct {
				Topic     string `json:"topic"`
				Partition *int32 `json:"partition,omitempty"`
				lineRecord
			}{x.Topic, x.Partition, lineOf(&x.Record)}
		}
		if x.Queue != "" {
			kinds++
			line = struct {
				Queue string `json:"queue"`
				OutgoingMessage
			}{x.Queue, x.Message}
		}
		if x.Event != nil {
			kinds++
			line, err = x.Event, x.Event.check()
		}
		if kinds != 1 {
			err = errors.New("want one of Topic, Queue and Event")
		}
		if err == nil {
			err = enc.Encode(line)
		}
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
	}
	return b.Bytes(), nil
}
