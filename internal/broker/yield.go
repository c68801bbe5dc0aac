package broker

import (
	"context"
	"time"

	"github.com/sebbroker/seb/internal/cluster"
	"github.com/sebbroker/seb/internal/log"
)

// ErrNoStandby: a broker without Options.Standby does not step down.
var ErrNoStandby = log.ErrNoStandby

// StepDown ends this broker's leadership of an epoch (0: of any), and lets it follow, as
// log.Log.StepDown does.
func (b *Broker) StepDown(ctx context.Context, epoch uint32) error { return b.log.StepDown(ctx, epoch) }

// Park lets a broker that leads commit nothing more until Unpark, as log.Log.Park does.
func (b *Broker) Park(ctx context.Context, drain bool) (cluster.Report, error) {
	return b.log.Park(ctx, drain)
}

// BeginPark is Park for a caller that does not wait, as log.Log.BeginPark is.
func (b *Broker) BeginPark(drain bool) (wait func(ctx context.Context) (cluster.Report, error)) {
	return b.log.BeginPark(drain)
}

// Unpark lets a parked broker continue, as log.Log.Unpark does.
func (b *Broker) Unpark() { b.log.Unpark() }

// Show lets a broker that leads show that in the log, as log.Log.Show does.
func (b *Broker) Show(pace, promise time.Duration) { b.log.Show(pace, promise) }

// Feeds sets whether Options.Fed gets the slots that this broker commits. Default: it does not.
func (b *Broker) Feeds(wanted bool) { b.log.Feeds(wanted) }
