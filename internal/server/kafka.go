package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

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

// kafkaRetry is how often the default address is tried again while another program has it.
var kafkaRetry = 5 * time.Second

// kafkaServer is the listener for clients of Kafka. The methods of a nil one do nothing.
type kafkaServer struct {
	server *kafka.Server
	taken  string // the default address, if another program has it: it is tried again every kafkaRetry

	mu       sync.Mutex   // guards listener
	listener net.Listener // nil while the address is taken
}

// listenKafka listens, or returns nil if there is to be no listener. The default address may be taken by another program: it is
// then tried again. One that was given may not.
func listenKafka(c *config.Kafka, log *slog.Logger) (*kafkaServer, error) {
	if c.Listen == "" {
		return nil, nil
	}
	l, err := tlsport.Listen(c.Listen)
	switch {
	case err == nil:
		return &kafkaServer{listener: l}, nil
	case c.Optional && errors.Is(err, syscall.EADDRINUSE):
		log.Warn("no listener for clients of Kafka yet: the default address is taken", "address", c.Listen, "retry", kafkaRetry,
			"hint", "--kafka-listen names another, or none")
		return &kafkaServer{taken: c.Listen}, nil
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
func (k *kafkaServer) start(ctx context.Context, s *Server, o kafka.Options) (err error) {
	if k == nil {
		return nil
	}
	if k.server, err = kafka.New(s.node.Broker, o); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // the server ends by Close
	s.serving.Go(func() {
		if !k.wait(s.stopping, s.log) {
			return
		}
		if err := k.server.Serve(ctx, k.listener); err != nil {
			s.end(fmt.Errorf("listener for clients of Kafka: %w", err))
		}
	})
	return nil
}

// wait waits until the address is free, if it is taken, and listens; false if the server stops first.
func (k *kafkaServer) wait(stop <-chan struct{}, log *slog.Logger) bool {
	if k.taken == "" {
		return true
	}
	t := time.NewTicker(kafkaRetry)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return false
		case <-t.C:
		}
		l, err := tlsport.Listen(k.taken)
		if err != nil {
			log.Debug("no listener for clients of Kafka yet", "address", k.taken, "err", err)
			continue
		}
		k.mu.Lock()
		k.listener = l
		k.mu.Unlock()
		log.Info("listening for clients of Kafka", "address", l.Addr().String())
		return true
	}
}

// abandon closes a listener that does not serve yet.
func (k *kafkaServer) abandon() error {
	if k == nil || k.listener == nil {
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
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.listener == nil {
		return ""
	}
	return k.listener.Addr().String()
}
