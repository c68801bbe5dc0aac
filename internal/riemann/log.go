package riemann

import (
	"context"
	"net"
	"time"

	"github.com/sebbroker/seb/internal/access"
	"github.com/sebbroker/seb/internal/audit"
	"github.com/sebbroker/seb/internal/auth"
	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/framed"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/tlsport"
)

// Log is the part of broker.Broker that a Server uses, with the same contracts.
type Log interface {
	Budget() *budget.Budget // the memory of the broker
	ReadOnly() bool         // the broker stores nothing
	AutoCreates() bool      // a missing topic is created
	Audits() bool           // denials have audit records
	// Denied records a denial.
	Denied(o audit.Origin, op access.Operation, t access.ResourceType, name string)
	// Resolved returns the partitions and settings of a topic, or broker.ErrUnknownTopic.
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
