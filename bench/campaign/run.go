package campaign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sebbroker/seb/bench/load"
	"github.com/sebbroker/seb/bench/machine"
	"github.com/sebbroker/seb/bench/peers"
	"github.com/sebbroker/seb/bench/report"
	"github.com/sebbroker/seb/bench/result"
	"github.com/sebbroker/seb/bench/workload"
)

// Options configure the measurement and its output.
type Options struct {
	Repository string // folder of Seb's source
	Results    string // folder of all campaigns' results
	Data       string // folder of the brokers' data and logs
	Clock      load.Clock
	Spin       time.Duration // of the clock, for the result
	Tool       result.Tool
	Out        io.Writer           // gets a line for each run
	Live       func(load.Progress) // gets the progress of a run; nil: none
	LiveDone   func()              // called after each run, if Live is set
}

// errFailed means that some runs failed.
var errFailed = errors.New("not measured")

// stopWait bounds the stop of a broker after ctx has ended.
const stopWait = time.Minute

// Run measures the steps of the plan without results. It continues after a failed run or broker,
// and finally returns an error.
func (p *Plan) Run(ctx context.Context, o Options) error {
	r := &runner{o: o, store: store{filepath.Join(o.Results, p.Name())}, began: time.Now()}
	r.peers = peers.Options{Repository: o.Repository, Data: o.Data, Progress: o.Out}
	left, err := r.remaining(p)
	if err != nil || len(left) == 0 {
		return err
	}
	if names := peersOf(left); len(names) > 0 {
		guard, err := lock(o.Data)
		if err != nil {
			return err
		}
		defer guard.Close()
		// Brokers of a killed campaign.
		if err := peers.Down(ctx, r.peers); err != nil {
			return err
		}
		// All installations come first, so that none runs during a measurement.
		if r.missing, err = peers.Install(ctx, r.peers, names...); err != nil {
			return err
		}
		for _, err := range r.missing {
			r.say("%v", err)
		}
		r.peers.Installed = true
	}
	r.began = time.Now()
	for i := range left {
		if err := r.session(ctx, &left[i]); err != nil {
			return err
		}
	}
	if len(r.failures) > 0 {
		return fmt.Errorf("%d of %d runs: %w; the first: %s", len(r.failures), r.total, errFailed, r.failures[0])
	}
	return nil
}

// runner is a campaign in progress.
type runner struct {
	o          Options
	store      store
	peers      peers.Options
	missing    map[string]error // why peers cannot be started
	failures   []string
	number     int           // of the step, among total
	total      int           // remaining steps
	began      time.Time     // start of the measurements
	ahead      time.Duration // estimate of the remaining time
	estimateOf time.Duration // of all
}

// remaining returns the sessions without results, and reports them.
func (r *runner) remaining(p *Plan) ([]session, error) {
	todo := &Plan{Settings: p.Settings}
	there := 0
	for _, s := range p.sessions {
		var steps []Step
		for i := range s.steps {
			done, err := r.store.done(&s.steps[i])
			if err != nil {
				return nil, err
			}
			if done {
				there++
				continue
			}
			steps = append(steps, s.steps[i])
		}
		if len(steps) > 0 {
			s.steps = steps
			todo.sessions = append(todo.sessions, s)
			r.total += len(steps)
		}
	}
	r.ahead = todo.Estimate()
	r.estimateOf = r.ahead
	r.say("%d runs of %v, results in %s", r.total+there, p.Settings.Duration, r.store.dir)
	if there > 0 {
		r.say("%d of them are already measured; --fresh measures them again", there)
	}
	if r.total > 0 {
		r.say("the rest takes about %v, after installing what is missing", r.ahead.Round(time.Minute))
	}
	return todo.sessions, nil
}

func (r *runner) say(format string, args ...any) {
	_, _ = fmt.Fprintf(r.o.Out, format+"\n", args...) // output is best effort
}

