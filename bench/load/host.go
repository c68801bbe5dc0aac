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

// Host has set up what the parts of a run use together, and removes it. A system inside the processes needs none.
type Host struct {
	systems []sut.System
	info    sut.Info
}

// OpenHost sets a run up for its parts; o is as they have it, but for their number.
func OpenHost(ctx context.Context, o Options) (*Host, error) {
	ctx, cancel := context.WithTimeout(ctx, connectMax)
	defer cancel()
	h := &Host{}
	for topic := range o.Workload.Topics {
		c := config(&o, topic)
		c.Crowd = &sut.Crowd{Host: true, SubscribersAll: o.Workload.Subscribers, Shared: o.Workload.Shared}
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

// Info is what was set up.
func (h *Host) Info() sut.Info { return h.info }

// Close removes what was set up, even if ctx has ended; the parts are done with it.
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

// open opens a system by o.Open or its driver.
func (o *Options) open(ctx context.Context, c sut.Config) (sut.System, error) {
	if o.Open != nil {
		return o.Open(ctx, c)
	}
	return sut.Open(ctx, o.Target.Driver, c)
}

// config is what the system of a topic is opened with.
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

// crowd tells the system of a topic what this part has of it.
func (r *run) crowd(topic int) *sut.Crowd {
	first := r.deal.PublisherFirst
	first += (topic - first%r.w.Topics + r.w.Topics) % r.w.Topics // the first of the topic
	return &sut.Crowd{PublisherFirst: first / r.w.Topics, Subscribers: r.deal.own(topic), SubscribersAll: r.w.Subscribers, Shared: r.w.Shared}
}

// runID is the id of a run as results and names of topics have it.
func runID(run uint64) string { return fmt.Sprintf("%016x", run) }

// faultsOfSubscribers says whether all faults are done by those who receive: whoever shares a run has no others.
func faultsOfSubscribers(list []workload.Fault) error {
	for _, f := range list {
		if f.Kind != workload.Slow && f.Kind != workload.Hold {
			return fmt.Errorf("fault %q: of a run with several load machines there are only %s and %s", f, workload.Slow, workload.Hold)
		}
	}
	return nil
}
