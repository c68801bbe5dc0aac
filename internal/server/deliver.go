package server

import (
	"context"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/delivery"
	"github.com/sebbroker/seb/internal/delivery/webhook"
)

// deliver starts the delivery of firings on a leader.
func (s *Server) deliver(ctx context.Context, set *metrics.Set) (err error) {
	if s.node.Triggers() == nil {
		return nil
	}
	s.dispatch, err = delivery.Open(ctx, delivery.Options{
		Engine: s.node.Triggers(), Log: s.node.EventLog(), Lost: s.node.Done(),
		Webhooks: webhook.Options{Policy: s.targets, Bytes: delivery.BytesWithin(int64(s.cfg.MemoryLimit))},
		Logger:   s.log, Metrics: set,
	})
	return err
}

// stopDeliveries stops deliveries and the trigger engine while the broker still accepts their
// records.
func (s *Server) stopDeliveries() error {
	if s.dispatch == nil {
		return nil
	}
	s.dispatch.Close()
	return s.node.Triggers().Close()
}
