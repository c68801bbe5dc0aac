package sqs

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/record"
)

const (
	moveRateMax  = 500
	moveTasksMax = 10 // remembered for each queue
	moveSources  = 1000
	moveStep     = 100 * time.Millisecond // between the steps of a task with a rate
)

// The states of a task.
const (
	moveRunning    = "RUNNING"
	moveCompleted  = "COMPLETED"
	moveCancelling = "CANCELLING"
	moveCancelled  = "CANCELLED"
	moveFailed     = "FAILED"
)

// moveTask moves dead letters, in steps of a redrive. It is in the memory of the leader: a takeover ends it.
// Server.mu guards its fields below source.
type moveTask struct {
	handle handle
	source string // queue
	to     string // "": from where they come
	rate   int    // per second; 0: as fast as possible
	begun  time.Time
	left   int64 // when it began

	status string
	reason string
	moved  int64
	cancel context.CancelFunc
}

// handle is the name of a task.
type handle struct {
	TaskID    string `json:"taskId"`
	SourceArn string `json:"sourceArn"`
}

func (h *handle) text() string {
	b, _ := json.Marshal(h) // texts: cannot fail
	return base64.StdEncoding.EncodeToString(b)
}

func newTaskID() string {
	id := record.NewID()
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

func errNoResource(name string) *Error {
	return newError(404, "ResourceNotFoundException", "The resource that you specified for the %s parameter doesn't exist.", name)
}

// source sets the queue of an ARN, and checks that the client may move its messages.
func (s *Server) source(c *Call, arn string) error {
	name, ok := ofARN(arn)
	if !ok && strings.Count(arn, ":") == 5 { // of another account
		return errNoResource("SourceArn")
	}
	if !ok {
		return errValue("You must use this format to specify the SourceArn: arn:<partition>:<service>:<region>:<account-id>:<resource-id>")
	}
	c.queue = name
	if _, err := s.worker(c); err == errNoQueue {
		return errNoResource("SourceArn")
	} else if err != nil {
		return err
	}
	return nil
}

func (s *Server) startMove(ctx context.Context, c *Call) (*Answer, error) {
	if c.in.SourceArn == "" {
		return nil, errMissing("SourceArn")
	}
	if err := s.source(c, c.in.SourceArn); err != nil {
		return nil, err
	}
	t := &moveTask{handle: handle{newTaskID(), c.in.SourceArn}, source: c.queue, begun: s.now(), status: moveRunning}
	if s.o.Queues.NeededBy(c.queue) == "" {
		return nil, errValue("Source queue must be configured as a Dead Letter Queue.")
	}
	if arn := c.in.DestinationArn; arn != "" {
		name, ok := ofARN(arn)
		if _, err := s.settings(name); !ok || err != nil {
			return nil, errNoResource("DestinationArn")
		}
		if err := c.Client.May(access.Write, access.Topic, name); err != nil {
			return nil, err
		}
		t.to = name
	}
	rate, err := within("MaxNumberOfMessagesPerSecond", c.in.MaxNumberOfMessagesPerSecond, 0, 1, moveRateMax, "Must be between 1 and 500, if provided.")
	if err != nil {
		return nil, err
	}
	t.rate = rate
	if ctx, err = c.Client.Changing(ctx, access.Read, c.queue); err != nil {
		return nil, err
	}
	info, err := s.o.Queues.Info(c.queue)
	if err != nil {
		return nil, err
	}
	t.left = info.Left()
	if err := s.addMove(ctx, c, t); err != nil {
		return nil, err
	}
	return c.answer(func(o *output) { o.text("TaskHandle", t.handle.text()) }), nil
}

// addMove starts a task, unless one of the queue runs.
func (s *Server) addMove(ctx context.Context, c *Call, t *moveTask) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.moves[t.source]
	if len(list) > 0 && list[0].status == moveRunning {
		return errValue("There is already a task running. Only one active task is allowed for a source queue arn at a given time.")
	}
	if s.closed || len(list) == 0 && len(s.moves) >= moveSources {
		return newError(403, "OverLimit", "Tasks of %d queues are remembered, and no more are started.", moveSources)
	}
	ctx, t.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.moves[t.source] = slices.Insert(list, 0, t)[:min(len(list)+1, moveTasksMax)]
	r := queue.RedriveRequest{Queue: t.source, To: t.to, Allow: func(to string) error { return c.Client.May(access.Write, access.Topic, to) }}
	s.running.Go(func() { s.move(ctx, t, r) })
	return nil
}

