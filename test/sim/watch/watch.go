package watch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// Config configures the triggers of a run, drawn before the run.
type Config struct {
	Triggers   int           // number of triggers' names; 0: neither triggers nor events
	Entities   int           // with events at the same time
	EventEvery time.Duration // mean time between independent events
	PutEvery   time.Duration // a trigger is created or changed
	PauseEvery time.Duration // a trigger is paused or resumed
	QuietEvery time.Duration // events stop for a while; zero is off
	// RemoveEvery is the interval of deletions by force of the topic of events, followed by its
	// recreation; zero is off. What engines then know about deleted events depends on their files,
	// so there must be one broker, which keeps its file.
	RemoveEvery time.Duration
	StallEvery  time.Duration // an engine stalls while its broker continues; zero is off

	LoseView, OldView float64 // probabilities at a start: the file is missing, or is an old copy
	// Of the receiver: it has received a message, or not, and the broker does not know.
	LostAnswer, Refused  float64
	ReadBytes, Dues, Out int // sizes of the engine
}

// Draw draws a configuration.
func Draw(r *rand.Rand) Config {
	some := func(d ...time.Duration) time.Duration {
		v := d[r.IntN(len(d))]
		if r.IntN(2) == 0 {
			return 0
		}
		return v
	}
	rate := func(top float64) float64 {
		v := r.Float64() * top
		if r.IntN(2) == 0 {
			return 0
		}
		return v
	}
	c := Config{
		Triggers: 2 + r.IntN(5), Entities: 2 + r.IntN(6),
		EventEvery: []time.Duration{2 * time.Hour, 4 * time.Hour, 8 * time.Hour}[r.IntN(3)],
		PutEvery:   []time.Duration{12 * time.Hour, 2 * 24 * time.Hour, 6 * 24 * time.Hour}[r.IntN(3)],
		PauseEvery: some(24*time.Hour, 5*24*time.Hour), StallEvery: some(24*time.Hour, 4*24*time.Hour),
		LoseView: rate(0.5), OldView: rate(0.5), LostAnswer: rate(0.3), Refused: rate(0.3),
		ReadBytes: []int{500, 5000, 60_000}[r.IntN(3)], Dues: []int{2, 100}[r.IntN(2)], Out: []int{3, 100}[r.IntN(2)],
	}
	c.QuietEvery = some(3*24*time.Hour, 8*24*time.Hour)
	if r.IntN(3) == 0 {
		c.RemoveEvery = []time.Duration{4 * 24 * time.Hour, 10 * 24 * time.Hour}[r.IntN(2)]
		c.LoseView, c.OldView = 0, 0
	}
	return c
}

// Simulation is the simulation that the triggers are part of.
type Simulation interface {
	Now() int64                      // ns
	After(d time.Duration, f func()) // runs f after a time
	Fail(format string, args ...any) // records a violation, which ends the run
	Logf(format string, args ...any) // adds a line to the trace
	Calm() bool                      // there are no more faults
	// Leader returns a broker that believes that it leads and is not paused; nil if there is none.
	Leader() *Broker
}

// Host is one run of a broker, as its engine uses it.
type Host interface {
	Name() string // of the broker
	// State returns the committed state that the broker knows. The caller does not keep it.
	State() *state.State
	Leads() bool     // as far as it knows
	Wall() time.Time // its clock
	// Do runs f in the process: later if it is paused, never if it is dead.
	Do(f func())
	// Append appends records and calls done with the offset of the first one, or false if the
	// outcome is unknown.
	Append(topic string, part uint32, recs []record.Record, done func(base int64, ok bool))
	// Create creates a topic and calls done with whether it is known to exist.
	Create(topic string, parts int, settings map[string]string, done func(ok bool))
	// Change changes or deletes a topic and calls done with whether that is known to be done. It
	// sets the record's ID.
	Change(topic string, rec *state.Record, done func(ok bool))
	// Get reads an object, with all possible faults; nil: not found.
	Get(key string, done func(body []byte))
	// Cached reads an object as from a disk; nil: missing.
	Cached(key string) []byte
}

// Counts are the counts of a run.
type Counts struct {
	Events, Puts, Quiet, Removed, Stalls, LostViews, OldViews, Firings, Messages, Again, Checked, Edges int
}

// Sim is the triggers of one run.
type Sim struct {
	Counts Counts

	cfg        Config
	w          Simulation
	r          *rand.Rand
	dir        string
	truth      *truth
	receiver   receiver
	posted     int
	entities   int             // that have had events
	quiet      int64           // end of the pause in events, ns
	late       int             // triggers put during a pause in events
	recreating *recreation     // nil: the topic of events is not being recreated
	inflight   map[*Broker]int // unanswered appends of events
	closed     int             // entities whose window ends with an event
}

// New starts the triggers of a run. The caller calls Close.
func New(cfg Config, w Simulation, r *rand.Rand) (*Sim, error) {
	dir, err := os.MkdirTemp(memory(), "seb-sim-")
	if err != nil {
		return nil, err
	}
	s := &Sim{cfg: cfg, w: w, r: r, dir: dir, inflight: map[*Broker]int{}}
	s.truth = newTruth(s)
	s.receiver.received = map[string]int{}
	s.clients()
	return s, nil
}

// memory returns a folder in memory, if there is one.
func memory() string {
	const dir = "/dev/shm"
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return dir
	}
	return ""
}

// Close deletes the files. All brokers must have ended.
func (s *Sim) Close() error { return os.RemoveAll(s.dir) }

// The names of topics.
const (
	topicTriggers = "triggers"
	topicFirings  = "firings"
	topicEvents   = "events"
	eventParts    = 2
)

// Owns reports whether a topic is that of events, triggers or firings, in which records may repeat.
func (s *Sim) Owns(topic string) bool {
	return s != nil && (topic == topicTriggers || topic == topicFirings || topic == topicEvents)
}

func (s *Sim) path(host string) string { return filepath.Join(s.dir, host+".db") }

func (s *Sim) upTo(d time.Duration) time.Duration { return time.Duration(s.r.Int64N(int64(d) + 1)) }

// around draws a time with a mean.
func (s *Sim) around(mean time.Duration) time.Duration {
	return time.Duration(s.r.ExpFloat64()*float64(mean)) + 1
}

func (s *Sim) chance(p float64) bool { return !s.w.Calm() && p > 0 && s.r.Float64() < p }

// view prepares a broker's file before it starts: it may be missing, or an old copy.
func (s *Sim) view(path string) error {
	old := path + ".old"
	switch {
	case s.chance(s.cfg.LoseView):
		s.Counts.LostViews++
		return remove(path)
	case s.chance(s.cfg.OldView):
		b, err := os.ReadFile(old)
		if errors.Is(err, os.ErrNotExist) {
			b, err = os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(old, b, 0o600)
			}
			if errors.Is(err, os.ErrNotExist) {
				return nil
			}
			return err
		}
		if err != nil {
			return err
		}
		s.Counts.OldViews++
		if s.r.IntN(3) == 0 {
			if err := os.Remove(old); err != nil {
				return err
			}
		}
		if err := remove(path); err != nil {
			return err
		}
		return os.WriteFile(path, b, 0o600)
	}
	return nil
}

func remove(path string) error {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove trigger database: %w", err)
		}
	}
	return nil
}
