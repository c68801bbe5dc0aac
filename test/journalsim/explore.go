package journalsim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sebbroker/seb/internal/engine/objstore/journal"
)

// Config is one run, drawn from its seed.
type Config struct {
	Seed      uint64
	Steps     int // of the world, with faults
	Processes int
	InFlight  int // objects that a leader puts at the same time
	Slots     int // mean number of slots of an epoch
	Journal   journal.Options
	Large     int // size from which an object is a file of its own
	BodyMax   int
	Cuts      int // most parts of a write or read that others can see
	Stick     int // percent of steps that the same process takes next

	// Mean numbers of steps between events; 0: never.
	Pause, Kill, Power, Full, Evict, Solo int
	// Probabilities in 10,000 of a call.
	SyncErrors, FolderErrors, WriteErrors, ReadErrors int
	// Images: the images of one in so many changes of the disk are checked. Flips: bits that are
	// flipped at the end.
	Images, Flips int
	// Percent of the steps of a role.
	Deletes, Far, Rivals, Plain, Closes int
	// Collect: every process has a task that only deletes.
	Collect bool
	// Medium: the file system can read past the page cache. Without it sync errors are not drawn.
	Medium bool
	// Disturb, unless it is nil, is called by each goroutine that goes on. It may take any time: a
	// run is the same.
	Disturb func()
}

func (c *Config) disturb() {
	if c.Disturb != nil {
		c.Disturb()
	}
}

// Draw returns the run of a seed.
func Draw(seed uint64) Config {
	r := rand.New(rand.NewPCG(seed, 0))
	one := func(of ...int) int { return of[r.IntN(len(of))] }
	c := Config{
		Seed: seed, Steps: 1500 + r.IntN(3000), Processes: 2 + r.IntN(3), InFlight: 1 + r.IntN(4), Slots: one(3, 10, 40, 40),
		BodyMax: one(100, 3000, 14000), Cuts: one(0, 1, 3), Stick: one(0, 50, 80, 95),
		Pause: one(0, 100, 400), Kill: one(0, 400, 1500), Power: one(0, 500, 2000), Full: one(0, 0, 500), Evict: one(0, 100), Solo: one(0, 300),
		Deletes: one(0, 5, 20), Far: one(0, 0, 3, 10), Rivals: one(0, 20), Plain: one(0, 0, 10), Closes: one(0, 30, 70),
		Medium: r.IntN(10) > 0, Flips: 4, Collect: r.IntN(4) == 0,
	}
	if c.BodyMax > 3000 || r.IntN(3) == 0 {
		c.Large = one(6<<10, 12<<10)
		c.Journal = journal.Options{
			FirstBytes: int64(one(8, 16, 32)) * journal.BlockBytes, FileBytes: int64(one(16, 32)) * journal.BlockBytes,
			GroupBytes: int64(one(1, 3, 12)) << 10,
		}
	} else { // files of few batches
		c.Large = one(2<<10, 6<<10)
		c.Journal = journal.Options{FirstBytes: 4 * journal.BlockBytes, FileBytes: int64(one(4, 8)) * journal.BlockBytes, GroupBytes: int64(one(1, 3)) << 10}
	}
	if c.Medium {
		c.SyncErrors = one(0, 0, 50, 200)
	}
	c.FolderErrors, c.WriteErrors, c.ReadErrors = one(0, 0, 0, 30), one(0, 0, 0, 50), one(0, 0, 0, 50)
	return c
}

// Stats count what runs did.
type Stats struct {
	Runs, Steps, Processes, Claims, Acks, Late, Exists, Refused, Deletes   int
	Gets, Lists, Pauses, Kills, PowerFailures, Solos, Evictions            int
	SyncErrors, FolderErrors, WriteErrors, ReadErrors, Full, Images, Flips int
	Truncates                                                              int
}

// Add adds the counts of other runs.
func (s *Stats) Add(o Stats) {
	to, from := reflect.ValueOf(s).Elem(), reflect.ValueOf(o)
	for i := range from.NumField() {
		to.Field(i).SetInt(to.Field(i).Int() + from.Field(i).Int())
	}
}

