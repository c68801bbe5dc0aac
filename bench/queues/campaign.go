package queues

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sebbroker/seb/bench/machine"
	"github.com/sebbroker/seb/bench/peers"
)

// Options describe a comparison.
type Options struct {
	Rounds  int
	Time    time.Duration // measured time of each run
	Only    []string      // parts of labels; nil: all systems
	Fresh   bool          // measure again what the file has
	File    string        // of the results
	Peers   peers.Options
	Version string // of the source
	Out     io.Writer
}

// File has the results of a comparison.
type File struct {
	Machine machine.Detail `json:"machine"`
	Runs    []Run          `json:"runs"`
	Flushes []Flush        `json:"flushes"`
}

// Run is a run of a system.
type Run struct {
	System  string    `json:"system"`
	Round   int       `json:"round"`
	Version string    `json:"version"`
	Began   time.Time `json:"began"`
	Load
	Figures
	Error string `json:"error,omitempty"`
}

// Flush is the median time of a send, as it is and with slow flushes.
type Flush struct {
	System      string        `json:"system"`
	Plain, Slow time.Duration // nanoseconds
}

const (
	rate       = 1000 // messages a second, for latencies
	warmup     = 2 * time.Second
	primeTime  = 3 * time.Second // of a load that warms up a broker
	flushDelay = 20 * time.Millisecond
	flushSends = 21
	stopWait   = time.Minute
)

var batches = []int{1, 10}

// loads are the loads of a round.
func loads(measured time.Duration) (list []Load) {
	for _, r := range []int{0, rate} {
		for _, b := range batches {
			list = append(list, Load{b, r, warmup, measured})
		}
	}
	return list
}

// comparison is a running comparison.
type comparison struct {
	Options
	file File
	runs int // so far, for the names of queues
}

// Compare measures what the file of results lacks.
func Compare(ctx context.Context, o Options) (*File, error) {
	c := &comparison{Options: o}
	file, err := Read(o.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		c.file = *file
	}
	c.file.Machine = machine.HereInDetail()
	list := c.chosen()
	if o.Fresh {
		chosen := func(name string) bool {
			return slices.ContainsFunc(list, func(s *system) bool { return s.label == name })
		}
		c.file.Runs = slices.DeleteFunc(c.file.Runs, func(r Run) bool { return chosen(r.System) })
		c.file.Flushes = slices.DeleteFunc(c.file.Flushes, func(f Flush) bool { return chosen(f.System) })
	}
	for n := 1; n <= o.Rounds; n++ {
		first := (n - 1) * len(list) / o.Rounds // every round starts with another system
		for _, s := range slices.Concat(list[first:], list[:first]) {
			if err := c.session(ctx, s, n); err != nil {
				return nil, err
			}
		}
	}
	return &c.file, nil
}

// Read reads a file of results.
func Read(name string) (*File, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	f := &File{}
	return f, json.Unmarshal(text, f)
}

func (c *comparison) chosen() (list []*system) {
	for i := range systems {
		if len(c.Only) == 0 || slices.ContainsFunc(c.Only, func(part string) bool {
			return strings.Contains(strings.ToLower(systems[i].label), strings.ToLower(strings.TrimSpace(part)))
		}) {
			list = append(list, &systems[i])
		}
	}
	return list
}

