package framed

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/connlimit"
	"github.com/sebbroker/seb/internal/protocols/tlsport"
)

// Session interprets the requests of a connection. One goroutine calls Admit, Begin and Authenticated.
// Another one calls the Finish functions, in order.
type Session interface {
	// Admit decides how to read a request of size bytes; head is its first Options.HeadBytes bytes.
	// An error ends the connection.
	Admit(ctx context.Context, head []byte, size int) (Admission, error)
	// Delay begins to count an admitted request against the client's quota. While the client is over
	// it, Delay counts nothing and returns the time to wait before it is called again, and a channel
	// that is closed if the quota changes.
	Delay(head []byte, size int) (time.Duration, <-chan struct{})
	// Begin starts a request, in the order of arrival. It must not wait for long, because the
	// connection reads nothing meanwhile. The session owns the frame until its Finish has returned,
	// and may retain it. An error ends the connection after the earlier requests are answered.
	Begin(ctx context.Context, f *Frame) (Finish, error)
	// Authenticated reports whether the client has authenticated.
	Authenticated() bool
	// Valid reports whether the client may have answers. It is called from another goroutine
	// immediately before each answer; if it returns false, the connection ends without the answer.
	Valid() bool
	// Close is called once when the connection has ended and no Finish is running.
	Close()
}

// Finish completes a request. Its ctx ends when the client is gone or the server drains. An error
// ends the connection.
type Finish func(ctx context.Context) (Answer, error)

// Use is what a request does, as far as it decides about the slot of its connection (package
// connlimit).
type Use uint8

const (
	// Asks: neither of the others.
	Asks Use = iota
	// Writes: it writes or operates the broker, and may take the slot of a waiting reader.
	Writes
	// Joins: the connection becomes that of a reader.
	Joins
	// Waits: Joins, and it may wait for records.
	Waits
)

// Admission tells how to read a request.
type Admission struct {
	Use Use
	// Class provides the memory of the request; reading waits for it. nil: the connection's own
	// allowance, then Spill.
	Class, Spill *budget.Class
	// Wait bounds the wait for memory; 0: as long as the connection lasts. After it, or if the class
	// is too small, a request is skipped and Refuse answers it. Without Refuse the connection ends.
	Wait   time.Duration
	Refuse func(err error) Finish
	// Scan, if not nil, reads a request that is too large for memory, as far as it wants; the rest is
	// skipped. r is the request after its length.
	Scan func(r io.Reader) (Finish, error)
	// Look, if not nil, sees the start of a request over 64 KiB before memory is reserved for it: its
	// first bytes, as many as the reader of a connection holds. It may return a Scan.
	Look func(start []byte) (scan func(r io.Reader) (Finish, error))
	// Last, if not nil, answers the request, which is not read. Then the connection ends.
	Last Finish
}

// Answer is the answer to a request.
type Answer struct {
	// Head starts with four bytes for the length, which this package fills in. Empty: no answer is
	// sent.
	Head []byte
	// Parts follow the head.
	Parts []Part
	// Last closes the connection after this answer.
	Last bool
	// Release, if not nil, is called when Head and Parts are no longer used.
	Release func()
}

// Part is bytes or, if Section is not nil, a section of a file, which the kernel copies to the
// socket.
type Part struct {
	Bytes   []byte
	Section *objstore.Section
}

func (a *Answer) release() {
	if a.Release != nil {
		a.Release()
	}
}

// Size is the size of an answer in bytes.
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

// Options configure New. Name, Open and Buffers must be set; zero numbers mean their defaults.
type Options struct {
	// Name is that of the listener in logs and metrics, such as seb_kafka_connections.
	Name string
	// HeadBytes is the size of the smallest request, after its length. Session.Admit gets that many
	// bytes.
	HeadBytes int
	// Unsigned: the length is a number without a sign. Those from 2^31 on are given to Session.Admit
	// as 2^31-1.
	Unsigned bool
	// Port handles TLS, and logs connections with the wrong kind; nil: plain text.
	Port *tlsport.Port
	// Open creates the session of a new connection, a *tlsport.Conn with TLS, before its handshake. cut
	// closes the connection at once; the session
	// may call it from any goroutine.
	Open func(c net.Conn, cut func()) Session
	// Buffers is the pool for frames.
	Buffers *budget.Buffers
	// Limits bounds the connections of all listeners; nil: those of this one. Connections bounds those
	// of this one; 0: not. At the limit a new connection waits until one that has not authenticated for
	// 500 ms can be evicted. If all have authenticated, it evicts the one that has been idle
	// longest, if that is at least EvictIdleAfter, 10 s. Otherwise it is beyond the limit, or
	// closed. TLSBytes is the memory of a connection for TLS.
	Limits         *connlimit.Limiter
	Connections    int
	TLSBytes       int64
	EvictIdleAfter time.Duration
	// QueueBytes and QueueRequests bound the unanswered requests of a connection: 16 MiB, 100. A
	// single request of any size fits into an empty queue.
	QueueBytes    int64
	QueueRequests int
	// LargeBytes bounds the requests over 64 KiB that are being read, on all connections together, so
	// that clients that announce requests and do not send them leave memory to others. 0: no bound.
	LargeBytes int64
	// Idle bounds the time between requests: 10 min. AuthTimeout bounds the time until a client has
	// authenticated: 30 s. Step bounds the time for the TLS handshake, for the head of a request
	// and for each 64 KiB of it: 15 s.
	Idle, AuthTimeout, Step time.Duration
	// Logger: nil discards. Metrics: nil creates a set.
	Logger  *slog.Logger
	Metrics *metrics.Set
}

const (
	// AllowanceBytes is the memory of a connection for requests that need no reservation.
	AllowanceBytes = 4 << 10
	// linkBytes is the memory of a connection: two goroutines, a reader, and its allowance.
	linkBytes = 18<<10 + AllowanceBytes
)

func (o Options) withDefaults() Options {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Metrics = cmp.Or(o.Metrics, metrics.NewSet())
	if o.Limits == nil {
		o.Limits = connlimit.New(connlimit.Options{Logger: o.Logger})
	}
	o.QueueBytes = cmp.Or(o.QueueBytes, 16<<20)
	o.QueueRequests = cmp.Or(o.QueueRequests, 100)
	for _, d := range []struct {
		to        *time.Duration
		otherwise time.Duration
	}{{&o.Idle, 10 * time.Minute}, {&o.AuthTimeout, 30 * time.Second}, {&o.Step, 15 * time.Second}, {&o.EvictIdleAfter, 10 * time.Second}} {
		if *d.to == 0 {
			*d.to = d.otherwise
		}
	}
	return o
}

// counters are the metrics of this package.
type counters struct {
	evicted *metrics.Counter
	in, out *metrics.Counter
}

func newCounters(s *metrics.Set, name string) counters {
	name = "seb_" + name
	return counters{
		evicted: s.NewCounter(name + "_connections_evicted_total"),
		in:      s.NewCounter(name + "_received_bytes_total"),
		out:     s.NewCounter(name + "_sent_bytes_total"),
	}
}
