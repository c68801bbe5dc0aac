package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/sebbroker/seb/test/sim/watch"
)

// Config is one run's configuration, drawn from the seed before the run.
type Config struct {
	Seed      uint64
	Chaos     time.Duration // virtual time with faults
	Calm      time.Duration // virtual time without faults, in which everything must finish
	Nodes     int           // brokers that compete to lead
	Followers int           // read-only brokers
	Topics    int
	Compacted int // of Topics
	Stamped   int // of Topics: timestamp-type=LogAppendTime
	Parts     int // partitions of each topic
	Producers int
	Pipeline  int           // a producer's appends in flight
	Think     time.Duration // mean time between a producer's appends
	BatchWait time.Duration
	Latency   time.Duration // mean of a store request, half before and half after its effect

	Window        int
	SnapshotSlots int

	// Probabilities for a store request, and mean times between events; zero is off.
	FailBefore, FailAfter, Late, Conflict, Damage float64
	RefuseEvery, CrashEvery, PauseEvery           time.Duration
	// Broker and store are disconnected in one or both directions.
	CutEvery time.Duration
	// Largest error of a broker's wall clock.
	ClockSkew  time.Duration
	ClockEvery time.Duration // clock changes, including backward
	// Changes of a topic's timestamp-type.
	RetypeEvery time.Duration
	// Clocks means that brokers check their clocks (rule R15), which are up to decades off.
	// Otherwise any clock is right.
	Clocks bool
	// DatesFrom, with Clocks, is when the bucket moves from a folder to a store that reports the
	// time.
	DatesFrom time.Duration
	// ClockRate, with Clocks, bounds the drift of a machine's clocks, parts in a million.
	ClockRate int64
	// Ghosts is how long a LIST may still return deleted names.
	Ghosts time.Duration
	// HideLists is how long a LIST may omit new names. A store must not do that (rule R10), so it
	// is never drawn.
	HideLists     time.Duration
	Restart       time.Duration // mean time until a dead or fenced broker restarts
	ClientTimeout time.Duration

	GarbageWait time.Duration // of the core
	Journals    bool          // the store can keep the commit objects of an epoch in a journal

	// StandEvery, if not zero, makes a fenced broker follow the log in the same process, and is the
	// mean time until it stands against the epoch in which it is.
	StandEvery time.Duration
	// YieldEvery, if not zero, is the mean time until a leader steps down, parks or shows life.
	YieldEvery time.Duration

	// Feed, with StandEvery, lets a leader feed its commits to the other brokers. FeedEarly lets it
	// also feed slots that are not committed, as a faulty leader does. Join lets brokers follow from
	// their start, so that none makes the log before it stands. With Heard no follower polls: it
	// depends on what its leader tells it.
	Feed, FeedEarly, Join, Heard bool

	Cluster ClusterConfig

	Atomics int // clients that send atomic requests

	Transactions int // transactional producers

	Senders    int // Riemann clients
	EventParts int // partitions of the topic of their events

	// LoseAt, if not zero, is when a part of the bucket is lost permanently: one object, or with
	// CopyAt all changes since then, because an operator stops the brokers and restores an older
	// copy.
	LoseAt, CopyAt time.Duration
	Folderless     float64 // probability that a broker has no data directory
	// Cached: brokers with a data directory keep copies of the slots that they have read or written, and
	// read them instead of the objects.
	Cached bool
	// Scrub is the time between comparisons of the bucket with the state of a leader; 0: an hour.
	Scrub time.Duration
	// Together, if not zero, is the interval at which all brokers are killed and start at the same
	// time.
	Together time.Duration

	// Slow makes events of brokers and clients that many times rarer and longer than in a usual
	// run: pauses, cuts, packs, readers; 0 means 1. It is set in runs that take a month and have
	// triggers.
	Slow  int64
	Watch watch.Config
}

// The first seeds of other kinds of runs.
const (
	Starts   = 1 << 60        // brokers start at the same time
	Clocks   = 1 << 61        // wrong clocks
	Losses   = 1 << 62        // an object is lost, or an older copy of the bucket is restored
	Copies   = Losses + 1<<32 // the same, and some brokers have copies of slots
	Standbys = 3 << 61        // fenced brokers follow and stand again
	Months   = 1 << 63        // a month with triggers
	Clusters = 5 << 61        // brokers decide by cluster.Core who leads
	Riemann  = 3 << 62        // Riemann clients
)