func (c *comparison) save() error {
	text, err := json.MarshalIndent(&c.file, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(c.File, append(text, '\n'), 0o644)
}

func (c *comparison) say(format string, args ...any) {
	_, _ = fmt.Fprintf(c.Out, format+"\n", args...) // progress is best effort
}

// session starts a system's server, measures what is missing of a round, and stops it.
func (c *comparison) session(ctx context.Context, s *system, round int) (err error) {
	todo := slices.DeleteFunc(loads(c.Time), func(l Load) bool {
		return slices.ContainsFunc(c.file.Runs, func(r Run) bool { return r.System == s.label && r.Round == round && r.Load == l && r.Error == "" })
	})
	if len(todo) == 0 {
		return nil
	}
	up, err := peers.Up(ctx, c.Peers, s.peer)
	if err != nil {
		return err
	}
	c.Peers.Installed = true
	p := &up[0]
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
		defer cancel()
		err = errors.Join(err, peers.Down(ctx, c.Peers, s.peer))
		c.Peers.Installed = false // of another system
	}()
	if _, err := c.run(ctx, s, p, Load{Batch: 10, Time: primeTime}); err != nil {
		c.say("%s: %v", s.label, err)
	}
	for _, l := range todo {
		began := time.Now().UTC()
		f, err := c.run(ctx, s, p, l)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r := Run{System: s.label, Round: round, Version: c.Version, Began: began, Load: l, Figures: f}
		if err != nil {
			r.Error = err.Error()
		}
		c.file.Runs = slices.DeleteFunc(c.file.Runs, func(old Run) bool { return old.System == s.label && old.Round == round && old.Load == l })
		c.file.Runs = append(c.file.Runs, r)
		c.say("round %d, %s, batch %d, rate %d: %s", round, s.label, l.Batch, l.Rate, r.line())
		if err := c.save(); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(c.file.Flushes, func(f Flush) bool { return f.System == s.label }) {
		return nil
	}
	return c.flush(ctx, s, p)
}

// line describes a run.
func (r *Run) line() string {
	text := fmt.Sprintf("%.0f/s, server %.1f µs, clients %.1f µs, p50 %v, p99 %v, %d sent, %d lost, %d again, load %.1f", r.PerSecond, r.ServerCPU, r.ClientCPU, r.Times["p50"], r.Times["p99"],
		r.Sent, r.Lost, r.Again, r.LoadBefore)
	if r.Error != "" {
		text += ": " + r.Error
	}
	return text
}

// config returns the configuration of the next run.
func (c *comparison) config(p *peers.Peer, batch int) *Config {
	c.runs++
	return &Config{Name: fmt.Sprintf("jobs-%d", c.runs), Batch: batch, Workers: workers, Senders: senders, Peer: p, Cache: cmp.Or(c.Peers.Cache, ".cache")}
}

func (c *comparison) run(ctx context.Context, s *system, p *peers.Peer, l Load) (Figures, error) {
	client, err := s.open(ctx, c.config(p, l.Batch))
	if err != nil {
		if client != nil {
			err = errors.Join(err, client.Close())
		}
		return Figures{}, err
	}
	return Measure(ctx, client, l, p.PID)
}

// flush measures sends with and without slow flushes.
func (c *comparison) flush(ctx context.Context, s *system, p *peers.Peer) error {
	f := Flush{System: s.label}
	for _, to := range []*time.Duration{&f.Plain, &f.Slow} {
		var took []time.Duration
		err := func() error {
			if to == &f.Slow {
				stop, err := machine.DelayFlushes(ctx, p.PID, flushDelay)
				if err != nil {
					return err
				}
				defer stop()
			}
			client, err := s.open(ctx, c.config(p, 1)) // PostgreSQL starts a process for each connection
			if err != nil {
				return err
			}
			sender, err := client.Sender(ctx)
			fill := filler(newRandom(0))
			for i := 0; i < flushSends && err == nil; i++ {
				began := time.Now()
				err = sender.Send(ctx, [][]byte{encode(0, i, Now(), fill)})
				took = append(took, time.Since(began))
			}
			return errors.Join(err, client.Close())
		}()
		if err != nil {
			c.say("%s: test of the flush: %v", s.label, err)
			return nil
		}
		slices.Sort(took)
		*to = took[len(took)/2]
	}
	c.say("%s: a send takes %v, with flushes that are %v slower %v", s.label, f.Plain, flushDelay, f.Slow)
	c.file.Flushes = append(c.file.Flushes, f)
	return c.save()
}
