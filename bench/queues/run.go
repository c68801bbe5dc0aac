package queues

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"

	"github.com/sebbroker/seb/bench/load"
	"github.com/sebbroker/seb/bench/machine"
	"github.com/sebbroker/seb/bench/result"
)

// Load is what a run does.
type Load struct {
	Batch int `json:"batch"`
	// Rate is messages a second; 0: each producer sends when the last batch is acknowledged.
	Rate   int           `json:"rate,omitempty"`
	Warmup time.Duration `json:"warmup"`
	Time   time.Duration `json:"time"` // measured
}

const (
	senders = 16
	workers = 16
	// backlogMax bounds the messages with which no worker has begun, so that messages are worked on as fast
	// as they are sent.
	backlogMax = 500
	drainWait  = 20 * time.Second // for the rest, at the end
)

// Figures are those of a run.
type Figures struct {
	Sent      int     `json:"sent"` // acknowledged in the whole run
	Lost      int     `json:"lost"` // of these
	Again     int     `json:"again,omitempty"`
	PerSecond float64 `json:"per_second"` // settled, in the measured time
	ServerCPU float64 `json:"server_cpu"` // µs for each of these
	ClientCPU float64 `json:"client_cpu"` // of producers and workers
	// Percentiles of the time from the send to the begin of work, in nanoseconds; those of which there are
	// too few samples are absent.
	Times      map[string]time.Duration `json:"times"`
	LoadBefore float64                  `json:"load_before"` // average of the machine in the minute before
}

// percentiles are those of a run.
var percentiles = []float64{50, 90, 99, 99.9}

func percentName(p float64) string { return fmt.Sprintf("p%v", p) }

// run is a running measurement.
type run struct {
	load   Load
	client Client
	ledger *ledger
	clock  *load.MonotonicClock
	room   *semaphore.Weighted

	settled  atomic.Int64
	from, to atomic.Int64 // the measured time; to is 0 until it is known

	mu    sync.Mutex // guards the histogram
	times *result.Histogram
}

// Begin implements Listener.
func (r *run) Begin(m []byte, at int64) {
	sent, first := r.ledger.worked(m)
	if !first {
		return
	}
	r.room.Release(1)
	if from := r.from.Load(); from == 0 || sent < from || sent >= r.to.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.times.Record(at - sent)
}

// Settled implements Listener.
func (r *run) Settled(n int) { r.settled.Add(int64(n)) }

// Measure runs a load on an open client and closes it. serverPID is the process of the server.
func Measure(ctx context.Context, c Client, l Load, serverPID int) (f Figures, err error) {
	defer func() { err = errors.Join(err, c.Close()) }()
	r := &run{load: l, client: c, ledger: newLedger(senders), clock: load.NewMonotonicClock(0), room: semaphore.NewWeighted(backlogMax), times: result.NewHistogram()}
	f.LoadBefore = machine.HereInDetail().Load[0]
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		err := c.Work(working, r)
		stop() // without workers the producers would wait
		ended <- err
	}()
	sending, finish := context.WithCancel(working)
	var producing sync.WaitGroup
	begin := r.clock.Now()
	for i := range senders {
		s, err := c.Sender(sending)
		if err != nil {
			finish()
			stop()
			producing.Wait()
			return f, errors.Join(err, <-ended)
		}
		producing.Go(func() { r.produce(sending, i, s, begin) })
	}
	err = r.window(working, &f, serverPID)
	finish()
	producing.Wait()
	f.Sent, f.Lost = r.drain(working)
	stop()
	err = errors.Join(err, <-ended, errors.Join(r.ledger.faults...))
	f.Again = r.ledger.again
	f.Times = map[string]time.Duration{}
	for _, p := range percentiles {
		if d, ok := r.times.Percentile(p); ok {
			f.Times[percentName(p)] = d
		}
	}
	return f, err
}

// window measures rate and CPU time between the end of the warm-up and that of the measured time.
func (r *run) window(ctx context.Context, f *Figures, serverPID int) error {
	if err := r.clock.SleepUntil(ctx, r.clock.Now()+int64(r.load.Warmup)); err != nil {
		return err
	}
	began, settled := time.Now(), r.settled.Load()
	r.to.Store(Now() + int64(r.load.Time))
	r.from.Store(Now())
	server, err := machine.TreeCPU(serverPID)
	if err != nil {
		return err
	}
	client, err := r.clientCPU()
	if err != nil {
		return err
	}
	if err := r.clock.SleepUntil(ctx, r.clock.Now()+int64(r.load.Time)); err != nil {
		return err
	}
	serverEnd, err := machine.TreeCPU(serverPID)
	if err != nil {
		return err
	}
	clientEnd, err := r.clientCPU()
	if err != nil {
		return err
	}
	n := float64(r.settled.Load() - settled)
	f.PerSecond = n / time.Since(began).Seconds()
	f.ServerCPU = float64((serverEnd - server).Microseconds()) / n
	f.ClientCPU = float64((clientEnd - client).Microseconds()) / n
	return nil
}

func (r *run) clientCPU() (time.Duration, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("CPU time of the clients: %w", err)
	}
	cpu := time.Duration(u.Utime.Nano() + u.Stime.Nano())
	for _, pid := range r.client.Processes() {
		one, err := machine.TreeCPU(pid)
		if err != nil {
			return 0, fmt.Errorf("CPU time of the clients: %w", err)
		}
		cpu += one
	}
	return cpu, nil
}

// produce sends until ctx ends, and then no more.
func (r *run) produce(ctx context.Context, producer int, s Sender, begin int64) {
	fill := filler(newRandom(producer))
	n := r.load.Batch
	var each, due int64
	if r.load.Rate > 0 {
		each = int64(time.Second) * senders * int64(n) / int64(r.load.Rate)
		due = begin + each*int64(producer)/senders
	}
	for {
		at := Now()
		if each > 0 {
			// A batch that waits because the one before is not acknowledged is late by the system.
			// That a timer is late does not count.
			if late := r.clock.Now() - due; late > 0 {
				at = Now() - late
			} else if r.clock.SleepUntil(ctx, due) == nil {
				at = Now()
			}
			due += each
		}
		if r.room.Acquire(ctx, int64(n)) != nil || ctx.Err() != nil {
			return
		}
		if each == 0 {
			at = Now()
		}
		list := make([][]byte, n)
		first := 0
		for i := range list {
			number := r.ledger.sent(producer)
			if i == 0 {
				first = number
			}
			list[i] = encode(producer, number, at, fill)
		}
		// The send ends also after the producers: its outcome is part of the result.
		if err := s.Send(context.WithoutCancel(ctx), list); err != nil {
			r.ledger.fault(fmt.Errorf("send: %w", err))
			return
		}
		r.ledger.acked(producer, first, n)
	}
}

// drain waits until workers have begun with all messages.
func (r *run) drain(ctx context.Context) (all, lost int) {
	for end := time.Now().Add(drainWait); ; {
		all, lost = r.ledger.count()
		if lost == 0 || time.Now().After(end) || r.clock.SleepUntil(ctx, r.clock.Now()+int64(20*time.Millisecond)) != nil {
			return all, lost
		}
	}
}
