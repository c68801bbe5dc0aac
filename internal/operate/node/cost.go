package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/wake"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/cost"
	"github.com/sebbroker/seb/internal/engine/log"
)

// costEvery is the interval at which the meter counts requests. Tests change it.
var costEvery = 10 * time.Second

// costSampler samples a meter until it is closed.
type costSampler struct {
	meter *cost.Meter
	led   wake.Signal // this broker leads now
	stop  chan struct{}
	done  sync.WaitGroup
	once  sync.Once
}

// openBudget gives the batcher of a leader a limiter, on a store whose requests are counted. The memory
// for requests must not be used up before an object is full.
func (n *Node) openBudget(o *Options, local bool, batch *log.Config, mem *budget.Budget) (err error) {
	if n.prices, _ = cost.Preset("free"); n.counting != nil {
		n.prices, _ = cost.Preset("s3-standard")
	}
	if o.Prices != nil {
		n.prices = *o.Prices
	}
	if local || n.counting == nil || o.ReadOnly || o.BatchWait != BatchAuto || o.PutBudget.Off() {
		return nil
	}
	n.limiter, err = cost.NewLimiter(cost.LimiterOptions{Setting: o.PutBudget, Prices: n.prices, Wait: o.batchWait(local), Logger: o.Logger, Now: o.CostClock})
	if err != nil {
		return fmt.Errorf("budget of PUTs: %w", err)
	}
	batch.Budget = n.limiter
	batch.BytesMax = min(batch.BytesMax, mem.Class(budget.Produce).Limit()/2)
	return nil
}

// frugal reports whether work without urgency should send no requests.
func (n *Node) frugal() bool { return n.limiter != nil && n.limiter.Short() }

// openCost starts the meter. Its first sample may read from the store, so it runs in the background.
func (n *Node) openCost(o *Options) {
	c := cost.Options{Log: n.Broker, Requests: n.counting, Prices: n.prices, Limiter: n.limiter, Store: n.name, Logger: o.Logger, Now: o.CostClock}
	if o.DataDir != "" {
		file := filepath.Join(o.DataDir, cost.File)
		var err error
		if c.Saved, err = os.ReadFile(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			o.Logger.Warn("costs of this month not read from the data folder", "err", err)
		}
		c.Save = func(b []byte) error { return replaceFile(file, b) }
	}
	s := &n.cost
	s.meter, s.led, s.stop = cost.Open(c), wake.New(), make(chan struct{})
	o.Metrics.NewGauge("seb_cost_month_dollars", s.meter.Dollars)
	figures := func() (f cost.Figures) {
		if n.limiter != nil {
			f = n.limiter.Figures()
		}
		return f
	}
	o.Metrics.NewGauge("seb_put_budget_used_ratio", func() float64 { return figures().Used })
	o.Metrics.NewGauge("seb_put_budget_exceeded_ratio", func() float64 { return figures().Exceeded })
	o.Metrics.NewGauge("seb_put_budget_interval_seconds", func() float64 { return figures().Interval.Seconds() })
	// A broker that makes the log, or takes over, knows its position only now. Until the first sample
	// records have the fixed wait.
	n.WhileLeading(func(context.Context) {
		s.led.Send()
	})
	s.done.Go(func() {
		tick := time.NewTicker(costEvery)
		defer tick.Stop()
		for {
			s.meter.Sample()
			select {
			case <-tick.C:
			case <-s.led:
			case <-s.stop:
				return
			}
		}
	})
}

// close counts for the last time. The log must be closed.
func (s *costSampler) close() error {
	if s.meter == nil {
		return nil
	}
	s.once.Do(func() {
		close(s.stop)
		s.done.Wait()
		s.meter.Close()
	})
	return nil
}

// Cost returns the figures of the bucket's costs.
func (n *Node) Cost() *cost.Meter { return n.cost.meter }

// replaceFile replaces a file of the data folder, which is locked. Only its owner can read it.
func replaceFile(file string, b []byte) error {
	f, err := os.OpenFile(file+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
