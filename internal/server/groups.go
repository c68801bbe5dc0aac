package server

import (
	"context"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/failpoint"
	"github.com/sebbroker/seb/internal/group/coordinator"
	"github.com/sebbroker/seb/internal/httpapi"
)

// openGroups starts the coordinator of consumer groups. Without a listener for clients of Kafka nobody can be a member of one.
func (s *Server) openGroups(ctx context.Context, set *metrics.Set) {
	if s.kafka != nil {
		o := coordinator.Options{Broker: s.node.Broker, Logger: s.log, Metrics: set}
		if failpoint.HurriedGroups() {
			o.InitialDelay, o.SessionMin = 20*time.Millisecond, 500*time.Millisecond
		}
		s.groups = coordinator.Open(context.WithoutCancel(ctx), o) // it ends by closeGroups
	}
}

// httpGroups is where HTTP commits offsets; nil: the broker.
func (s *Server) httpGroups() httpapi.Groups {
	if s.groups == nil {
		return nil
	}
	return s.groups
}

// closeGroups waits until the commits that were admitted are settled, which the end of the broker sees to.
func (s *Server) closeGroups() {
	if s.groups != nil {
		s.groups.Close()
	}
}
