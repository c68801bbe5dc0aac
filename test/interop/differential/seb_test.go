package differential

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/group/coordinator"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/kafka"
)

// seb is a broker with a listener for Kafka clients, on a bucket in memory.
type seb struct {
	address string
	broker  *broker.Broker
	groups  *coordinator.Coordinator
	auth    *auth.Authority
	server  *kafka.Server
	served  chan error
}

func startSeb(ctx context.Context) (*seb, error) {
	quiet := slog.New(slog.DiscardHandler)
	b, err := broker.Open(ctx, broker.Options{
		Options:    log.Options{Store: objstore.NewMemory(), Budget: budget.New(256 << 20), Batch: log.Config{Wait: time.Millisecond}, Logger: quiet},
		AutoCreate: true, RetentionEvery: time.Hour,
	})
	if err != nil {
		return nil, err
	}
	s := &seb{broker: b, served: make(chan error, 1)}
	s.groups = coordinator.Open(ctx, coordinator.Options{Broker: b, InitialDelay: -1, Logger: quiet})
	s.auth = auth.New(auth.Options{Broker: b, RootKey: apiKey})
	if s.server, err = kafka.New(b, kafka.Options{Auth: s.auth, Groups: s.groups, Logger: quiet}); err != nil {
		s.groups.Close()
		return nil, errors.Join(err, b.Close(ctx))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.groups.Close()
		return nil, errors.Join(err, b.Close(ctx))
	}
	s.address = l.Addr().String()
	go func() { s.served <- s.server.Serve(ctx, l) }()
	return s, nil
}

func (s *seb) stop(ctx context.Context) error {
	s.server.Drain()
	s.groups.Close()
	err := s.server.Close(ctx)
	s.auth.Close()
	return errors.Join(err, <-s.served, s.broker.Close(ctx))
}