// Result is the outcome of a run.
type Result struct {
	Config Config
	Stats  Stats
	Hash   uint64 // of the trace
	Err    error  // the first violation
}

// Run performs one run. It writes each step to trace unless that is nil.
func Run(t *testing.T, cfg Config, trace io.Writer) (res Result) {
	synctest.Test(t, func(*testing.T) {
		w := newWorld(cfg, trace)
		w.explore()
		w.stats.Runs, w.stats.Steps = 1, w.now
		res = Result{Config: cfg, Stats: w.stats, Hash: w.hash, Err: w.err}
	})
	return res
}

// explore lets processes work with faults, and then checks that everything is there.
func (w *World) explore() {
	w.events = []event{
		{every: w.cfg.Pause, do: w.pauseOne},
		{every: w.cfg.Kill, do: w.killOne},
		{every: w.cfg.Power, do: w.power},
		{every: w.cfg.Full, do: func() { w.disk.full = !w.disk.full; w.tracef("- full: %v", w.disk.full) }},
		{every: w.cfg.Evict, do: w.evictOne},
		{every: 50, do: w.populate},
	}
	w.populate()
	w.spin(func() bool { return w.now >= w.cfg.Steps })
	w.finale()
	for _, p := range w.living() {
		w.kill(p)
	}
	w.settle()
}

// finale: the processes end, or the power fails. Then one process after the other reads all names.
func (w *World) finale() {
	w.calm, w.solo, w.disk.full = true, nil, false
	w.flips(w.cfg.Flips)
	end := w.sched.IntN(3)
	if w.disk.down {
		end = 0
	}
	for _, p := range append([]*Process(nil), w.living()...) {
		if end == 1 {
			w.tracef("%d ends", p.id)
		}
		p.paused = 0
		w.kill(p)
	}
	if end == 0 {
		w.powerFailure(newDrawn(w.draw))
	}
	for round := range 2 {
		if w.err != nil {
			return
		}
		p := w.start()
		p.task("verify", func() {
			for e := 1; e <= w.epochs && !p.dead; e++ {
				p.verify(epoch(e), round == 1)
			}
		})
		w.spin(func() bool { return false })
		w.kill(p)
	}
}

// populate starts processes until there are enough.
func (w *World) populate() {
	for len(w.living()) < w.cfg.Processes {
		p := w.start()
		p.task("lead", p.broker)
		p.task("read", p.reader)
		if w.cfg.Collect {
			p.task("collect", p.collector)
		}
	}
}

func (w *World) start() *Process {
	w.stats.Processes++
	p := &Process{w: w, id: w.stats.Processes, made: map[string]bool{}, mediumless: !w.cfg.Medium}
	p.store = newStore(p)
	w.processes = append(w.processes, p)
	w.tracef("%d starts", p.id)
	return p
}

func (w *World) pauseOne() {
	if all := w.living(); len(all) > 0 {
		p := all[w.sched.IntN(len(all))]
		for range 2 { // rather one that is at work
			if p != w.last {
				p = all[w.sched.IntN(len(all))]
			}
		}
		if w.solo != nil && w.solo.p == p {
			return
		}
		w.stats.Pauses++
		p.paused = w.now + 1 + w.sched.IntN(20) + w.sched.IntN(2)*w.sched.IntN(w.cfg.Steps)
		w.tracef("%d is stopped until %d", p.id, p.paused)
	}
}

func (w *World) killOne() {
	if all := w.living(); len(all) > 0 {
		w.stats.Kills++
		w.kill(all[w.sched.IntN(len(all))])
	}
}

func (w *World) power() { w.powerFailure(newDrawn(w.draw)) }

func (w *World) evictOne() {
	w.stats.Evictions++
	w.disk.files(func(_ string, n *inode) {
		if w.chance(50) {
			n.evict()
		}
	})
}

// stacks returns the stacks of all goroutines.
func stacks() string {
	b := make([]byte, 1<<20)
	return strings.TrimSpace(string(b[:runtime.Stack(b, true)]))
}

func epoch(e int) string { return fmt.Sprintf("log/%d", e) }

func slot(n int) string { return fmt.Sprintf("%06d", n) }