// Tested is the number of seeds of each kind that the tests of this package run, from Kind+1 on.
var Tested = map[uint64]int{0: 50, Clocks: 20, Losses: 20, Copies: 20, Standbys: 20, Months: 4, Clusters: 8, Riemann: 8}

// Draw expands a seed into a configuration. For swarm testing, each kind of fault is off in half of
// the seeds.
func Draw(seed uint64) Config {
	switch {
	case seed >= Riemann:
		return drawRiemann(seed)
	case seed >= Clusters:
		return drawCluster(seed)
	case seed >= Months:
		return drawMonth(seed)
	case seed >= Standbys:
		return drawStandbys(seed)
	case seed >= Losses:
		return drawLoss(seed)
	case seed >= Clocks:
		return drawClocks(seed)
	case seed >= Starts && seed < Starts+1<<32:
		return drawStarts(seed)
	}
	return drawUsual(seed)
}

// drawStarts returns a run in which two to four brokers repeatedly start at the same time and
// collect garbage.
func drawStarts(seed uint64) Config {
	c := drawUsual(seed)
	r := rand.New(rand.NewPCG(seed, 0x5eb6))
	c.Nodes, c.Together = 2+r.IntN(3), time.Second
	c.Latency, c.GarbageWait = min(c.Latency, 100*time.Millisecond), 200*time.Millisecond
	c.SnapshotSlots = 3 + r.IntN(20)
	c.drawCopies()
	return c
}

// drawCopies draws what concerns copies of objects (rule R16).
func (c *Config) drawCopies() {
	r := rand.New(rand.NewPCG(c.Seed, 0x5ebc))
	c.Cached = r.IntN(2) == 0
	c.Scrub = []time.Duration{0, time.Second, 5 * time.Second}[r.IntN(3)]
}

// drawStandbys returns a usual run in which two to five brokers take over from each other within
// their processes. Garbage is collected soon, so that some of them follow a path that is not the
// chain.
func drawStandbys(seed uint64) Config {
	c := drawUsual(seed)
	r := rand.New(rand.NewPCG(seed, 0x5eb9))
	c.Nodes = 2 + r.IntN(4)
	c.StandEvery = []time.Duration{200 * time.Millisecond, 2 * time.Second, 10 * time.Second}[r.IntN(3)]
	if r.IntN(2) == 0 {
		c.GarbageWait, c.SnapshotSlots = 200*time.Millisecond, 3+r.IntN(20)
	}
	r = rand.New(rand.NewPCG(seed, 0x5eba))
	c.Feed, c.Join = r.IntN(4) > 0, r.IntN(2) == 0
	c.FeedEarly = c.Feed && r.IntN(4) == 0
	c.Heard = c.Feed && !c.FeedEarly && r.IntN(2) == 0
	r = rand.New(rand.NewPCG(seed, 0x5ebb))
	c.YieldEvery = []time.Duration{0, 500 * time.Millisecond, 3 * time.Second}[r.IntN(3)]
	return c
}

// drawRiemann returns a usual run with Riemann clients and fewer other producers.
func drawRiemann(seed uint64) Config {
	c := drawUsual(seed)
	r := rand.New(rand.NewPCG(seed, 0x5eb8))
	c.Producers, c.Senders, c.EventParts = 1, 1+r.IntN(3), 1+r.IntN(2)
	return c
}

// drawClocks returns a usual run in which brokers check their clocks. A third of the buckets is in
// a folder, a third in a store that reports the time, and a third is moved from the former to the
// latter.
func drawClocks(seed uint64) Config {
	c := drawUsual(seed)
	r := rand.New(rand.NewPCG(seed, 0x5eb7))
	c.Clocks, c.ClockSkew = true, 50*365*24*time.Hour
	c.ClockEvery = []time.Duration{2 * time.Second, 5 * time.Second, 20 * time.Second}[r.IntN(3)]
	c.ClockRate = []int64{0, 200, 10_000}[r.IntN(3)]
	c.DatesFrom = []time.Duration{0, time.Hour, 10*time.Second + time.Duration(r.Int64N(int64(40*time.Second)))}[r.IntN(3)]
	if c.CrashEvery == 0 || r.IntN(2) == 0 {
		c.CrashEvery = 10 * time.Second
	}
	return c
}

