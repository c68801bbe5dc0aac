package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sebbroker/seb/bench/machine"
	"github.com/sebbroker/seb/bench/result"
	"github.com/sebbroker/seb/bench/sut"
	"github.com/sebbroker/seb/bench/workload"
)

// run is the state of a run. Fields that are neither atomic nor guarded by a lock are written
// before the goroutines start, or after they have ended.
type run struct {
	o          Options
	w          *workload.Workload // of all parts
	assigned   Assignment         // the connections of this part
	ownSystems bool               // each part has its own systems inside its process
	// sequencesMax is a limit for the sequence numbers of messages, and so for the memory of the
	// sets.
	sequencesMax uint64
	clock        Clock
	res          *result.Run

	systems    []sut.System // by topic
	publishers []*publisher
	// Those with subscribers in this part; each is due every message of its topic.
	groups      []*group
	subscribers []*subscriber
	sends       []*sendShard
	receives    []*shard

	start, measureFrom, measureTo, end, deadline int64 // clock times
	// When the run stopped waiting for messages.
	finished int64

	stopReceiving context.CancelFunc
	receiving     sync.WaitGroup // Receive of every subscriber
	sending       sync.WaitGroup // the loop of every publisher
	background    sync.WaitGroup

	sent, acked, failed, measured, waited, doneTwice atomic.Int64
	received, measuredReceived                       atomic.Int64
	duplicates, reordered, corrupt, foreign, others  atomic.Int64
	// When the last measured message arrived.
	lastReceived atomic.Int64
	lagMax       atomic.Int64 // since the monitor last read it
	draining     atomic.Bool  // everything was sent
	pid          atomic.Int64 // of the broker
	// Nanoseconds that a subscriber delays each message.
	delay atomic.Int64
	// Clock time before which subscribers accept no messages.
	holdUntil atomic.Int64

	packed []packedSecond // used by the monitor until the run is over

	// Which messages of this part the other parts received.
	receipts map[receiptsKey][]*workload.SequenceSet

	mu       sync.Mutex // guards the following fields
	problems map[string]int64
	faults   []result.Fault
	jitters  *result.Histogram
	use      usage
}

// shardsMax limits the memory for histograms, 1 MB each, and the time it takes to collect them
// every second. Connections share the shards, because only as many goroutines as there are cores
// run at the same time.
func shardsMax() int { return min(16, runtime.GOMAXPROCS(0)) }

func newRun(o Options, assigned Assignment) *run {
	r := &run{
		o: o, w: &o.Workload, assigned: assigned, clock: o.Clock, problems: map[string]int64{}, jitters: result.NewHistogram(), res: &result.Run{Repeat: 1},
		sequencesMax: sequencesMax(&o.Workload),
		ownSystems:   o.Parts > 0 && o.Open == nil && sut.Inside(o.Target.Driver),
	}
	if r.o.Run == 0 {
		r.o.Run = drawRun()
	}
	for range min(shardsMax(), assigned.Publishers) {
		r.sends = append(r.sends, newSendShard())
	}
	for range min(shardsMax(), len(assigned.Subscribers)) {
		r.receives = append(r.receives, newShard())
	}
	for i := range assigned.Publishers {
		r.publishers = append(r.publishers, newPublisher(r, assigned.PublisherFirst+i))
	}
	r.newSubscribers()
	return r
}

func (r *run) newSubscribers() {
	known := map[Group]*group{}
	for n, one := range r.assigned.Subscribers {
		of := one
		if r.w.Shared {
			of.Member = 0
		}
		g := known[of]
		if g == nil {
			g = newGroup(r, of)
			known[of] = g
			r.groups = append(r.groups, g)
		}
		r.subscribers = append(r.subscribers, &subscriber{r: r, index: one.Member, group: g, shard: r.receives[n%len(r.receives)]})
	}
}

// schedule returns the schedule of a publisher, from the beginning.
func (r *run) schedule(number int) *workload.Schedule {
	return workload.NewSchedule(workload.ScheduleOptions{
		Start: r.start, Length: r.w.Length(), Rate: r.w.Rate, Part: number, Parts: r.w.Publishers, Batch: r.w.Batch,
		Poisson: r.w.Arrivals == workload.Poisson, Seed: r.w.Seed,
	})
}

// measures reports whether a message due at that time is measured.
func (r *run) measures(due int64) bool { return due >= r.measureFrom && due < r.measureTo }

// measuresAfter does the same as measures, for a time relative to the start.
func (r *run) measuresAfter(d int64) bool {
	return d >= int64(r.w.Warmup) && d < int64(r.w.Warmup)+int64(r.w.Duration)
}

func (r *run) phase(now int64) string {
	switch {
	case now <= r.measureFrom:
		return result.Warmup
	case now <= r.measureTo:
		return result.Measure
	case now <= r.end:
		return result.Cooldown
	}
	return result.Drain
}

// complete reports whether every message has a response, and as many messages arrived everywhere as
// were acknowledged. It compares only numbers; outcome checks each message.
func (r *run) complete() bool {
	if r.acked.Load()+r.failed.Load() < r.sent.Load() {
		return false
	}
	acked := r.ackedByTopic()
	for _, g := range r.groups {
		if g.received.Load() < acked[g.Topic] {
			return false
		}
	}
	return true
}

