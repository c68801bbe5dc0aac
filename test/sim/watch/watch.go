package watch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/record"
)

// Config is the shape of what triggers are about in a run. It is drawn before anything runs.
type Config struct {
	Triggers   int           // how many names triggers have; 0: there are none, nor events
	Entities   int           // that have events at a time
	EventEvery time.Duration // mean time between events that do not follow from others
	PutEvery   time.Duration // a trigger is made or changed
	PauseEvery time.Duration // or paused, or goes on
	QuietEvery time.Duration // no events come for a while; zero is off
	// RemoveEvery: the topic of events is deleted by force, and created again; zero is off. What engines then know of events that
	// are gone depends on their files, so there must be one broker, which keeps its file.
	RemoveEvery time.Duration
	StallEvery  time.Duration // an engine stands still for a while, beside a broker that does not; zero is off

	LoseView, OldView    float64 // at a start, the file is gone, or is an old copy
	LostAnswer, Refused  float64 // of the receiver: it has taken a message, or not, and the broker does not know
	ReadBytes, Dues, Out int     // sizes of the engine
}

// Draw draws one.
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

// World is the simulation around it.
type World interface {
	Now() int64                      // ns
	After(d time.Duration, f func()) // runs f after a time
	Fail(format string, args ...any) // notes a violation, which ends the run
	Logf(format string, args ...any) // adds a line to the trace
	Calm() bool                      // there are no faults any more
	// Leader is some broker that believes that it leads, and is not paused; nil if there is none now.
	Leader() *Broker
}

// Host is one run of a broker, as its engine sees it.
type Host interface {
	Name() string // of the broker
	// State is what the broker knows to be committed. It is not kept.
	State() *state.State
	Leads() bool     // as far as it knows
	Wall() time.Time // by its clock
	// Do runs f in the process: later if it is paused, never if it is dead.
	Do(f func())
	// Append appends, and calls done with the offset of the first record, or false if it is not known to be there.
	Append(topic string, part uint32, recs []record.Record, done func(base int64, ok bool))
	// Create makes a topic, and calls done with whether it is known to be there.
	Create(topic string, parts int, settings map[string]string, done func(ok bool))
	// Change changes a topic, or deletes it, and calls done with whether that is known to be so. The record gets its id.
	Change(topic string, rec *state.Record, done func(ok bool))
	// Get reads an object, with all that may go wrong; nil: it was not found.
	Get(key string, done func(body []byte))
	// Cached reads it as from a disk; nil: it is not there.
	Cached(key string) []byte
}

// Counts are what a run did.
type Counts struct {
	Events, Puts, Quiet, Removed, Stalls, LostViews, OldViews, Firings, Messages, Again, Checked, Edges int
}

// Sim is what triggers are about in one run.
type Sim struct {
	Counts Counts

	cfg      Config
	w        World
	r        *rand.Rand
	dir      string
	truth    *truth
	receiver receiver
	posted   int
	entities int             // that were begun
	quiet    int64           // until when no events are posted, ns
	late     int             // triggers that were put while it was quiet
	again    *again          // nil: the topic of events is to stay
	flying   map[*Broker]int // appends of events without an answer
	closed   int             // and those whose window was to end with an event
}

// New begins a run. It is to be closed.
func New(cfg Config, w World, r *rand.Rand) (*Sim, error) {
	dir, err := os.MkdirTemp(memory(), "seb-sim-")
	if err != nil {
		return nil, err
	}
	s := &Sim{cfg: cfg, w: w, r: r, dir: dir, flying: map[*Broker]int{}}
	s.truth = newTruth(s)
	s.receiver.taken = map[string]int{}
	s.clients()
	return s, nil
}

// memory is a folder in memory, if there is one.
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

// Owns is whether a topic is one of events, triggers or firings: records there may be the same.
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

// view prepares a broker's file before it starts: it may be gone, or an old copy.
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
			return fmt.Errorf("take a view away: %w", err)
		}
	}
	return nil
}
