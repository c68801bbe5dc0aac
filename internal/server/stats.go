package server

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/stats"
)

// openStats starts the statistics of GET /stats and the histograms of GET /latency. Their memory is a part of that for readers at the end of the log, which
// is a cache.
func (s *Server) openStats(set *metrics.Set) {
	var err error
	write := func(w io.Writer) {
		set.WritePrometheus(w)
		writeGroupLags(w, s.node.Broker)
	}
	if s.stats, err = stats.Start(s.node.Budget().Class(budget.Tail), write); err != nil {
		s.log.Warn("no statistics for GET /stats", "err", err, "hint", "raise --memory-limit")
	}
	if err := s.latency.Start(s.node.Budget().Class(budget.Tail), time.Now()); err != nil {
		s.log.Warn("no histograms for GET /latency", "err", err, "hint", "raise --memory-limit")
	}
}

// closeStats may be called before openStats, and after stopping is closed.
func (s *Server) closeStats() {
	if s.stats != nil {
		s.stats.Close()
	}
	s.latency.Close()
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