// ackedByTopic counts the acknowledged messages of this part.
func (r *run) ackedByTopic() []int64 {
	acked := make([]int64, r.w.Topics)
	for _, p := range r.publishers {
		p.mu.Lock()
		acked[p.topic] += int64(p.acked.Len())
		p.mu.Unlock()
	}
	return acked
}

// problemsMax is how many different errors a result lists.
const problemsMax = 20

// problemLength is the maximum length of an error in a result, in bytes.
const problemLength = 300

func (r *run) problem(text string) {
	if len(text) > problemLength {
		text = text[:problemLength] + "..."
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.problems[text]; !known && len(r.problems) >= problemsMax {
		text = "others"
	}
	r.problems[text]++
}

// seal stops the histograms from accepting samples.
func (r *run) seal() {
	for _, s := range r.sends {
		s.seal()
	}
	for _, s := range r.receives {
		s.seal()
	}
}

// seconds converts a clock time to seconds since the first message was due.
func (r *run) seconds(now int64) float64 { return time.Duration(now - r.start).Seconds() }

// Clock is the clock of a run. Its methods may be called concurrently.
type Clock interface {
	// Now returns the time in nanoseconds since a fixed moment.
	Now() int64
	// SleepUntil returns nil at t or as soon after it as the clock can, and at once if t is past.
	// If ctx ends first, it returns the error of ctx, which it may notice up to 20 ms late.
	SleepUntil(ctx context.Context, t int64) error
}

// sleepMax is the longest sleep without a check of the context.
const sleepMax = 20 * time.Millisecond

// StandardClock uses package time, and sleeps in whole milliseconds. In a testing/synctest bubble
// it is virtual: exact, and as fast as the work done in the bubble.
type StandardClock struct{ base time.Time }

// NewStandardClock returns a clock that starts at one second, so that no time is 0.
func NewStandardClock() *StandardClock { return &StandardClock{base: time.Now().Add(-time.Second)} }

// Now implements Clock.
func (s *StandardClock) Now() int64 { return int64(time.Since(s.base)) }

// SleepUntil implements Clock. It notices the end of ctx at once.
func (s *StandardClock) SleepUntil(ctx context.Context, t int64) error {
	d := t - s.Now()
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(time.Duration(d))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fault waits for the time of a fault, injects it, and records when it was active.
func (r *run) runFault(ctx context.Context, f workload.Fault) {
	if r.clock.SleepUntil(ctx, r.measureFrom+int64(f.At)) != nil {
		return
	}
	from := r.clock.Now()
	err := r.inject(ctx, f)
	done := result.Fault{Fault: f, From: r.seconds(from), To: r.seconds(r.clock.Now())}
	if err != nil {
		done.Error = err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, done)
}

func (r *run) inject(ctx context.Context, f workload.Fault) error {
	until := r.clock.Now() + int64(f.For)
	switch f.Kind {
	case workload.Pause:
		return r.pause(ctx, until)
	case workload.Slow:
		r.delay.Store(int64(f.Delay))
		defer r.delay.Store(0)
		return r.clock.SleepUntil(ctx, until)
	case workload.Hold:
		r.holdUntil.Store(until)
		defer r.holdUntil.Store(0)
		return r.clock.SleepUntil(ctx, until)
	case workload.Restart:
		if err := r.signal(syscall.SIGKILL); err != nil {
			return err
		}
	}
	return r.command(ctx, f.Run)
}

// pause stops the broker's process until the given clock time. The process continues afterwards,
// even after an error.
func (r *run) pause(ctx context.Context, until int64) (err error) {
	if err := r.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.signal(syscall.SIGCONT)) }()
	return r.clock.SleepUntil(ctx, until)
}

func (r *run) signal(sig syscall.Signal) error {
	pid := int(r.pid.Load())
	if pid <= 1 || pid == os.Getpid() {
		return fmt.Errorf("send %v: process %d is not a broker", sig, pid)
	}
	if err := syscall.Kill(pid, sig); err != nil {
		return fmt.Errorf("send %v to process %d: %w", sig, pid, err)
	}
	return nil
}

// commandMax limits the run time of a command.
const commandMax = 5 * time.Minute

// outputMax limits how much of a command's output an error quotes.
const outputMax = 500

// command runs a shell command. If the last line of its output is a number, that is the process id
// of the broker from then on. Processes that the command leaves running do not delay the run.
func (r *run) command(ctx context.Context, text string) error {
	ctx, cancel := context.WithTimeout(ctx, commandMax)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", text)
	cmd.Env = append(os.Environ(), fmt.Sprintf("PID=%d", r.pid.Load()))
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := machine.WithDefaultScheduling(cmd.Start)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		said := out.String()
		return fmt.Errorf("command %q: %w: %s", text, err, said[:min(len(said), outputMax)])
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if pid, err := strconv.Atoi(strings.TrimSpace(lines[len(lines)-1])); err == nil && pid > 1 {
		r.pid.Store(int64(pid))
	}
	return nil
}
