package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"

	"github.com/sebbroker/seb/internal/config"
	"github.com/sebbroker/seb/internal/kafka"
	"github.com/sebbroker/seb/internal/tlsport"
)

const (
	// kafkaShare is the part of the places for connections, one in so many, that clients of Kafka have; kafkaMost is the most
	// that they get.
	kafkaShare = 4
	kafkaMost  = 512
)

// kafkaServer is the listener for clients of Kafka. The methods of a nil one do nothing.
type kafkaServer struct {
	listener net.Listener
	server   *kafka.Server
}

// listenKafka listens, or returns nil if there is to be no listener, or none at an address that is merely offered.
func listenKafka(c *config.Kafka, log *slog.Logger) (*kafkaServer, error) {
	if c.Listen == "" {
		return nil, nil
	}
	l, err := tlsport.Listen(c.Listen)
	switch {
	case err == nil:
		return &kafkaServer{listener: l}, nil
	case c.Offered && errors.Is(err, syscall.EADDRINUSE):
		log.Warn("no listener for clients of Kafka: the address is taken; --kafka-listen names another", "address", c.Listen)
		return nil, nil
	}
	return nil, fmt.Errorf("--kafka-listen: %w", err)
}

// places is how many of all places for connections are for clients of Kafka.
func (k *kafkaServer) places(all int) int {
	if k == nil {
		return 0
	}
	return max(1, min(kafkaMost, all/kafkaShare))
}

// start serves until drain, whatever becomes of ctx.
func (k *kafkaServer) start(ctx context.Context, s *Server, places int, o kafka.Options) (err error) {
	if k == nil {
		return nil
	}
	o.Connections = k.places(places)
	if k.server, err = kafka.New(s.node.Broker, o); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // the server ends by Close
	s.serving.Go(func() {
		if err := k.server.Serve(ctx, k.listener); err != nil {
			s.end(fmt.Errorf("listener for clients of Kafka: %w", err))
		}
	})
	return nil
}

// abandon closes a listener that does not serve yet.
func (k *kafkaServer) abandon() error {
	if k == nil {
		return nil
	}
	return ignoreClosed(k.listener.Close())
}

func (k *kafkaServer) drain() {
	if k != nil {
		k.server.Drain()
	}
}

func (k *kafkaServer) close(ctx context.Context) error {
	if k == nil {
		return nil
	}
	if err := k.server.Close(ctx); err != nil {
		return fmt.Errorf("requests of clients of Kafka under way: %w", err)
	}
	return nil
}

// address is where it listens; "" if it does not.
func (k *kafkaServer) address() string {
	if k == nil {
		return ""
	}
	return k.listener.Addr().String()
}
