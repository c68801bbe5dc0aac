package server

import (
	"errors"
	"fmt"
	"net"
	"net/http"

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
func listenRiemannWeb(c *config.Riemann) (*riemannWeb, error) {
	if c.WebListen == "" {
		return nil, nil
	}
	l, err := tlsport.Listen(c.WebListen)
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
			return httpapi.KnownHost(r.Host, s.cfg.HTTP.Hosts.List()) && (same || admitted || r.Header.Get("Origin") == "")
		},
		Logger: s.log,
	})
	s.log.Info("Riemann subscriptions started", "address", x.listener.Addr().String())
	s.serving.Go(func() {
		if err := x.server.Serve(x.listener); err != nil {
			s.end(fmt.Errorf("listener of Riemann subscriptions: %w", err))
		}
	})
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
