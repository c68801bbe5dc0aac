package delivery

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	jobs "github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/internal/triggers/delivery/template"
	"github.com/sebbroker/seb/internal/triggers/delivery/webhook"
	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/record"
)

// sendable is a message that can be sent once. release frees its resources, whether or not it was
// sent.
type sendable struct {
	send    func(ctx context.Context) webhook.Outcome
	release func()
}

// prepare builds a message that the rules allow and, checked last, that is still pending. Errors:
// errFull, errNotPending, a *notBeforeError, those of the log.
func (d *Dispatcher) prepare(ctx context.Context, p *plan, x *rules.Firing) (s sendable, err error) {
	defer d.releaseBuilder()
	if p.Target == nil && p.Topic == "" && p.Queue == nil {
		return sendable{nowhere, func() {}}, d.checkPending(ctx, x)
	}
	if err := d.checkCap(ctx, p, x); err != nil {
		return s, err
	}
	m, err := d.buildMessage(ctx, x)
	if err != nil {
		return s, err
	}
	switch {
	case p.Queue != nil:
		s = sendable{d.toQueue(p.Queue, m, lastAttempt(x).Delivered), func() {}}
	case p.Topic != "":
		s = sendable{d.toTopic(p.Topic, m), func() {}}
	default:
		slot := d.sender.Reserve(p.Target, m)
		if slot == nil {
			return s, errFull
		}
		m.Witness = nil // the body contains them
		s = sendable{slot.Send, slot.Release}
	}
	if err := d.checkPending(ctx, x); err != nil {
		s.release()
		return s, err
	}
	return s, nil
}

// nowhere is the outcome for a trigger without a receiver; clients read its firings.
func nowhere(context.Context) webhook.Outcome {
	return webhook.Outcome{Kind: webhook.Delivered, Reason: "the trigger names no receiver"}
}

// idHeader is the record header with the message ID.
const idHeader = "webhook-id"

// toTopic appends a message to a topic, which is created if necessary.
func (d *Dispatcher) toTopic(topic string, m *template.Message) func(context.Context) webhook.Outcome {
	value, err := template.Default(m)
	return stored("topic "+topic, err, func(ctx context.Context) (string, error) {
		return "", d.append(ctx, topic, record.Record{
			Key: []byte(m.Entity), Value: value, Timestamp: m.At.UnixMilli(),
			Headers: []record.Header{{Key: idHeader, Value: []byte(m.MessageID())}},
		})
	})
}

// toQueue sends a message to a queue, which stores it once, also if it is sent again because the outcome was
// lost. delivered is when the fired message was delivered before, in ms: to resend it makes a new message.
func (d *Dispatcher) toQueue(to *webhook.Queue, m *template.Message, delivered int64) func(context.Context) webhook.Outcome {
	value, err := to.Body(m)
	x := jobs.Message{
		Key: []byte(m.Entity), Value: value, Delay: to.Delay, Dedup: m.MessageID(),
		Headers: []record.Header{{Key: idHeader, Value: []byte(m.MessageID())}},
	}
	if delivered != 0 {
		x.Dedup += "-" + strconv.FormatInt(delivered, 10)
	}
	return stored("queue "+to.Name, err, func(ctx context.Context) (string, error) {
		if d.opt.Queues == nil {
			return "", errors.New("this broker has no queues")
		}
		sent, err := d.opt.Queues.Send(ctx, to.Name, []jobs.Message{x})
		if err == nil {
			err = sent[0].Err
		}
		if err != nil {
			return "", err
		}
		return "message " + sent[0].ID.String(), nil
	})
}

// stored returns an attempt that stores a message in the log. bodyErr is why it has no body.
func stored(where string, bodyErr error, store func(context.Context) (reason string, err error)) func(context.Context) webhook.Outcome {
	return func(ctx context.Context) webhook.Outcome {
		if bodyErr != nil {
			return webhook.Outcome{Kind: webhook.Permanent, Reason: "body: " + bodyErr.Error()}
		}
		start := time.Now()
		o := webhook.Outcome{Kind: webhook.Delivered}
		reason, err := store(ctx)
		switch {
		case ctx.Err() != nil:
			o = webhook.Outcome{Kind: webhook.Stopped}
		case errors.Is(err, broker.ErrTooLarge), errors.Is(err, state.ErrInvalid):
			o = webhook.Outcome{Kind: webhook.Permanent, Reason: where + ": " + err.Error()}
		case err != nil:
			o = webhook.Outcome{Kind: webhook.Retry, Reason: where + ": " + err.Error()}
		default:
			o.Reason = reason
		}
		o.Took = time.Since(start)
		return o
	}
}

func (d *Dispatcher) append(ctx context.Context, topic string, r record.Record) error {
	t, ok := d.opt.Log.Topic(topic)
	if !ok {
		if err := d.opt.Log.Create(ctx, topic, 1, nil); err != nil {
			return err
		}
		if t, ok = d.opt.Log.Topic(topic); !ok {
			return state.ErrUnknownTopic
		}
	}
	_, err := d.opt.Log.Append(ctx, t.ID, uint32(record.PartitionOf(r.Key, t.Partitions)), []record.Record{r})
	return err
}