// drawLoss returns a usual run in which a part of the bucket is lost and brokers start afterwards.
func drawLoss(seed uint64) Config {
	c := drawUsual(seed)
	r := rand.New(rand.NewPCG(seed, 0x5eb5))
	c.LoseAt = 3*time.Second + time.Duration(r.Int64N(int64(c.Chaos-10*time.Second)))
	if r.IntN(4) == 0 {
		c.CopyAt = c.LoseAt - time.Duration(r.Int64N(int64(min(c.LoseAt, 20*time.Second))))
	}
	c.Folderless = []float64{0, 0.5, 1}[r.IntN(3)]
	if seed > Copies {
		c.drawCopies()
	}
	if c.CrashEvery == 0 || r.IntN(2) == 0 {
		c.CrashEvery = 10 * time.Second
	}
	return c
}

// monthSlow extends the minute of a usual run to a month.
const monthSlow = 30 * 24 * 60

// drawMonth returns a month with triggers, followed by days in which everything due happens. The
// faults are those of a usual run, the same number in the longer time. A request to the store takes
// as long as in a usual run.
func drawMonth(seed uint64) Config {
	c := drawUsual(seed)
	r := rand.New(rand.NewPCG(seed, 0x5eb4))
	c.Slow, c.Chaos, c.Calm = monthSlow, monthSlow*c.Chaos, 20*24*time.Hour
	for _, d := range []*time.Duration{&c.RefuseEvery, &c.CrashEvery, &c.PauseEvery, &c.CutEvery, &c.ClockEvery, &c.RetypeEvery} {
		*d *= monthSlow
	}
	c.Followers, c.Topics, c.Compacted, c.Stamped, c.Atomics, c.Transactions = 0, 1, 0, 0, 0, 0
	c.Producers, c.Pipeline, c.Think = 1, 1, []time.Duration{2 * time.Hour, 12 * time.Hour}[r.IntN(2)]
	if c.ClockSkew > 0 {
		c.ClockSkew = []time.Duration{time.Second, time.Hour, 5 * 24 * time.Hour}[r.IntN(3)]
	}
	c.Restart = []time.Duration{6 * time.Hour, 24 * time.Hour, 60 * time.Hour}[r.IntN(3)]
	if r.IntN(2) == 0 {
		c.BatchWait = 0
	}
	if c.Watch = watch.Draw(r); c.Watch.RemoveEvery > 0 {
		c.Nodes = 1
	}
	return c
}

func drawUsual(seed uint64) Config {
	r := rand.New(rand.NewPCG(seed, 0x5eb))
	pick := func(d ...time.Duration) time.Duration { return d[r.IntN(len(d))] }
	rate := func(top float64) float64 {
		v := r.Float64() * top
		if r.IntN(2) == 0 {
			return 0
		}
		return v
	}
	every := func(d ...time.Duration) time.Duration {
		v := pick(d...)
		if r.IntN(2) == 0 {
			return 0
		}
		return v
	}
	c := Config{
		Seed: seed, Chaos: 60 * time.Second, Calm: 150 * time.Second,
		Nodes: 1 + r.IntN(3), Followers: r.IntN(2), Topics: 1 + r.IntN(3), Parts: 1 + r.IntN(3),
		Producers: 1 + r.IntN(6), Pipeline: 1 + r.IntN(4),
		Think:     pick(15*time.Millisecond, 50*time.Millisecond, 150*time.Millisecond, 500*time.Millisecond),
		BatchWait: pick(0, 5*time.Millisecond, 50*time.Millisecond, 250*time.Millisecond),
		Latency:   pick(2*time.Millisecond, 20*time.Millisecond, 100*time.Millisecond, 400*time.Millisecond),
		Window:    1 + r.IntN(5), SnapshotSlots: 3 + r.IntN(60),
		FailBefore: rate(0.3), FailAfter: rate(0.3), Late: rate(0.1), Conflict: rate(0.2), Damage: rate(0.02),
		RefuseEvery:   every(20*time.Second, 60*time.Second),
		CrashEvery:    every(2*time.Second, 10*time.Second, 30*time.Second),
		PauseEvery:    every(2*time.Second, 10*time.Second, 30*time.Second),
		Restart:       pick(50*time.Millisecond, time.Second, 5*time.Second),
		ClientTimeout: pick(500*time.Millisecond, 5*time.Second, 30*time.Second),
		GarbageWait:   pick(200*time.Millisecond, 2*time.Second, 10*time.Second),
	}
	c.Compacted = r.IntN(c.Topics + 1)
	if r.IntN(2) == 0 {
		c.SnapshotSlots += r.IntN(500)
	}
	if r.IntN(4) == 0 {
		c.ClockSkew = pick(time.Second, time.Minute)
	}
	if c.Nodes == 1 && r.IntN(3) > 0 {
		c.Nodes = 2 + r.IntN(3)
	}
	c.drawMore()
	return c
}

