package server

import (
	"context"
	"errors"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/delivery"
	"github.com/sebbroker/seb/internal/delivery/webhook"
	"github.com/sebbroker/seb/internal/failpoint"
	"github.com/sebbroker/seb/internal/group/coordinator"
	"github.com/sebbroker/seb/internal/httpapi"
)

// openGroups starts the coordinator of consumer groups. Without a Kafka listener groups have no
// members, so it is not needed.
func (s *Server) openGroups(ctx context.Context, set *metrics.Set) {
	if s.kafka != nil {
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

// deliver delivers firings in the terms in which this broker leads.
func (s *Server) deliver(set *metrics.Set) {
	if s.node.Triggers() == nil {
		return
	}
	s.node.WhileLeading(func(ctx context.Context) {
		lost := make(chan struct{})
		d, err := delivery.Open(ctx, delivery.Options{
			Engine: s.node.Triggers(), Log: s.node.EventLog(), Lost: lost,
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
	s.node.EndTerms()
	if s.node.Triggers() == nil {
		return nil
	}
	return s.node.Triggers().Close()
}
