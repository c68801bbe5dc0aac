package stats

import (
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sebbroker/seb/internal/engine/budget"
)

// The histograms: microseconds with three significant digits, up to ten minutes. Longer times count
// as ten minutes. If their memory is full of distinct times, further ones are rounded up by at most
// 1/32; that needs a --memory-limit below 128 MiB, or times that differ by a factor of 1000.
const (
	latencyMax    = 10 * time.Minute
	latencyDigits = 3
)

// The last hour is a ring of slices. The oldest one is reused when a new one begins, so the window
// has 60 to 80 minutes.
const (
	sliceTime  = 20 * time.Minute
	sliceCount = 4
)

const (
	// latencyBytesMax bounds the memory of a Latency, and histograms is how many it has.
	latencyBytesMax = 1 << 20
	histograms      = measures * (1 + sliceCount)
	// valueBytes is the memory of a distinct value in a histogram: index, count, spare capacity.
	valueBytes = (4 + 4) * 5 / 4
	// coarseValues bounds the distinct values that coarse returns, and fineMin is the least number of
	// others with which a histogram is useful.
	coarseValues = 64 + 24*32
	fineMin      = 512
)

// CurvesBytes is the memory that a call of Curves needs.
const CurvesBytes = 176 << 10

// Measure is what a Latency measures.
type Measure uint8

// The measures.
const (
	Acks     Measure = iota // from the oldest append of a commit object to its acknowledgement
	Puts                    // of a commit object
	measures = 2
)

// Latency has histograms of durations since the start and of the last hour. The zero value records
// nothing until Start. Its methods may be called concurrently, on nil too. Recording takes well
// below a microsecond, and happens once for each commit object.
type Latency struct {
	memory *budget.Reservation

	mu    sync.Mutex // guards the fields below
	began time.Time  // zero: not started
	fine  int32      // distinct values of a histogram before further ones are rounded
	all   [measures]*hdrhistogram.PackedHistogram
	ring  [measures][sliceCount]*hdrhistogram.PackedHistogram
	begin [sliceCount]time.Time // of each slice
	last  int                   // slice that records
}

// Start begins to record, with the part of a quarter of the class that a Sampler leaves, at most
// 1 MiB. Error: that is too little.
func (l *Latency) Start(class *budget.Class, now time.Time) error {
	size := min(latencyBytesMax, class.Limit()/classShare-Bytes)
	fine := size/(histograms*valueBytes) - coarseValues
	if fine < fineMin {
		return fmt.Errorf("histograms need %d bytes of memory beside the statistics, more than a quarter of the %d bytes for %s has",
			histograms*valueBytes*(coarseValues+fineMin), class.Limit(), class.Kind())
	}
	memory, err := class.Reserve(size)
	if err != nil {
		return fmt.Errorf("memory for histograms: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.memory, l.began, l.fine = memory, now, int32(fine)
	for m := range measures {
		l.all[m] = newPacked()
		for i := range sliceCount {
			l.ring[m][i] = newPacked()
		}
	}
	l.begin[0] = now
	return nil
}

func newPacked() *hdrhistogram.PackedHistogram {
	return hdrhistogram.NewPacked(1, latencyMax.Microseconds(), latencyDigits)
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, latencyMax.Microseconds(), latencyDigits)
}

// Close ends recording and releases the memory.
func (l *Latency) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.began.IsZero() {
		return
	}
	l.began, l.all = time.Time{}, [measures]*hdrhistogram.PackedHistogram{}
	l.ring = [measures][sliceCount]*hdrhistogram.PackedHistogram{}
	l.memory.Release()
}

// Record adds a duration that has just ended.
func (l *Latency) Record(m Measure, took time.Duration) {
	if l != nil {
		l.record(m, took, time.Now())
	}
}

func (l *Latency) record(m Measure, took time.Duration, now time.Time) {
	us := min(max(took, 0), latencyMax).Microseconds()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.began.IsZero() {
		return
	}
	l.turn(now)
	for _, h := range []*hdrhistogram.PackedHistogram{l.all[m], l.ring[m][l.last]} {
		v := us
		if h.Populated() >= l.fine && h.CountAtValue(us) == 0 {
			step := int64(1) // v is us rounded up, by at most 1/32
			for us/step >= 64 {
				step *= 2
			}
			v = min((us+step-1)/step*step, latencyMax.Microseconds())
		}
		_ = h.RecordValue(v) // in range
	}
}

// turn begins a new slice if the present one is over.
func (l *Latency) turn(now time.Time) {
	if now.Sub(l.begin[l.last]) < sliceTime {
		return
	}
	l.last = (l.last + 1) % sliceCount
	l.begin[l.last] = now
	for m := range measures {
		l.ring[m][l.last].Reset()
	}
}

// Curve is the distribution of a measure.
type Curve struct {
	Count int64
	Max   time.Duration
	// At has the duration at each of Percentiles; nil without values.
	At []time.Duration
}

// Rank returns how many of the values a percentile covers: at least the first.
func Rank(percentile float64, count int64) int64 {
	return min(max(1, int64(percentile/100*float64(count)+0.5)), count) // as HdrHistogram rounds
}

// Percentiles are those of a Curve: five in each halving of the distance to 100, and the usual ones.
var Percentiles = func() (list []float64) {
	usual := []float64{90, 99, 99.9, 99.99, 99.999}
	low, rest := 0.0, 100.0
	for len(usual) > 0 {
		for i := range 5 {
			p := low + rest/2*float64(i)/5
			for len(usual) > 0 && usual[0] <= p {
				if usual[0] < p {
					list = append(list, usual[0])
				}
				usual = usual[1:]
			}
			if len(usual) > 0 {
				list = append(list, p)
			}
		}
		low, rest = low+rest/2, rest/2
	}
	return list
}()

// Curves returns the distributions since the start, or of the last hour, and the time of their
// oldest value at the earliest. ok is false if the Latency has not started.
func (l *Latency) Curves(hour bool) (curves [measures]Curve, since time.Time, ok bool) {
	return l.curves(hour, time.Now())
}

func (l *Latency) curves(hour bool, now time.Time) (curves [measures]Curve, since time.Time, ok bool) {
	if l == nil {
		return curves, since, false
	}
	h := newHistogram()
	for m := range measures {
		h.Reset()
		if since, ok = l.merge(h, m, hour, now); !ok {
			return curves, since, false
		}
		c := &curves[m]
		if c.Count = h.TotalCount(); c.Count == 0 {
			continue
		}
		c.Max = time.Duration(h.Max()) * time.Microsecond
		for _, us := range h.ValueAtPercentilesSlice(Percentiles) {
			c.At = append(c.At, min(time.Duration(us)*time.Microsecond, c.Max))
		}
	}
	return curves, since, true
}

// merge adds the values of a measure to h.
func (l *Latency) merge(h *hdrhistogram.Histogram, m int, hour bool, now time.Time) (since time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	since = l.began
	if since.IsZero() {
		return since, false
	}
	if !hour {
		l.all[m].MergeInto(h)
		return since, true
	}
	since = now
	for i, of := range l.ring[m] {
		// Without recording slices stay longer than they should.
		if begin := l.begin[i]; !begin.IsZero() && now.Sub(begin) < sliceCount*sliceTime {
			of.MergeInto(h)
			since = minTime(since, begin)
		}
	}
	return since, true
}

func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
