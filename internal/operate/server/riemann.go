package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/operate/node"
	"github.com/sebbroker/seb/internal/protocols/httpapi"
	"github.com/sebbroker/seb/internal/protocols/riemann"
	"github.com/sebbroker/seb/internal/protocols/riemann/index"
	"github.com/sebbroker/seb/internal/protocols/tlsport"
)

// riemannServer has the listeners for Riemann clients.
type riemannServer struct {
	front
	server    *riemann.Server
	datagrams *net.UDPConn // nil: none
}

// listen listens at the addresses that are set.
func (r *riemannServer) listen(c *config.Riemann) (err error) {
	if c.Listen != "" {
		if r.listener, err = tlsport.Listen(c.Listen); err != nil {
			return fmt.Errorf("--riemann-listen: %w", err)
		}
	}
	if c.UDP != "" {
		p, err := net.ListenPacket("udp", c.UDP)
		if err != nil {
			return fmt.Errorf("--riemann-udp: %w", err)
		}
		r.datagrams = p.(*net.UDPConn)
	}
	return nil
}

// start serves until drain, even if ctx ends.
func (r *riemannServer) start(ctx context.Context, s *Server, set *metrics.Set) (err error) {
	c := &s.cfg.Riemann
	if c.Listen == "" && c.UDP == "" {
		return nil
	}
	o := riemann.Options{
		Auth: s.auth, Token: c.Token.Reveal(), Port: s.ports.riemann, Topic: c.Topic, Received: c.Ack == config.AckReceived, Patience: c.Patience,
		MessageMax: int(c.MaxMessage), Index: index.Queries{Index: s.node.Riemann()}, Limits: s.limits, TLSBytes: s.ports.tlsBytes(s.ports.riemann), Logger: s.log, Metrics: set,
	}
	if c.Patience == 0 {
		o.Patience = -1
	}
	if r.server, err = riemann.New(s.node.Broker, o); err != nil {
		return err
	}
	r.serving, r.unfinished = r.server, "messages in progress on the Riemann listener"
	ctx = context.WithoutCancel(ctx) // Close ends the server
	if r.listener != nil {
		s.serve("listener of Riemann", func() error { return r.server.Serve(ctx, r.listener) })
	}
	if r.datagrams != nil {
		s.serve("datagrams of Riemann", func() error { return r.server.ServeDatagrams(ctx, r.datagrams) })
	}
	return nil
}

// abandon closes listeners that do not serve yet.
func (r *riemannServer) abandon() error {
	err := r.front.abandon()
	if r.datagrams != nil {
		err = errors.Join(err, ignoreClosed(r.datagrams.Close()))
	}
	return err
}

// datagramAddress is the address for datagrams; "" if there is none.
func (r *riemannServer) datagramAddress() string {
	if r.datagrams == nil {
		return ""
	}
	return r.datagrams.LocalAddr().String()
}

// RiemannAddress returns the host:port for Riemann clients; "" without a listener.
func (s *Server) RiemannAddress() string { return s.riemann.address() }

// RiemannDatagrams returns the host:port for datagrams of Riemann clients; "" if there is none.
func (s *Server) RiemannDatagrams() string { return s.riemann.datagramAddress() }

// riemannStatus describes the endpoint for Riemann clients for GET /status; nil without a listener.
func (s *Server) riemannStatus() *api.RiemannStatus {
	x := s.node.Riemann()
	if x == nil {
		return nil
	}
	r := &api.RiemannStatus{
		Address: s.RiemannAddress(), UDPAddress: s.RiemannDatagrams(), WebAddress: s.RiemannWebAddress(), Topic: x.Topic(),
	}
	r.TLS, r.WebTLS = r.Address != "" && s.ports.riemann.Secure(), r.WebAddress != "" && s.ports.riemannWeb.Secure()
	if s.riemann.server != nil {
		c := s.riemann.server.Counts()
		r.Connections, r.Events, r.MessagesRefused, r.Datagrams, r.DatagramsDropped = c.Connections, c.Events, c.Refused, c.Datagrams, c.Dropped
	}
	i := x.Status()
	r.Index = api.RiemannIndexStatus{
		Events: i.Entries, Bytes: i.Bytes, Subscriptions: i.Subscribers, LagRecords: i.LagRecords, LagSeconds: i.LagTime.Seconds(),
	}
	if i.Err != nil {
		r.Index.Unavailable = i.Err.Error()
	}
	return r
}

