// Distributions of durations: HDR histograms that report a percentile only if enough samples are
// above it.

package result

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The range of a histogram. Shorter durations count as Lowest; longer ones count as Highest and as
// overflow.
const (
	Lowest  = time.Microsecond
	Highest = 120 * time.Second
	digits  = 3
)

// Histogram is a distribution of durations in nanoseconds, exact to three digits; it takes 160 KB.
// It is not for concurrent use.
type Histogram struct {
	h        *hdrhistogram.Histogram
	overflow int64
	negative int64
}

// NewHistogram returns an empty histogram.
func NewHistogram() *Histogram {
	return &Histogram{h: hdrhistogram.New(int64(Lowest), int64(Highest), digits)}
}

// Record adds a duration. A duration above Highest counts as Highest and as overflow. A negative
// duration, caused by different clocks, counts as zero and as negative.
func (l *Histogram) Record(ns int64) {
	switch {
	case ns > int64(Highest):
		l.overflow++
		ns = int64(Highest)
	case ns < 0:
		l.negative++
		ns = 0
	}
	if err := l.h.RecordValue(ns); err != nil {
		panic("histogram: " + err.Error()) // ns is in the range
	}
}

// Merge adds all samples of other. The result equals one histogram of both.
func (l *Histogram) Merge(other *Histogram) {
	if dropped := l.h.Merge(other.h); dropped != 0 {
		panic(fmt.Sprintf("histogram: %d samples do not fit one of the same range", dropped))
	}
	l.overflow += other.overflow
	l.negative += other.negative
}

// Reset empties the histogram.
func (l *Histogram) Reset() {
	if l.h.TotalCount() > 0 {
		l.h.Reset()
	}
	l.overflow, l.negative = 0, 0
}

// Count returns the number of samples.
func (l *Histogram) Count() int64 { return l.h.TotalCount() }

// Overflow returns the number of samples above Highest; Count includes them.
func (l *Histogram) Overflow() int64 { return l.overflow }

// Negative returns the number of samples below zero; Count includes them.
func (l *Histogram) Negative() int64 { return l.negative }

// Max returns the longest duration, to three digits; 0 without samples.
func (l *Histogram) Max() time.Duration {
	if l.Count() == 0 {
		return 0
	}
	return l.value(l.h.Max())
}

// Min returns the shortest duration, to three digits; 0 without samples.
func (l *Histogram) Min() time.Duration {
	if l.Count() == 0 {
		return 0
	}
	return l.value(l.h.Min())
}

// Mean returns the mean of the samples.
func (l *Histogram) Mean() time.Duration { return time.Duration(l.h.Mean()) }

// value limits a duration from the histogram to Highest, because the top bucket ends slightly above
// it.
func (l *Histogram) value(ns int64) time.Duration { return min(time.Duration(ns), Highest) }

// Above is the number of samples that must be longer than a percentile for it to be shown.
const Above = 10

// Shown reports whether n samples are enough for percentile p (0 to 100).
func Shown(p float64, n int64) bool {
	// Rounded, because 100-99.9 is slightly less than 0.1 in floating point.
	return math.Round(float64(n)*(100-p)*1e4)/1e6 >= Above
}

// Percentile returns the duration that p percent of the samples do not exceed, and whether enough
// samples are above it; 0 without samples.
func (l *Histogram) Percentile(p float64) (d time.Duration, shown bool) {
	if l.Count() == 0 {
		return 0, false
	}
	return l.value(l.h.ValueAtPercentile(p)), Shown(p, l.Count())
}

// z95 is the number of standard deviations on either side that hold 95 % of a normal distribution.
const z95 = 1.959964

// Interval returns the 95 % confidence interval of percentile p, from the ranks of a binomial
// distribution. It assumes independent samples and no shape of the distribution.
func (l *Histogram) Interval(p float64) (low, high time.Duration) {
	n := float64(l.Count())
	if n == 0 {
		return 0, 0
	}
	spread := 100 * z95 * math.Sqrt(p/100*(1-p/100)/n)
	low = l.value(l.h.ValueAtPercentile(max(p-spread, 0)))
	high = l.value(l.h.ValueAtPercentile(min(p+spread, 100)))
	return low, high
}

// WritePercentiles writes the distribution in the text format of HDR plotters (.hgrm), in
// milliseconds.
func (l *Histogram) WritePercentiles(w io.Writer) error {
	const ticks = 5 // lines for each halving of the distance to 100 %
	_, err := l.h.PercentilesPrint(w, ticks, float64(time.Millisecond))
	return err
}

// Equal reports whether two histograms are equal.
func (l *Histogram) Equal(other *Histogram) bool {
	return l.h.Equals(other.h) && l.overflow == other.overflow && l.negative == other.negative
}

// Bar is one bucket of a histogram.
type Bar struct {
	To    time.Duration // the longest duration of the bucket
	Count int64
}

// Bars returns the buckets of the histogram that hold samples, the shortest first.
func (l *Histogram) Bars() []Bar {
	var bars []Bar
	for _, b := range l.h.Distribution() {
		if b.Count > 0 {
			bars = append(bars, Bar{To: l.value(b.To), Count: b.Count})
		}
	}
	return bars
}
