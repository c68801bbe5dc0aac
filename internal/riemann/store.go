package riemann

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sebbroker/seb/internal/access"
	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/framed"
	"github.com/sebbroker/seb/internal/httpapi/encoding"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/trigger"
	"github.com/sebbroker/seb/record"
)

// retryInterval is the time between two attempts to store a message that may succeed later.
const retryInterval = 20 * time.Millisecond

// store submits the events of a message. If memory is short, or the broker does not lead yet, it
// tries again until Options.Patience is over, because many clients lose events that are refused.
// Later messages of the connection wait meanwhile, so that the order stays.
func (c *client) store(ctx context.Context, f *framed.Frame, m *message) (Ticket, error) {
	for until := time.Now().Add(c.o.Patience); ; {
		t, err := c.submit(ctx, f.Bytes, m, f)
		if err == nil || !mayHelp(err) || !time.Now().Before(until) {
			return t, err
		}
		timer := time.NewTimer(retryInterval)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
	}
}

// mayHelp reports whether a message that was refused with an error may be stored later.
func mayHelp(err error) bool {
	return errors.Is(err, budget.ErrOver) || errors.Is(err, broker.ErrOverBudget) || errors.Is(err, broker.ErrNotLeader)
}

// holder is the memory of a message, of which that of its records is a part.
type holder interface {
	Memory() *budget.Reservation // nil: the records have their own
	Retain()                     // the broker keeps records, until Release
	Release()
}

// submit reserves the memory of the records of a message, transcodes it, and submits them. If the
// broker refuses them at once, submit returns the error.
func (c *client) submit(ctx context.Context, msg []byte, m *message, h holder) (Ticket, error) {
	if c.b.ReadOnly() {
		return nil, broker.ErrReadOnly
	}
	check, ok := c.who.Check(access.Write, access.Topic, c.o.Topic)
	if !ok {
		return nil, c.deny(access.Write)
	}
	partitions, settings, err := c.topic(ctx)
	if err != nil {
		return nil, err
	}
	arena := budget.Arena{Class: c.produceClass, Buffers: c.b.Budget().Buffers()}
	arena.Adopt(h.Memory()) // it grows without waiting for those that wait for its release
	defer arena.Release()
	buf, err := arena.Get(m.room())
	if err != nil {
		return nil, err
	}
	data, sum := transcode(msg, buf[:0], c.o.Now().UnixMilli())
	parts := []*encoding.Encoded{{Data: data, Summary: sum}}
	if codec := settings.Codec(); partitions > 1 || codec != record.None {
		e := encoding.Encoder{Memory: &arena, Partition: -1, Partitions: partitions, Codec: codec, RecordsMax: EventsMax}
		if parts, err = e.Encode(encoding.NewBatches(data)); err != nil {
			return nil, err
		}
		arena.Put(buf)
	}
	appends := make([]broker.Append, len(parts))
	for i, p := range parts {
		release := arena.Detach(p.Data)
		h.Retain()
		appends[i] = broker.Append{
			Topic: c.o.Topic, Partition: p.Partition, Data: p.Data, Summary: p.Summary, ExpectedOffset: -1, Check: check,
			Release: func() { release(); h.Release() }, Memory: arena.Reservation(),
		}
	}
	t := c.b.Submit(ctx, appends)
	return t, refusedAtOnce(t)
}

// refusedAtOnce returns why the broker refused all appends of a ticket without storing anything, if
// they may be stored later.
func refusedAtOnce(t Ticket) error {
	select {
	case <-t.Done():
	default:
		return nil
	}
	results := t.Wait(context.Background())
	for i := range results {
		if !mayHelp(results[i].Err) {
			return nil
		}
	}
	return results[0].Err
}

// topic returns the partitions and settings of the topic, and creates it if it does not exist.
func (c *client) topic(ctx context.Context) (int, state.Settings, error) {
	partitions, settings, err := c.b.Resolved(c.o.Topic)
	if !errors.Is(err, broker.ErrUnknownTopic) || !c.b.AutoCreates() {
		return partitions, settings, err
	}
	check, ok := c.who.Check(access.Create, access.Topic, c.o.Topic)
	if !ok {
		return 0, settings, c.deny(access.Create)
	}
	ctx = broker.WithClient(ctx, broker.Client{Check: check, Origin: c.origin()})
	spec := broker.TopicSpec{Partitions: 1, Settings: trigger.EventSettings}
	if err := c.b.EnsureTopicAs(ctx, c.o.Topic, spec); err != nil {
		return 0, settings, fmt.Errorf("create topic %s: %w", c.o.Topic, err)
	}
	return c.b.Resolved(c.o.Topic)
}