// move runs a task until it ends.
func (s *Server) move(ctx context.Context, t *moveTask, r queue.RedriveRequest) {
	defer t.cancel()
	for {
		if t.rate > 0 {
			r.Max = max(1, t.rate/int(time.Second/moveStep))
		}
		done, err := s.o.Queues.Redrive(ctx, r)
		r.After = done.Next
		s.mu.Lock()
		t.moved += int64(done.Moved)
		switch {
		case t.status == moveCancelling:
			t.status = moveCancelled
		case err != nil:
			if _, gone := s.settings(t.to); t.to != "" && gone != nil {
				err = gone
			}
			t.status, t.reason = moveFailed, s.Error(err).Query
		case done.Next == nil:
			t.status = moveCompleted
		}
		over := t.status != moveRunning
		s.mu.Unlock()
		if over {
			return
		}
		if t.rate > 0 {
			pauseFor(ctx, time.Second*time.Duration(r.Max)/time.Duration(t.rate))
		}
	}
}

// pauseFor waits, or until ctx ends.
func pauseFor(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (s *Server) cancelMove(_ context.Context, c *Call) (*Answer, error) {
	var h handle
	text, err := base64.StdEncoding.DecodeString(c.in.TaskHandle)
	if c.in.TaskHandle == "" {
		return nil, errMissing("TaskHandle")
	}
	if err != nil || json.Unmarshal(text, &h) != nil || h.TaskID == "" {
		return nil, errValue("Value for parameter TaskHandle is invalid.")
	}
	if err := s.source(c, h.SourceArn); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.moves[c.queue] {
		if t.handle == h && t.status == moveRunning {
			t.status = moveCancelling
			t.cancel()
			moved := t.moved
			return c.answer(func(o *output) { o.number("ApproximateNumberOfMessagesMoved", moved) }), nil
		}
	}
	return nil, newError(404, "ResourceNotFoundException", "Task does not exist.")
}

func (s *Server) listMoves(_ context.Context, c *Call) (*Answer, error) {
	if c.in.SourceArn == "" {
		return nil, errMissing("SourceArn")
	}
	if err := s.source(c, c.in.SourceArn); err != nil {
		return nil, err
	}
	most, err := within("MaxResults", c.in.MaxResults, 1, 1, moveTasksMax, "Must be between 1 and 10, if provided.")
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.moves[c.queue]
	list = list[:min(most, len(list))]
	return c.answer(func(o *output) {
		o.list("Results", "ListMessageMoveTasksResultEntry", len(list), func(i int) {
			t := list[i]
			if t.status == moveRunning {
				o.text("TaskHandle", t.handle.text())
			}
			o.text("Status", t.status)
			o.text("SourceArn", t.handle.SourceArn)
			if t.to != "" {
				o.text("DestinationArn", c.arn(t.to))
			}
			if t.rate > 0 {
				o.number("MaxNumberOfMessagesPerSecond", int64(t.rate))
			}
			o.number("ApproximateNumberOfMessagesMoved", t.moved)
			o.number("ApproximateNumberOfMessagesToMove", t.left)
			o.textIf("FailureReason", t.reason)
			o.number("StartedTimestamp", t.begun.UnixMilli())
		})
	}), nil
}

// Close ends the tasks that move messages, and waits for that.
func (s *Server) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.closed = true
	for _, list := range s.moves { //tidy:unordered all end
		for _, t := range list {
			t.cancel()
		}
	}
	s.mu.Unlock()
	s.running.Wait()
}
