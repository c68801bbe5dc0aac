package forward

import (
	"cmp"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
)

// ErrLeads: this broker leads now, and answers the request itself.
var ErrLeads = errors.New("this broker leads")

const (
	waitDefault = 2 * time.Second
	// rolePoll is the interval at which a request that waits for a leader looks whether this broker
	// leads.
	rolePoll = 20 * time.Millisecond

	dialTimeout = time.Second
	// idleTimeout is below the time after which a broker may close an idle connection of a client, so
	// that a request does not meet a connection that ends.
	idleTimeout = 3 * time.Second
	// copyBytes are read from an answer at a time, and smallCopy from that to a small write.
	copyBytes = 32 << 10
	smallCopy = 4 << 10
	// overhead is reserved for the buffers of a connection and the heads of a request and its answer.
	// The heads have at most headMax each, but those of a small write are small.
	overhead      = 32 << 10
	smallOverhead = 12 << 10
	headMax       = 16 << 10
)

// Options configure New. View, Leads, Memory and Buffers are required.
type Options struct {
	View cluster.View
	// Leads reports whether this broker leads.
	Leads func() bool
	// Memory is reserved for each request that is forwarded. Buffers are of the same budget.
	Memory  *budget.Class
	Buffers *budget.Buffers
	// Timeout is the progress timeout of bodies.
	Timeout httpconn.ProgressTimeout
	// TLS configures connections to brokers at https:// addresses; nil: the system's authorities.
	TLS *tls.Config
	// Wait bounds the time that a request waits for a leader. Default 2 s.
	Wait time.Duration
}

// Forwarder forwards requests to the leader. All methods may be called concurrently.
type Forwarder struct {
	o         Options
	transport *http.Transport
}

// New returns a Forwarder. The caller closes it.
func New(o Options) *Forwarder {
	o.Wait = cmp.Or(o.Wait, waitDefault)
	d := net.Dialer{Timeout: dialTimeout}
	t := &http.Transport{
		DialContext: d.DialContext, MaxIdleConnsPerHost: 64, IdleConnTimeout: idleTimeout, TLSHandshakeTimeout: dialTimeout,
		DisableCompression: true, ExpectContinueTimeout: time.Second, MaxResponseHeaderBytes: headMax,
	}
	if o.TLS != nil {
		t.TLSClientConfig = o.TLS.Clone()
	}
	return &Forwarder{o: o, transport: t}
}

// Close closes idle connections.
func (f *Forwarder) Close() { f.transport.CloseIdleConnections() }

// Leader returns the leader if requests can be forwarded to it.
func (f *Forwarder) Leader() (cluster.Registration, bool) {
	to, ok := f.o.View.Leader()
	return to, ok && to.URL != "" && to.Run != f.o.View.Self().Run
}

// First returns what happens to a request that arrives. waits: it may wait for a leader.
func (f *Forwarder) First(r *http.Request, waits bool) cluster.Route {
	way := f.forwarding(r)
	if waits {
		way.Until = time.Now().Add(f.o.Wait)
	}
	_, route := way.Next(f.o.View, f.o.Leads(), time.Now())
	return route
}

// Alone reports whether no other run is known. Then no request is ever forwarded.
func (f *Forwarder) Alone() bool { return len(f.o.View.Members()) < 2 }

func (f *Forwarder) forwarding(r *http.Request) cluster.Forwarding {
	return cluster.Forwarding{
		Address:   func(to *cluster.Registration) string { return to.URL },
		Forwarded: len(r.Header[api.HeaderForwarded]) > 0,
		Reads:     r.Method == http.MethodGet || r.Method == http.MethodHead,
	}
}
