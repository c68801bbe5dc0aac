package load

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/sebbroker/seb/bench/sut"
	"github.com/sebbroker/seb/bench/workload"
)

// Host sets up what the parts of a run share, and removes it. Systems inside the processes need
// nothing shared.
type Host struct {
	systems []sut.System
	info    sut.Info
}

// OpenHost sets up a run for its parts. o has the same options as the parts, except for the part
// number.
func OpenHost(ctx context.Context, o Options) (*Host, error) {
	ctx, cancel := context.WithTimeout(ctx, connectMax)
	defer cancel()
	h := &Host{}
	for topic := range o.Workload.Topics {
		c := config(&o, topic)
		c.Group = &sut.ProcessGroup{Host: true, SubscribersAll: o.Workload.Subscribers, Shared: o.Workload.Shared}
		sys, err := o.open(ctx, c)
		if err == nil {
			h.systems = append(h.systems, sys)
			h.info, err = sys.Setup(ctx)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("set up: %w", err), h.Close(ctx))
		}
	}
	if h.info.PID == 0 {
		h.info.PID = o.Target.PID
	}
	return h, nil
}

// Info describes what was set up.
func (h *Host) Info() sut.Info { return h.info }

// Close removes what was set up, even if ctx has ended. The parts must be done with it.
func (h *Host) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeMax)
	defer cancel()
	errs := make([]error, len(h.systems))
	var closing sync.WaitGroup
	for i, s := range h.systems {
		closing.Go(func() { errs[i] = s.Teardown(ctx) })
	}
	closing.Wait()
	return errors.Join(errs...)
}

// open opens a system with o.Open or with the target's driver.
func (o *Options) open(ctx context.Context, c sut.Config) (sut.System, error) {
	if o.Open != nil {
		return o.Open(ctx, c)
	}
	return sut.Open(ctx, o.Target.Driver, c)
}

// config returns the driver configuration for the system of a topic.
func config(o *Options, topic int) sut.Config {
	name := "seb-bench-" + runID(o.Run)
	if o.Workload.Topics > 1 {
		name += "-" + strconv.Itoa(topic)
	}
	return sut.Config{
		Address: o.Target.Address, Name: name, Partitions: o.Workload.Partitions, PayloadBytes: o.Workload.Size.Max(),
		Options: o.Target.Options, PID: o.Target.PID,
	}
}

// processGroup tells the system of a topic which connections this part opens.
func (r *run) processGroup(topic int) *sut.ProcessGroup {
	first := r.assigned.PublisherFirst
	// The first publisher of the topic.
	first += (topic - first%r.w.Topics + r.w.Topics) % r.w.Topics
	return &sut.ProcessGroup{PublisherFirst: first / r.w.Topics, Subscribers: r.assigned.own(topic), SubscribersAll: r.w.Subscribers, Shared: r.w.Shared}
}

// runID formats the id of a run for results and topic names.
func runID(run uint64) string { return fmt.Sprintf("%016x", run) }

// faultsOfSubscribers returns an error unless all faults act on subscribers only: other faults are
// not possible in a run with several load machines.
func faultsOfSubscribers(list []workload.Fault) error {
	for _, f := range list {
		if f.Kind != workload.Slow && f.Kind != workload.Hold {
			return fmt.Errorf("fault %q: a run with several load machines supports only %s and %s", f, workload.Slow, workload.Hold)
		}
	}
	return nil
}
