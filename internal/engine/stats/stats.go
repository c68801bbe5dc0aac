// Package stats keeps a day of a broker's figures in memory: rates of counters, quantiles of
// histograms and values of gauges. One goroutine reads the broker's metrics at an interval. It adds
// no counter to the hot path and makes no store request. Besides, histograms have the times of
// acknowledgements and PUTs, one value of each for a commit object. The memory is fixed and taken from
// the budget once.
package stats

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/record"
)

const tableSize = 26 // entries of table

// The rings: an hour in short steps, and a day in long ones.
const (
	shortStep, shortPoints = 10 * time.Second, 360
	longStep, longPoints   = time.Minute, 1440
)

// Bytes is the memory of a Sampler: its figures, and a text of all metrics.
const Bytes = tableSize*(shortPoints+longPoints)*4 + textBytes

// textBytes is the approximate size of all metrics as text.
const textBytes = 128 << 10

// ring has the newest rows of figures at a fixed step. Slot i of its time belongs to index i modulo points.
type ring struct {
	step   time.Duration
	points int64
	width  int // figures of a row
	values []float32
	last   int64 // slot of the newest row
	any    bool
}

func newRing(step time.Duration, points, width int, now time.Time) ring {
	r := ring{step: step, points: int64(points), width: width, values: make([]float32, points*width)}
	r.last = r.slot(now)
	for i := range r.values {
		r.values[i] = absent
	}
	return r
}

func (r *ring) slot(t time.Time) int64 { return t.UnixNano() / int64(r.step) }

var absent = float32(math.NaN())

func (r *ring) row(slot int64) []float32 {
	at := int(slot%r.points) * r.width
	return r.values[at : at+r.width]
}

// next returns the row of a slot that has begun since the last one; nil: none has. Slots between have no
// figures.
func (r *ring) next(now time.Time) []float32 {
	slot := r.slot(now)
	if slot <= r.last && r.any {
		return nil
	}
	for i := max(r.last+1, slot-r.points+1); i < slot; i++ {
		row := r.row(i)
		for k := range row {
			row[k] = absent
		}
	}
	r.last, r.any = slot, true
	return r.row(slot)
}

// window returns the figures of a span that ends now. named has the name and the unit of each.
func (r *ring) window(span time.Duration, now time.Time, named func(int) (name, unit string)) Window {
	n := int64(span / r.step)
	w := Window{Step: r.step}
	first := max(r.last, r.slot(now)-1) - n + 1
	for i := range n {
		w.Times = append(w.Times, time.Unix(0, (first+i)*int64(r.step)))
	}
	for k := range r.width {
		of := Series{Values: make([]float64, n)}
		of.Name, of.Unit = named(k)
		for i := range n {
			of.Values[i] = math.NaN()
			if slot := first + i; slot <= r.last && slot > r.last-r.points {
				of.Values[i] = float64(r.row(slot)[k])
			}
		}
		w.Series = append(w.Series, of)
	}
	return w
}

// readings is a ring of the figures of table.
type readings struct {
	ring
	before [tableSize]reading
	at     time.Time // of before; zero: none
}

// add stores the figures of a slot that has begun since the last one.
func (r *readings) add(now time.Time, all *[tableSize]reading) {
	row := r.next(now)
	if row == nil {
		return
	}
	// The figures of a step without an earlier reading are unknown, except gauges.
	seconds := now.Sub(r.at).Seconds()
	for i := range table {
		row[i] = float32(table[i].figure(&r.before[i], &all[i], seconds))
	}
	r.before, r.at = *all, now
}

// Sampler keeps the figures. Its methods may be called concurrently.
type Sampler struct {
	write  func(io.Writer)
	memory *budget.Reservation
	stop   chan struct{}
	done   sync.WaitGroup
	text   bytes.Buffer

	mu          sync.Mutex // guards the fields below
	short, long readings
	queues      queues
}

// classShare is the divisor of a class that bounds its part for a Sampler.
const classShare = 4

// Start samples the metrics that write writes in the Prometheus text format, and the figures of queues, until
// Close. Error: a quarter of the class is less than Bytes.
func Start(class *budget.Class, write func(io.Writer), read func() []Queue) (*Sampler, error) {
	if class.Limit()/classShare < Bytes {
		return nil, fmt.Errorf("statistics need %d bytes of memory, more than a quarter of the %d bytes for %s", Bytes, class.Limit(), class.Kind())
	}
	memory, err := class.Reserve(Bytes)
	if err != nil {
		return nil, fmt.Errorf("memory for statistics: %w", err)
	}
	s := newSampler(write, time.Now())
	s.memory, s.stop, s.queues.class, s.queues.read = memory, make(chan struct{}), class, read
	s.done.Go(func() {
		for {
			now := time.Now()
			s.sample(now)
			// A sample at the start of each step, so that none misses its step.
			next := time.NewTimer(time.Until(now.Truncate(shortStep).Add(shortStep)))
			select {
			case <-next.C:
			case <-s.stop:
				next.Stop()
				return
			}
		}
	})
	return s, nil
}

func newSampler(write func(io.Writer), now time.Time) *Sampler {
	return &Sampler{
		write: write, queues: queues{rings: map[record.ID]*queueRings{}},
		short: readings{ring: newRing(shortStep, shortPoints, tableSize, now)}, long: readings{ring: newRing(longStep, longPoints, tableSize, now)},
	}
}

// Close stops sampling and releases the memory. Call it once.
func (s *Sampler) Close() {
	close(s.stop)
	s.done.Wait()
	s.queues.drop(nil)
	s.memory.Release()
}

func (s *Sampler) sample(now time.Time) {
	s.text.Reset()
	s.write(&s.text)
	all := parse(s.text.Bytes())
	var rows []Queue
	if s.queues.read != nil {
		rows = s.queues.read()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.short.add(now, &all)
	s.long.add(now, &all)
	s.queues.add(now, rows)
}

// Window is a span of time with its figures.
type Window struct {
	Step   time.Duration
	Times  []time.Time // a rate covers the step before its time
	Series []Series
}

// Values is the number of values in a window.
func (s *Sampler) Values(span time.Duration) int {
	return tableSize * int(span/s.ring(span).step)
}

// ring returns the ring that has a span.
func (s *Sampler) ring(span time.Duration) *ring {
	if span <= shortPoints*shortStep {
		return &s.short.ring
	}
	return &s.long.ring
}

// Series has a value for each step; NaN if the broker did not run, or had nothing to measure.
type Series struct {
	Name, Unit string
	Values     []float64
}

// Window returns the figures of a span that ends now, at most a day. An hour or less has short
// steps.
func (s *Sampler) Window(span time.Duration) Window { return s.window(span, time.Now()) }

func (s *Sampler) window(span time.Duration, now time.Time) Window {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ring(span).window(span, now, func(i int) (string, string) { return table[i].name, table[i].unit })
}
