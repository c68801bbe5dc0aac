package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/base/failpoint"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/group/coordinator"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/protocols/httpapi"
	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/internal/protocols/tlsport"
	"github.com/sebbroker/seb/internal/triggers/delivery"
	"github.com/sebbroker/seb/internal/triggers/delivery/webhook"
)

// kafkaRetry is the retry interval of the default address while another program uses it.
var kafkaRetry = 5 * time.Second

// kafkaServer is the listener for Kafka clients.
type kafkaServer struct {
	front
	server      *kafka.Server
	busyAddress string // the default address, if another program uses it; retried every kafkaRetry
}

// listen listens if there is a Kafka address. If the default address is in use, it is retried later.
// A configured address that is in use is an error.
func (k *kafkaServer) listen(c *config.Kafka, log *slog.Logger) error {
	if c.Listen == "" {
		return nil
	}
	l, err := tlsport.Listen(c.Listen)
	switch {
	case err == nil:
		k.listener = l
	case c.Optional && errors.Is(err, syscall.EADDRINUSE):
		log.Warn("no Kafka listener yet: the default address is in use", "address", c.Listen, "retry", kafkaRetry,
			"hint", "set another address, or none, with --kafka-listen")
		k.busyAddress = c.Listen
	default:
		return fmt.Errorf("--kafka-listen: %w", err)
	}
	return nil
}

// on reports whether there are Kafka clients, now or later.
func (k *kafkaServer) on() bool { return k.busyAddress != "" || k.listener != nil }

// start serves until drain, even if ctx ends.
func (k *kafkaServer) start(ctx context.Context, s *Server, o kafka.Options) (err error) {
	if !k.on() {
		return nil
	}
	if k.server, err = kafka.New(s.node.Broker, o); err != nil {
		return err
	}
	k.serving, k.unfinished = k.server, "requests in progress on the Kafka listener"
	ctx = context.WithoutCancel(ctx) // Close ends the server
	s.serve("listener of Kafka", func() error {
		if !k.wait(s.stopping, s.log) {
			return nil
		}
		return k.server.Serve(ctx, k.listener)
	})
	return nil
}

// wait waits until an address in use is free, and listens. It returns false if the server stops
// first.
func (k *kafkaServer) wait(stop <-chan struct{}, log *slog.Logger) bool {
	if k.busyAddress == "" {
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
		l, err := tlsport.Listen(k.busyAddress)
		if err != nil {
			log.Debug("no Kafka listener yet", "address", k.busyAddress, "err", err)
			continue
		}
		k.mu.Lock()
		k.listener = l
		k.mu.Unlock()
		log.Info("Kafka listener started", "address", l.Addr().String())
		return true
	}
}

// leaveTime bounds the time in which clients learn of a hand-over. Clients that send nothing for so long
// are not waited for.
const leaveTime = time.Second

// leave tells clients which broker leads, after a hand-over.
func (k *kafkaServer) leave(ctx context.Context) {
	if k.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	k.server.Leave(ctx)
}

// kafkaStatus describes the Kafka listener for GET /status.
func (s *Server) kafkaStatus() *api.KafkaStatus {
	address := s.KafkaAddress()
	if address == "" {
		return nil
	}
	if s.cfg.Kafka.Advertise != "" {
		address = s.cfg.Kafka.Advertise
	}
	return &api.KafkaStatus{Address: address, TLS: s.ports.kafka.Secure()}
}

// openGroups starts the coordinator of consumer groups. Without a Kafka listener groups have no
// members, so it is not needed.
func (s *Server) openGroups(ctx context.Context, set *metrics.Set) {
	if s.kafka.on() {
		o := coordinator.Options{Broker: s.node.Broker, Logger: s.log, Metrics: set}
		if failpoint.FastGroups() {
			o.InitialDelay, o.SessionMin = 20*time.Millisecond, 500*time.Millisecond
		}
		s.groups = coordinator.Open(context.WithoutCancel(ctx), o) // closeGroups ends it
	}
}

// httpGroups is the target of offset commits over HTTP; nil: the broker.
func (s *Server) httpGroups() httpapi.Groups {
	if s.groups == nil {
		return nil
	}
	return s.groups
}

// groupMembers describes the members of groups to HTTP clients; nil: groups have none.
func (s *Server) groupMembers() httpapi.Members {
	if s.groups == nil {
		return nil
	}
	return s.groups
}

// closeGroups waits for the commits in progress, which complete before the broker closes.
func (s *Server) closeGroups() {
	if s.groups != nil {
		s.groups.Close()
	}
}

// deliver delivers firings while this broker leads.
func (s *Server) deliver(set *metrics.Set) {
	if s.node.Triggers() == nil {
		return
	}
	s.node.WhileLeading(func(ctx context.Context) {
		lost := make(chan struct{})
		d, err := delivery.Open(ctx, delivery.Options{
			Engine: s.node.Triggers(), Log: s.node.EventLog(), Queues: s.node.Queues(), Lost: lost,
			Webhooks: webhook.Options{Policy: s.targets, Bytes: delivery.BytesWithin(int64(s.cfg.MemoryLimit))},
			Logger:   s.log, Metrics: set,
		})
		if err != nil { // only wrong options have an error
			s.end(err)
			return
		}
		<-ctx.Done()
		if errors.Is(context.Cause(ctx), broker.ErrDeposed) {
			close(lost)
		}
		d.Close()
	})
}

// stopDeliveries stops deliveries and the trigger engine while the broker still accepts their
// records.
func (s *Server) stopDeliveries() error {
	s.node.EndWhileLeading()
	if s.node.Triggers() == nil {
		return nil
	}
	return s.node.Triggers().Close()
}
