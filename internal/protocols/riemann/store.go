package riemann

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/audit"
	"github.com/sebbroker/seb/internal/engine/base/pause"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/encoding"
	"github.com/sebbroker/seb/internal/protocols/framed"
	"github.com/sebbroker/seb/internal/protocols/tlsport"
	"github.com/sebbroker/seb/internal/triggers/rules"
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
		if pause.Wait(ctx, retryInterval) != nil {
			return nil, err
		}
	}
}

// mayHelp reports whether a message that was refused with an error may be stored later.
func mayHelp(err error) bool {
	return errors.Is(err, budget.ErrOver) || errors.Is(err, state.ErrOverBudget) ||
		errors.Is(err, broker.ErrQueueFull) || errors.Is(err, state.ErrNotLeader)
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
		return nil, state.ErrReadOnly
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
	if codec := settings.Codec(); partitions > 1 || codec != record.None || settings.MaxBatchBytes < record.BatchTarget {
		e := encoding.Encoder{
			Memory: &arena, Partition: -1, Partitions: partitions, Codec: codec, RecordsMax: EventsMax, BatchBytes: settings.MaxBatchBytes,
		}
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
	if !errors.Is(err, state.ErrUnknownTopic) || !c.b.AutoCreates() {
		return partitions, settings, err
	}
	check, ok := c.who.Check(access.Create, access.Topic, c.o.Topic)
	if !ok {
		return 0, settings, c.deny(access.Create)
	}
	ctx = broker.WithClient(ctx, broker.Client{Check: check, Origin: c.origin()})
	spec := broker.TopicSpec{Partitions: 1, Settings: rules.EventSettings}
	if err := c.b.EnsureTopicAs(ctx, c.o.Topic, spec); err != nil {
		return 0, settings, fmt.Errorf("create topic %s: %w", c.o.Topic, err)
	}
	return c.b.Resolved(c.o.Topic)
}

// Log is the part of broker.Broker that a Server uses, with the same contracts.
type Log interface {
	Budget() *budget.Budget // the memory of the broker
	ReadOnly() bool         // the broker stores nothing
	AutoCreates() bool      // a missing topic is created
	Audits() bool           // denials have audit records
	// Denied records a denial.
	Denied(o audit.Origin, op access.Operation, t access.ResourceType, name string)
	// Resolved returns the partitions and settings of a topic, or state.ErrUnknownTopic.
	Resolved(topic string) (partitions int, settings state.Settings, err error)
	// EnsureTopicAs creates a topic if it does not exist.
	EnsureTopicAs(ctx context.Context, name string, spec broker.TopicSpec) error
	// Submit queues appends in call order, and returns without waiting for the store.
	Submit(ctx context.Context, appends []broker.Append) Ticket
}

// Ticket is the part of broker.Ticket that a Server uses, with the same contracts.
type Ticket interface {
	Done() <-chan struct{}                                        // closed when every append has its result
	Wait(ctx context.Context) []broker.Result                     // results in the order of the appends
	WaitFor(ctx context.Context, d time.Duration) []broker.Result // waits no longer than d
}

// Authority is the part of auth.Authority that a Server uses, with the same contracts.
type Authority interface {
	Root() *auth.Identity // of the root key
	// Key authenticates a client by a token.
	Key(ctx context.Context, token, remote string) (*auth.Identity, error)
	// Certificate authenticates a client by its certificate.
	Certificate(ctx context.Context, peer *tlsport.Peer, remote string) (*auth.Identity, error)
}

// brokerLog is the Log of a broker.
type brokerLog struct{ *broker.Broker }

func (b brokerLog) Submit(ctx context.Context, appends []broker.Append) Ticket {
	return b.Broker.Submit(ctx, appends)
}

// Stepped is a Server without goroutines and sockets, for callers that decide the order of events,
// such as a simulator.
type Stepped struct{ s *Server }

// NewStepped is New for a Stepped. Messages are acknowledged when they are stored.
func NewStepped(b Log, o Options) (*Stepped, error) {
	o.Received = false
	s, err := newServer(b, o)
	if err != nil {
		return nil, err
	}
	return &Stepped{s}, nil
}

// Connect returns a connection.
func (s *Stepped) Connect(c net.Conn) *framed.Stepped { return s.s.conns.Stepped(c) }
