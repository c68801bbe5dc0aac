package conn

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/internal/tlsport"
)

// Session is a connection's side of the protocol. Admit, Begin and Trusted are called by one goroutine, what Begin returns by
// another, one after the other.
type Session interface {
	// Admit says how to take a request of so many bytes, of which head is the first HeadMin. An error ends the
	// connection.
	Admit(head []byte, size int) (Admission, error)
	// Begin begins a request, in the order in which they came. It must not wait for long: nothing is read meanwhile. The
	// frame is the session's until what is returned was called, and may be retained. An error ends the connection once the
	// requests before are answered.
	Begin(ctx context.Context, f *Frame) (Finish, error)
	// Trusted says whether the client has shown who it is.
	Trusted() bool
}

// Finish finishes a request; its ctx ends when nobody waits for the answer any more, or the server drains. An error ends the
// connection.
type Finish func(ctx context.Context) (Answer, error)

// Admission is how a request is taken.
type Admission struct {
	// Class is what its memory is taken from, for which reading waits. nil: from the connection's own allowance as far as
	// that goes, then from Spill.
	Class, Spill *budget.Class
}

// Answer is what is sent for a request.
type Answer struct {
	// Head begins the answer: four bytes for its length, which are filled in here, then whatever there is. Empty: nothing is
	// sent.
	Head []byte
	// Parts follow.
	Parts []Part
	// Last says that the connection ends with this answer.
	Last bool
	// Release, if not nil, is called once Head and Parts are not used any more.
	Release func()
}

// Part is bytes, or if Section is not nil those of a file, which the kernel sends by itself.
type Part struct {
	Bytes   []byte
	Section *objstore.Section
}

func (a *Answer) release() {
	if a.Release != nil {
		a.Release()
	}
}

// Size is how many bytes an answer has.
func (a *Answer) Size() int64 {
	n := int64(len(a.Head))
	for i := range a.Parts {
		if p := &a.Parts[i]; p.Section != nil {
			n += p.Section.Len
		} else {
			n += int64(len(p.Bytes))
		}
	}
	return n
}

// Options are what New needs. Open and Buffers must be set; a zero number means its default.
type Options struct {
	// Port says whether connections have TLS, and logs those that should not, or should; nil: plain text.
	Port *tlsport.Port
	// Open makes the session of a new connection.
	Open func(c net.Conn) Session
	// Buffers are what frames are read into.
	Buffers *budget.Buffers
	// Connections is how many may be open: 256. One more takes the place of one that has not shown who it is for half a second, for which it
	// waits; if all have, that of the one which has asked for nothing for longest, if that is GiveWay, 10 s; else it is closed.
	Connections int
	GiveWay     time.Duration
	// QueueBytes and QueueRequests bound the requests of a connection that are not answered: 16 MiB, 100. A single request
	// of any size fits an empty queue.
	QueueBytes    int64
	QueueRequests int
	// Idle is how long a connection may ask for nothing, TrustWithin how long it may take to show who it is: 10 min, 30 s.
	// Step is how long the handshake of TLS, the head of a request and each 64 KiB of it may take: 15 s.
	Idle, TrustWithin, Step time.Duration
	// Logger; nil discards. Metrics; nil makes a set.
	Logger  *slog.Logger
	Metrics *metrics.Set
}

// AllowanceBytes is what a connection may use for requests without asking the budget. It is part of what a connection is
// reckoned to cost.
const AllowanceBytes = 16 << 10

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = metrics.NewSet()
	}
	if o.Connections == 0 {
		o.Connections = 256
	}
	if o.QueueBytes == 0 {
		o.QueueBytes = 16 << 20
	}
	if o.QueueRequests == 0 {
		o.QueueRequests = 100
	}
	for _, d := range []struct {
		to        *time.Duration
		otherwise time.Duration
	}{{&o.Idle, 10 * time.Minute}, {&o.TrustWithin, 30 * time.Second}, {&o.Step, 15 * time.Second}, {&o.GiveWay, 10 * time.Second}} {
		if *d.to == 0 {
			*d.to = d.otherwise
		}
	}
	return o
}

// counters are this package's metrics.
type counters struct {
	open             *metrics.Gauge
	refused, evicted *metrics.Counter
	in, out          *metrics.Counter
}

func newCounters(s *metrics.Set) counters {
	return counters{
		open:    s.NewGauge("seb_kafka_connections", nil),
		refused: s.NewCounter("seb_kafka_connections_refused_total"),
		evicted: s.NewCounter("seb_kafka_connections_evicted_total"),
		in:      s.NewCounter("seb_kafka_received_bytes_total"),
		out:     s.NewCounter("seb_kafka_sent_bytes_total"),
	}
}
