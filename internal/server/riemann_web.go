package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/sebbroker/seb/internal/access"
	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/config"
	"github.com/sebbroker/seb/internal/httpapi"
	"github.com/sebbroker/seb/internal/riemann/web"
	"github.com/sebbroker/seb/internal/tlsport"
)

// riemannWeb is the listener of subscriptions to the index of Riemann events. The methods of a nil
// one do nothing.
type riemannWeb struct {
	listener net.Listener
	server   *web.Server // nil before start
}

// listenRiemannWeb listens, or returns nil without an address.
func listenRiemannWeb(c *config.Riemann, port *tlsport.Port) (*riemannWeb, error) {
	if c.WebListen == "" {
		return nil, nil
	}
	l, err := httpapi.Listen(c.WebListen, port)
	if err != nil {
		return nil, fmt.Errorf("--riemann-web-listen: %w", err)
	}
	return &riemannWeb{listener: l}, nil
}

// subscriptionsMax bounds the open subscriptions, each of which may take subscriptionBytes.
const (
	subscriptionsMax  = 64
	subscriptionBytes = 1 << 20
)

// start serves until stop.
func (x *riemannWeb) start(s *Server) {
	if x == nil {
		return
	}
	memory := s.node.Budget().Class(budget.Fetch)
	x.server = web.New(web.Options{
		Index: s.node.Riemann(), Memory: memory, Subscriptions: int(min(subscriptionsMax, max(4, memory.Limit()/subscriptionBytes))),
		Admit: func(r *http.Request) bool {
			same, admitted := httpapi.KnownOrigin(r, s.cfg.HTTP.Origins.List())
			return httpapi.KnownHost(r.Host, s.knownHosts()) && (same || admitted || r.Header.Get("Origin") == "")
		},
		Authorize: s.authorizeSubscriber, Logger: s.log,
	})
	s.log.Info("Riemann subscriptions started", "address", x.listener.Addr().String())
	s.serving.Go(func() {
		if err := x.server.Serve(x.listener); err != nil {
			s.end(fmt.Errorf("listener of Riemann subscriptions: %w", err))
		}
	})
}

// authorizeSubscriber implements web.Options.Authorize. A client has the rights of its certificate, or
// else those of the listener's token.
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
		return nil, fmt.Errorf("%w: %s on topic %s", broker.ErrUnauthorized, access.Read, topic)
	}
	return who.Watch(allowed, end), nil
}

// address returns the address of the listener; "" without one.
func (x *riemannWeb) address() string {
	if x == nil {
		return ""
	}
	return x.listener.Addr().String()
}

// stop ends the subscriptions and closes the listener.
func (x *riemannWeb) stop() error {
	switch {
	case x == nil:
		return nil
	case x.server == nil:
		return ignoreClosed(x.listener.Close())
	}
	return errors.Join(x.server.Close(), ignoreClosed(x.listener.Close()))
}

// RiemannWebAddress returns the host:port of subscriptions to the index of Riemann events; "" without
// a listener.
func (s *Server) RiemannWebAddress() string { return s.dash.address() }