// drawMore draws later additions separately, so that the rest of a seed's configuration stays the
// same.
func (c *Config) drawMore() {
	r := rand.New(rand.NewPCG(c.Seed, 0x5eb2))
	some := func(d ...time.Duration) time.Duration {
		v := d[r.IntN(len(d))]
		if r.IntN(2) == 0 {
			return 0
		}
		return v
	}
	c.CutEvery = some(3*time.Second, 10*time.Second, 30*time.Second)
	c.Ghosts = some(100*time.Millisecond, 2*time.Second, 20*time.Second)
	if year := some(365 * 24 * time.Hour); year > 0 && r.IntN(2) == 0 {
		c.ClockSkew = year
	}
	if c.ClockSkew > 0 {
		c.ClockEvery = some(3*time.Second, 20*time.Second)
	}
	r = rand.New(rand.NewPCG(c.Seed, 0x5eb3))
	c.Stamped, c.RetypeEvery = r.IntN(c.Topics+1), some(time.Second, 10*time.Second)
	c.Journals = rand.New(rand.NewPCG(c.Seed, 0x5eb8)).IntN(2) == 0
	c.Atomics = max(0, rand.New(rand.NewPCG(c.Seed, 0x5ebd)).IntN(6)-3)
	c.Transactions = max(0, rand.New(rand.NewPCG(c.Seed, 0x5ec0)).IntN(6)-2)
}

// WithoutTransactions returns the configuration without transactional producers, for older seeds.
func (c Config) WithoutTransactions() Config {
	c.Transactions = 0
	return c
}

// WithoutAtomics returns the configuration without clients of atomic requests too, for older seeds.
func (c Config) WithoutAtomics() Config {
	c = c.WithoutTransactions()
	c.Atomics = 0
	return c
}

// WithoutStamps returns the configuration without stamped topics too.
func (c Config) WithoutStamps() Config {
	c = c.WithoutAtomics()
	c.Stamped, c.RetypeEvery, c.Journals = 0, 0, false
	return c
}

// WithoutLater returns the configuration without all additions of drawMore, for older seeds.
func (c Config) WithoutLater() Config {
	c = c.WithoutStamps()
	c.CutEvery, c.Ghosts, c.ClockEvery = 0, 0, 0
	if c.ClockSkew > time.Minute {
		c.ClockSkew = 0
	}
	return c
}

// String lists every field.
func (c Config) String() string {
	type plain Config
	return strings.Trim(fmt.Sprintf("%+v", plain(c)), "{}")
}

// begin is when a run begins, in virtual time.
const begin = int64(time.Second)

// slow extends a time of a usual run by Config.Slow.
func (w *simulation) slow(d time.Duration) time.Duration {
	return d * time.Duration(max(w.cfg.Slow, 1))
}

// slowRetry extends a time in which brokers retry, by less than slow.
func (w *simulation) slowRetry(d time.Duration) time.Duration {
	return d * time.Duration(max(w.cfg.Slow/100, 1))
}

// snapshotBytes makes bytes decide in every third world when a snapshot is due, before or after its slots.
func snapshotBytes(slots int) int64 {
	if slots%3 == 0 {
		return int64(slots) * 6000 // a slot counts at least 4096
	}
	return 0
}
