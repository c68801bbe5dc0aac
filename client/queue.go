package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/sebbroker/seb/api"
)

// QueueSpec describes a queue to create or update.
type QueueSpec struct {
	Priorities int               // 0: one at creation, unchanged on update
	Settings   map[string]string // merged into the current settings; "" removes one
}

// Queues describes all queues, sorted by name.
func (c *Client) Queues(ctx context.Context) ([]Queue, error) {
	return listed(ctx, c, "/queues", nil, func(p *api.Queues) ([]Queue, *string) { return p.Queues, p.Next })
}

// Queue describes a queue. Errors: ErrUnknownTopic, ErrNotAQueue.
func (c *Client) Queue(ctx context.Context, name string) (Queue, error) {
	return get[Queue](ctx, c, queuePath(name, ""), nil)
}

// QueueStats returns the figures of a queue over the last "1h", "6h" or "24h".
func (c *Client) QueueStats(ctx context.Context, name, window string) (Stats, error) {
	return get[Stats](ctx, c, queuePath(name, "/stats"), url.Values{"window": {window}})
}

func queuePath(name, rest string) string { return "/queues/" + url.PathEscape(name) + rest }

// CreateQueue creates a queue, with the dead-letter queue of its name and .dead unless the settings name
// another one or none. Error: ErrTopicExists.
func (c *Client) CreateQueue(ctx context.Context, name string, spec QueueSpec) (Queue, error) {
	return c.putQueue(ctx, name, spec, map[string]string{"If-None-Match": "*"})
}

// UpdateQueue merges settings into those of a queue. Errors: ErrUnknownTopic, ErrNotAQueue.
func (c *Client) UpdateQueue(ctx context.Context, name string, spec QueueSpec) (Queue, error) {
	if q, err := c.Queue(ctx, name); err != nil {
		return q, err
	}
	return c.putQueue(ctx, name, spec, nil)
}

func (c *Client) putQueue(ctx context.Context, name string, spec QueueSpec, header map[string]string) (Queue, error) {
	body := api.QueueSpec{Priorities: spec.Priorities, Settings: map[string]json.RawMessage{}}
	for k, v := range spec.Settings {
		raw, err := json.Marshal(v)
		if err != nil {
			return Queue{}, rejected(err)
		}
		body.Settings[k] = raw
	}
	return sendJSON[Queue](ctx, c, &request{method: http.MethodPut, path: queuePath(name, ""), header: header}, &body)
}

// sendJSON sends a change with a body in JSON and decodes its answer.
func sendJSON[T any](ctx context.Context, c *Client, r *request, body any) (v T, err error) {
	if r.body, err = json.Marshal(body); err != nil {
		return v, rejected(err)
	}
	if r.header == nil {
		r.header = map[string]string{}
	}
	r.header["Content-Type"], r.write = api.JSON, true
	err = c.call(ctx, r, &v)
	return v, err
}

// DeleteQueue deletes a queue and its messages. Errors: ErrUnknownTopic, ErrNotAQueue, and ErrTopicInUse if
// it is the dead-letter queue of another one.
func (c *Client) DeleteQueue(ctx context.Context, name string) error {
	return c.call(ctx, &request{method: http.MethodDelete, path: queuePath(name, ""), write: true}, nil)
}

// PauseQueue lets workers get no messages, or with false again.
func (c *Client) PauseQueue(ctx context.Context, name string, paused bool) (Queue, error) {
	to := "/resume"
	if paused {
		to = "/pause"
	}
	return post[Queue](ctx, c, queuePath(name, to), nil, true)
}

// SendMessages sends up to 10,000 messages and returns once they are durable. Each has its own result.
func (c *Client) SendMessages(ctx context.Context, queue string, messages ...OutgoingMessage) ([]MessageResult, error) {
	return c.messageResults(ctx, len(messages), &request{path: queuePath(queue, "/messages")}, &api.Messages{Messages: messages})
}

// messageResults sends n messages or settlements, and returns a result for each.
func (c *Client) messageResults(ctx context.Context, n int, r *request, body any) ([]MessageResult, error) {
	r.method = http.MethodPost
	out, err := sendJSON[api.MessageResults](ctx, c, r, body)
	if err == nil && len(out.Messages) != n {
		err = &Error{Outcome: OutcomeUnknown, Status: http.StatusOK, NextOffset: -1, Start: -1, Committed: -1, Err: fmt.Errorf("%w: %d results for %d messages", errNotBroker, len(out.Messages), n)}
	}
	if err != nil {
		return nil, err
	}
	return out.Messages, nil
}