// peersOf returns the peers of sessions, each once.
func peersOf(list []session) (names []string) {
	for i := range list {
		if name := list[i].peer; name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// session starts a broker, measures, and stops it.
func (r *runner) session(ctx context.Context, s *session) (err error) {
	r.ahead -= s.overhead()
	if s.peer == "" {
		return r.steps(ctx, s, nil)
	}
	if err := r.missing[s.peer]; err != nil {
		return r.giveUp(s, err)
	}
	options := r.peers
	if s.wait > 0 {
		options.SebFlags = []string{"--batch-wait-time=" + s.wait.String()}
	}
	up, err := peers.Up(ctx, options, s.peer)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return r.giveUp(s, err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
		defer cancel()
		err = errors.Join(err, peers.Down(ctx, r.peers, s.peer))
	}()
	return r.steps(ctx, s, &up[0])
}

// giveUp records that no run of a session can be done.
func (r *runner) giveUp(s *session, why error) error {
	for i := range s.steps {
		r.number++
		r.ahead -= s.steps[i].estimate()
		if err := r.fail(&s.steps[i], why); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) fail(step *Step, why error) error {
	text := strings.ReplaceAll(why.Error(), "\n", "; ")
	r.failures = append(r.failures, step.System.label+", "+step.Workload.Name+": "+text)
	r.say("[%d/%d] %s, %s: NOT MEASURED: %s", r.number, r.total, step.System.label, step.Workload.Name, text)
	return r.store.write(step, &result.File{Tool: r.o.Tool, Failures: []result.Failure{{Label: step.System.label, Workload: step.Workload, Error: text}}})
}

// steps performs the runs of a session.
func (r *runner) steps(ctx context.Context, s *session, p *peers.Peer) error {
	if p != nil && s.primed() {
		if err := r.prime(ctx, &s.steps[0], p); err != nil {
			return r.giveUp(s, err)
		}
	}
	for i := range s.steps {
		step := &s.steps[i]
		r.number++
		run, err := r.measure(ctx, step.Workload, step, p)
		r.ahead -= step.estimate()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			if err := r.fail(step, err); err != nil {
				return err
			}
			continue
		}
		run.Repeat = step.Repeat
		if err := r.store.write(step, &result.File{Tool: r.o.Tool, Runs: []result.Run{*run}}); err != nil {
			return err
		}
		r.say("[%d/%d, %v left] %s, %s, run %d: %s", r.number, r.total, r.left(), step.System.label, step.Workload.Name, step.Repeat, line(run))
	}
	return nil
}

// left estimates the remaining time from the time so far.
func (r *runner) left() time.Duration {
	guessed, spent := r.estimateOf-r.ahead, time.Since(r.began)
	if guessed <= 0 {
		return r.ahead.Round(time.Second)
	}
	return time.Duration(float64(r.ahead) * float64(spent) / float64(guessed)).Round(time.Second)
}

// prime puts some load on a broker that has just started, so that the first run does not measure
// compilation and initial allocations. It discards the result.
func (r *runner) prime(ctx context.Context, step *Step, p *peers.Peer) error {
	w := step.Workload
	w.Warmup, w.Duration, w.Faults = 0, workload.Duration(primeFor), nil
	_, err := r.measure(ctx, w, step, p)
	return err
}

// measure performs a run.
func (r *runner) measure(ctx context.Context, w workload.Workload, step *Step, p *peers.Peer) (*result.Run, error) {
	o := load.Options{Workload: w, Clock: r.o.Clock, Spin: r.o.Spin, Target: workload.Target{Label: step.System.label, Driver: step.System.driver}}
	if p != nil {
		target, err := targetOf(step, p)
		if err != nil {
			return nil, err
		}
		o.Target = target
	}
	if r.o.Live != nil {
		o.Progress = func(now load.Progress) {
			now.Label = fmt.Sprintf("%d/%d, %v left: %s, %s", r.number, r.total, r.left(), step.System.label, step.Workload.Name)
			r.o.Live(now)
		}
		defer r.o.LiveDone()
	}
	if step.Delay > 0 {
		stop, err := machine.DelayFlushes(ctx, p.PID, step.Delay)
		if err != nil {
			return nil, err
		}
		defer stop()
	}
	return load.Run(ctx, o)
}

// targetOf returns a step's target at a peer.
func targetOf(step *Step, p *peers.Peer) (workload.Target, error) {
	i := slices.IndexFunc(p.Targets, func(t peers.Target) bool { return t.Driver == step.System.driver })
	if i < 0 {
		return workload.Target{}, fmt.Errorf("%s has no target for the driver %s", p.Name, step.System.driver)
	}
	t := workload.Target{
		Label: step.System.label, Driver: p.Targets[i].Driver, Address: p.Targets[i].Address, PID: p.PID, Data: p.Dir,
		Options: maps.Clone(p.Targets[i].Options),
	}
	var commands []string
	for _, one := range p.Processes {
		commands = append(commands, one.Command)
	}
	t.Start = strings.Join(commands, "; ")
	if t.Options == nil {
		t.Options = map[string]string{}
	}
	switch t.Driver {
	case "nats-jetstream", "redis-streams":
		if step.Workload.Topics > 1 {
			// Many streams of the default size do not fit.
			t.Options["keep-bytes"] = strconv.Itoa(largeStream)
		}
	case "seb":
		inflight, pace := requestsOf(step)
		t.Options["inflight"], t.Options["pace"] = strconv.Itoa(inflight), pace.String()
		t.Options["follow"] = followOf(step, pace)
	}
	return t, nil
}

// requestsOf returns how many requests a publisher of Seb has in flight, and their interval. Without a
// batch wait it sends the next messages when the answer is there, as the clients of other brokers do.
// With one, five requests are spread over a request's duration.
func requestsOf(step *Step) (inflight int, pace time.Duration) {
	wait := step.System.wait
	switch {
	case strings.HasPrefix(step.System.peer, "seb-s3"):
		wait = cmp.Or(wait, waitS3)
	case step.System.peer == "seb-memory":
		wait = cmp.Or(wait, waitMemory)
	case wait == 0:
		return 1, 0
	}
	return 5, max(paceLeast, wait/5+time.Millisecond)
}

// followOf returns how subscribers of Seb receive messages. Without a batch wait an answer to a poll has
// few messages, so the requests take most of the time. A stream of events needs none, but its JSON costs
// more than a request if the messages are large.
func followOf(step *Step, pace time.Duration) string {
	if pace == 0 && step.Workload.Size.Max() <= eventMax {
		return "sse"
	}
	return "poll"
}

// eventMax is the size of messages up to which events are faster.
const eventMax = 4 << 10

// Seb's default batch waits on S3 and in memory, and the shortest interval at which its requests rarely overtake
// each other.
const (
	waitS3     = 250 * time.Millisecond
	waitMemory = 5 * time.Millisecond
	paceLeast  = 2 * time.Millisecond
)

// line describes a run in a line.
func line(run *result.Run) string {
	name, curve := run.Curves.Headline()
	cells := []string{name}
	for _, p := range []float64{50, 99, 99.9} {
		if d, ok := curve.At(p); ok {
			cells = append(cells, fmt.Sprintf("p%v %s", p, result.Time(float64(d))))
		}
	}
	cells = append(cells, "max "+result.Time(float64(curve.MaxNs)))
	counted := *run
	counted.Validity.Valid = true // invalid results are reported below with the reason
	if faults := (&report.Line{Runs: []*result.Run{&counted}}).Faults(); len(faults) > 0 {
		cells = append(cells, strings.Join(faults, ", "))
	}
	if !run.Validity.Valid {
		cells = append(cells, "INVALID: "+strings.Join(run.Validity.Reasons, "; "))
	}
	for _, f := range run.Faults {
		if f.Error != "" {
			cells = append(cells, "fault: "+f.Error)
		}
	}
	return strings.Join(cells, "  ")
}

// Remove removes the plan's results, so that Run measures it again.
func (p *Plan) Remove(results string) error {
	s := store{filepath.Join(results, p.Name())}
	var faults []error
	for _, step := range p.Steps() {
		if err := os.Remove(s.path(&step)); err != nil && !errors.Is(err, os.ErrNotExist) {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// store is the folder of a campaign's results, a file for each step.
type store struct{ dir string }

func (s store) path(step *Step) string { return filepath.Join(s.dir, step.name()+".json") }

// read returns the result of a step; nil if there is none for its workload.
func (s store) read(step *Step) (*result.File, error) {
	f, err := result.Read(s.path(step))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, result.ErrSchema) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for i := range f.Runs {
		if report.Key(&f.Runs[i].Workload) != report.Key(&step.Workload) {
			return nil, nil
		}
	}
	return f, nil
}

// done reports whether a step was measured.
func (s store) done(step *Step) (bool, error) {
	f, err := s.read(step)
	return f != nil && len(f.Runs) > 0, err
}

func (s store) write(step *Step, f *result.File) error {
	path := s.path(step)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return f.Write(path)
}

// all merges the existing results of a part's steps.
func (s store) all(steps []Step, part string) (*result.File, error) {
	sum := &result.File{}
	for i := range steps {
		if steps[i].Part != part {
			continue
		}
		f, err := s.read(&steps[i])
		if err != nil {
			return nil, err
		}
		if f == nil {
			continue
		}
		sum.Tool = f.Tool
		sum.Runs = append(sum.Runs, f.Runs...)
		sum.Failures = append(sum.Failures, f.Failures...)
	}
	return sum, nil
}

// errBusy means that another process uses the folder.
var errBusy = errors.New("another campaign is running")

// lock keeps other campaigns from starting and stopping brokers. The caller closes the result.
func lock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), errBusy), f.Close())
	}
	return f, nil
}
