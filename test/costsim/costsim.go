// Package costsim runs the batcher of package log and the budget of package cost on a virtual clock,
// for months of traffic in seconds. It is deterministic.
package costsim

import (
	"math/rand/v2"
	"time"

	"github.com/sebbroker/seb/internal/engine/cost"
	"github.com/sebbroker/seb/internal/engine/log"
)

// Traffic returns the next arrival: its distance from the one before it, and its size.
type Traffic func() (gap time.Duration, bytes int64)

// Options describe a run.
type Options struct {
	Begin   time.Time
	Length  time.Duration
	Traffic Traffic
	// Limit is the budget; nil: the fixed wait.
	Limit *cost.Limit
	Put   time.Duration // time to store an object
	// Every is the length of a Sample.
	Every time.Duration
	// Restart is the time after which the broker is replaced by one that has lost its data folder, and
	// that finds all commit objects in the log; 0: never.
	Restart time.Duration
}

// Wait is the fixed wait, and BytesMax the largest size of an object.
const (
	Wait     = 250 * time.Millisecond
	BytesMax = 10 << 20
	window   = 4 // objects being stored (rule R2)
	seal     = 2 // PUTs of a start
)

// Sample is a part of a run.
type Sample struct {
	Puts   float64       // up to its end, with LISTs
	Median time.Duration // from a record to its acknowledgement
}

// Result is what a run has used.
type Result struct {
	Objects  int64
	Puts     float64 // with other requests
	Records  int64   // arrivals
	Exceeded float64 // the largest part of the budget beyond the tokens
	Samples  []Sample
	all      histogram
}

// Percentile returns the time within which a part of all arrivals was acknowledged.
func (r *Result) Percentile(part float64) time.Duration { return r.all.percentile(part) }

// Most is the longest time from an arrival to its acknowledgement.
func (r *Result) Most() time.Duration { return r.all.most }

// spender is the budget at the virtual time.
type spender struct{ *simulation }

func (b spender) Next() log.Pace  { return b.budget.Next(b.clock()) }
func (b spender) Left(extra bool) { b.budget.Left(b.clock(), extra) }
func (b spender) Short() bool     { return b.budget.Short(b.clock()) }

type item = log.Item[int]

// object is a stored object.
type object struct {
	at    int64
	bytes int64
	items []int
}

type simulation struct {
	o      Options
	now    int64 // ns since Begin, never 0
	batch  *log.Batcher[int]
	budget *cost.Budget
	items  []*item
	born   []int64
	free   []int
	flying []object // in order
	stored int64    // bytes of flying
	res    Result
	part   histogram
	upkeep upkeep

	restarts int64
}

func (s *simulation) clock() time.Time { return s.o.Begin.Add(time.Duration(s.now)) }

// Run simulates a broker.
func Run(o Options) *Result {
	s := &simulation{o: o, now: 1}
	s.start()
	gap, bytes := o.Traffic()
	next := int64(gap) + 1
	for s.now < int64(o.Length) {
		at := s.wake()
		for next <= at {
			s.now = max(s.now, next)
			first := s.batch.Len() == 0
			s.add(bytes)
			gap, bytes = o.Traffic()
			next += int64(gap)
			if first || s.batch.Bytes() >= BytesMax {
				at = s.now // the object may be due earlier
			}
		}
		s.now = max(s.now, at)
		s.upkeep.run(s)
		s.sample()
		for len(s.flying) > 0 && s.flying[0].at <= s.now {
			s.settle()
		}
		s.leave()
	}
	return &s.res
}

// wake is when something other than an arrival happens.
func (s *simulation) wake() int64 {
	at := min(int64(s.o.Length), s.upkeep.charged+countEvery)
	if len(s.flying) > 0 {
		at = min(at, s.flying[0].at)
	}
	if due, ok := s.batch.Due(); ok && len(s.flying) < window {
		at = min(at, due)
	}
	return at
}

// sample ends a sample, and the broker's process, at their times.
func (s *simulation) sample() {
	if every := int64(s.o.Every); every > 0 && s.now/every > int64(len(s.res.Samples)) {
		s.res.Samples = append(s.res.Samples, Sample{s.res.Puts, s.part.percentile(0.5)})
		s.part = histogram{}
	}
	if every := int64(s.o.Restart); every > 0 && s.now/every > s.restarts {
		s.restarts++
		s.restart()
	}
}

// start makes the batcher and the budget.
func (s *simulation) start() {
	cfg := log.Config{Wait: Wait, BytesMax: BytesMax}
	if s.o.Limit != nil {
		s.budget = cost.NewBudget(*s.o.Limit, s.clock())
		cfg.Budget = spender{s}
	}
	s.batch = log.NewBatcher[int](cfg)
}