// checkRiemannTopic checks the name of the topic of Riemann clients, which must be no topic of Seb.
func (s *Server) checkRiemannTopic() error {
	return node.CheckPurpose(s.cfg.Riemann.Topic, s.cfg.AuditTopic)
}

// warnAnonymous logs that clients in a network are not authenticated.
func (s *Server) warnAnonymous() {
	_, certified := s.cfg.TLS.Clients()
	for _, l := range []struct {
		address string
		port    *tlsport.Port // nil: datagrams
		may     string
	}{
		{s.riemann.address(), s.ports.riemann, "writes events"}, {s.riemann.datagramAddress(), nil, "writes events"}, {s.dash.address(), s.ports.riemannWeb, "reads events"},
	} {
		if l.address != "" && !(certified && l.port.Secure()) && !loopback(l.address) {
			s.log.Warn("Riemann clients are not authenticated: everyone who reaches the listener "+l.may+" (--riemann-allow-anonymous)",
				"address", l.address, "topic", s.cfg.Riemann.Topic)
		}
	}
}

// subscriptionsMax bounds the open subscriptions, each of which may take subscriptionBytes.
const (
	subscriptionsMax  = 64
	subscriptionBytes = 1 << 20
)

// startDash serves subscriptions to the index of Riemann events.
func (s *Server) startDash() {
	x := &s.dash
	if x.listener == nil {
		return
	}
	memory := s.node.Budget().Class(budget.Fetch)
	server := riemann.NewDashboards(riemann.DashboardOptions{
		Index: s.node.Riemann(), Memory: memory, Subscriptions: int(min(subscriptionsMax, max(4, memory.Limit()/subscriptionBytes))),
		Admit: func(r *http.Request) bool {
			same, admitted := httpapi.KnownOrigin(r, s.cfg.HTTP.Origins.List())
			return httpapi.KnownHost(r.Host, s.knownHosts()) && (same || admitted || r.Header.Get("Origin") == "")
		},
		Authorize: s.authorizeSubscriber, Logger: s.log,
	})
	s.log.Info("Riemann subscriptions started", "address", x.listener.Addr().String())
	x.serving, x.unfinished = server, "subscriptions to Riemann events"
	s.serve("listener of Riemann subscriptions", func() error { return server.Serve(x.listener) })
}

// authorizeSubscriber implements riemann.DashboardOptions.Authorize. A client has the rights of its
// certificate, or else those of the listener's token.
func (s *Server) authorizeSubscriber(ctx context.Context, conn net.Conn, end func()) (stop func(), err error) {
	remote, topic := conn.RemoteAddr().String(), s.cfg.Riemann.Topic
	who, token := s.auth.Root(), s.cfg.Riemann.Token.Reveal()
	secured, _ := conn.(interface{ Peer() *tlsport.Peer })
	switch {
	case secured != nil && secured.Peer() != nil:
		who, err = s.auth.Certificate(ctx, secured.Peer(), remote)
	case token != "":
		who, err = s.auth.Key(ctx, token, remote)
	}
	if err != nil {
		return nil, err
	}
	allowed := func() bool { return who.Allow(access.Read, access.Topic, topic) }
	if !allowed() {
		origin := who.Origin()
		origin.Protocol, origin.From = "riemann", remote
		s.node.Broker.Denied(origin, access.Read, access.Topic, topic)
		return nil, fmt.Errorf("%w: %s on topic %s", state.ErrUnauthorized, access.Read, topic)
	}
	return who.Watch(allowed, end), nil
}

// RiemannWebAddress returns the host:port of subscriptions to the index of Riemann events; "" without
// a listener.
func (s *Server) RiemannWebAddress() string { return s.dash.address() }