// Lease gives up to r.Max messages of a queue to the caller until r.Visibility is over, and waits for the first
// one for up to r.Wait. Work does that for a program. If an answer is lost, its messages come again after the
// visibility, and count as delivered.
func (c *Client) Lease(ctx context.Context, queue string, r LeaseRequest) ([]QueueMessage, error) {
	wait, _ := time.ParseDuration(r.Wait) // the broker also takes days, which are more than it lets wait
	out, err := sendJSON[api.QueueMessages](ctx, c, &request{
		method: http.MethodPost, path: queuePath(queue, "/lease"), idempotent: true, bounded: true, wait: wait,
	}, &r)
	return out.Messages, err
}

// Settle says what became of leased messages, and returns once that is durable. Each settlement has its own
// result. A repeated one has the code stale_receipt if the first one was stored.
func (c *Client) Settle(ctx context.Context, queue string, list ...Settlement) ([]MessageResult, error) {
	r := &request{path: queuePath(queue, "/settle"), idempotent: true, bounded: true}
	return c.messageResults(ctx, len(list), r, &api.Settlements{Messages: list})
}

// MessageQuery selects messages of a queue.
type MessageQuery struct {
	State    string // ready, leased, delayed, retry or done; "": all that are not done
	Before   string // only messages after this position of the list, the next of the page before; "": from the start
	Limit    int    // of a page, at most 1,000; 0: 100
	MaxBytes int    // cuts longer values; 0: not
}

// Messages lists messages of a queue without leasing them, the newest first. next is the Before of the next page;
// "": there is none.
func (c *Client) Messages(ctx context.Context, queue string, q MessageQuery) (list []QueueMessage, next string, err error) {
	v := url.Values{"limit": {strconv.Itoa(q.Limit)}, "max-value-bytes": {strconv.Itoa(q.MaxBytes)}}
	if q.State != "" {
		v.Set("state", q.State)
	}
	if q.Before != "" {
		v.Set("before", q.Before)
	}
	page, err := get[api.QueueMessages](ctx, c, queuePath(queue, "/messages"), v)
	return page.Messages, page.Next, err
}

// CancelMessage ends a message that no worker has. Errors: ErrUnknownMessage, ErrMessageLeased.
func (c *Client) CancelMessage(ctx context.Context, queue, id string) error {
	return c.call(ctx, &request{method: http.MethodDelete, path: queuePath(queue, "/messages/"+url.PathEscape(id)), write: true}, nil)
}

// PurgeQueue ends all messages of a queue, and returns how many there were.
func (c *Client) PurgeQueue(ctx context.Context, queue string) (int64, error) {
	out, err := post[api.Purged](ctx, c, queuePath(queue, "/purge"), nil, false)
	return out.Purged, err
}

// Redrive moves up to 1,000 messages of a queue, mostly a dead-letter queue, to another one. Continue with the
// Next of the answer as After until it is "".
func (c *Client) Redrive(ctx context.Context, queue string, r RedriveRequest) (Redriven, error) {
	return sendJSON[Redriven](ctx, c, &request{method: http.MethodPost, path: queuePath(queue, "/redrive")}, &r)
}

// Schedules describes all schedules of a queue, sorted by name. Errors: as of Queue.
func (c *Client) Schedules(ctx context.Context, queue string) ([]Schedule, error) {
	return listed(ctx, c, queuePath(queue, "/schedules"), nil, func(p *api.Schedules) ([]Schedule, *string) { return p.Schedules, p.Next })
}

// Schedule describes a schedule of a queue. Errors: as of Queue, ErrUnknownSchedule.
func (c *Client) Schedule(ctx context.Context, queue, name string) (Schedule, error) {
	return get[Schedule](ctx, c, schedulePath(queue, name), nil)
}

func schedulePath(queue, name string) string {
	return queuePath(queue, "/schedules/"+url.PathEscape(name))
}

// PutSchedule makes or replaces a schedule of a queue, which sends a message at times. With dryRun it changes
// nothing, and returns what it would make. Errors: as of Queue, ErrQueueLimit, ErrQueueFull.
func (c *Client) PutSchedule(ctx context.Context, queue, name string, spec ScheduleSpec, dryRun bool) (Schedule, error) {
	r := request{method: http.MethodPut, path: schedulePath(queue, name), query: url.Values{"dry-run": {strconv.FormatBool(dryRun)}}}
	return sendJSON[Schedule](ctx, c, &r, &spec)
}

// DeleteSchedule removes a schedule of a queue. Errors: as of Queue, ErrUnknownSchedule.
func (c *Client) DeleteSchedule(ctx context.Context, queue, name string) error {
	return c.call(ctx, &request{method: http.MethodDelete, path: schedulePath(queue, name), write: true}, nil)
}