// restart replaces the broker when it has stored everything.
func (s *simulation) restart() {
	s.res.Puts += seal
	if s.budget == nil {
		return
	}
	earlier := s.upkeep.lastHour(s.now)
	s.budget = cost.NewBudget(*s.o.Limit, s.clock())
	s.budget.LastHour(s.clock(), earlier)
	s.charge()
}

// charge tells the budget what a meter counts.
func (s *simulation) charge() {
	if s.budget != nil {
		s.budget.Spent(s.clock(), s.o.Begin, s.res.Puts)
		s.res.Exceeded = max(s.res.Exceeded, s.budget.Exceeded(s.clock()))
	}
}

func (s *simulation) add(bytes int64) {
	if len(s.free) == 0 {
		s.free = append(s.free, len(s.items))
		s.items, s.born = append(s.items, &item{Value: len(s.items)}), append(s.born, 0)
	}
	n := len(s.free) - 1
	i := s.free[n]
	s.free = s.free[:n]
	s.born[i] = s.now
	s.batch.Add(s.items[i], bytes, s.now)
	s.res.Records++
}

// leave stores the objects that are due.
func (s *simulation) leave() {
	for len(s.flying) < window {
		queued := s.batch.Bytes()
		var reuse []int
		taken := s.batch.Take(reuse, s.now, false)
		if len(taken) == 0 {
			return
		}
		o := object{at: s.now + int64(s.o.Put), bytes: queued - s.batch.Bytes(), items: taken}
		if n := len(s.flying); n > 0 { // acknowledged in order
			o.at = max(o.at, s.flying[n-1].at)
		}
		s.flying = append(s.flying, o)
		s.stored += o.bytes
		s.batch.Storing(s.stored)
		s.res.Objects++
		s.res.Puts++
		s.upkeep.commit(s.now)
	}
}

// settle acknowledges the oldest object.
func (s *simulation) settle() {
	o := s.flying[0]
	s.flying = s.flying[1:]
	s.stored -= o.bytes
	s.batch.Storing(s.stored)
	for _, i := range o.items {
		took := time.Duration(s.now - s.born[i])
		s.part.add(took)
		s.res.all.add(took)
		s.free = append(s.free, i)
	}
}

// upkeep is the requests of maintenance, with the intervals of a broker and the numbers of the report
// on costs: a snapshot each 1,000 objects, and after writes each 10 minutes a pack, two snapshots and
// two passes. A frugal broker has six times the interval.
type upkeep struct {
	charged int64
	packed  int64
	objects int
	unpack  bool
	hour    []int64 // times of the commits of the last hour
}

const (
	packEvery   = int64(10 * time.Minute)
	packPuts    = 3 + 2*3 // with LISTs
	snapObjects = 1000
	snapPuts    = 1 + 3
	countEvery  = int64(10 * time.Second)
)

func (u *upkeep) commit(now int64) {
	u.objects++
	u.unpack = true
	u.hour = append(u.hour, now)
}

func (u *upkeep) lastHour(now int64) int64 {
	n := 0
	for n < len(u.hour) && u.hour[n] < now-int64(time.Hour) {
		n++
	}
	u.hour = u.hour[n:]
	return int64(len(u.hour))
}

func (u *upkeep) run(s *simulation) {
	if u.objects >= snapObjects {
		u.objects -= snapObjects
		s.res.Puts += snapPuts
	}
	every := packEvery
	if s.budget != nil && s.budget.Short(s.clock()) {
		every *= 6
	}
	if u.unpack && s.now-u.packed >= every {
		u.unpack, u.packed = false, s.now
		s.res.Puts += packPuts
		u.lastHour(s.now)
	}
	if s.now-u.charged >= countEvery {
		u.charged = s.now
		s.charge()
	}
}

// fine is the arrivals a second above which several records arrive together.
const fine = 100

// Steady is Poisson arrivals of a rate.
func Steady(seed uint64, perSecond float64, bytes int64) Traffic {
	r := rand.New(rand.NewPCG(seed, 1))
	if perSecond > fine {
		bytes = int64(float64(bytes) * perSecond / fine)
		perSecond = fine
	}
	return func() (time.Duration, int64) {
		return time.Duration(r.ExpFloat64() / perSecond * float64(time.Second)), bytes
	}
}

// Even is arrivals at equal distances, of which a fixed wait saves no object below a rate.
func Even(perSecond float64, bytes int64) Traffic {
	return func() (time.Duration, int64) { return time.Duration(float64(time.Second) / perSecond), bytes }
}

// Bursts has bursts of n arrivals, evenly in a length, at random times that are a mean distance apart.
func Bursts(seed uint64, every, length time.Duration, n int) Traffic {
	r := rand.New(rand.NewPCG(seed, 2))
	left := 0
	return func() (time.Duration, int64) {
		if left--; left >= 0 {
			return length / time.Duration(n), 500
		}
		left = n - 1
		return max(time.Duration(r.ExpFloat64()*float64(every-length)), time.Millisecond), 500
	}
}
