package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/config"
	"github.com/sebbroker/seb/internal/cost"
	"github.com/sebbroker/seb/internal/objstore"
)

// loadPrices reads the price list of --prices.
func (s *Server) loadPrices() error {
	spec, err := objstore.ParseSpec(s.cfg.Bucket)
	if err != nil {
		return err
	}
	if s.prices, err = cost.LoadPrices(s.cfg.Prices, spec.Kind); err != nil {
		return config.Faults{fmt.Errorf("--prices %q: %w", s.cfg.Prices, err)}
	}
	return nil
}

// openCost opens the meter of GET /cost.
func (s *Server) openCost(set *metrics.Set) {
	o := cost.Options{Log: s.node.Broker, Requests: s.node.Requests(), Prices: s.prices, Store: s.node.StoreName(), Logger: s.log}
	if s.cfg.DataDir != "" {
		file := filepath.Join(s.cfg.DataDir, cost.File)
		var err error
		if o.Saved, err = os.ReadFile(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.log.Warn("costs of this month not read from the data folder", "err", err)
		}
		o.Save = func(b []byte) error { return writeFile(file, b) }
	}
	s.cost = cost.Open(o)
	set.NewGauge("seb_cost_month_dollars", s.cost.Dollars)
}

// sampleCost samples the costs every minute if there are no statistics, whose sampler does it.
func (s *Server) sampleCost() {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		s.cost.Sample()
		select {
		case <-tick.C:
		case <-s.stopping:
			return
		}
	}
}
