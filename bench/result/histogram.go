// Distributions of durations: HDR histograms that report a percentile only if enough samples are
// above it.

package result

import (
	"encoding/json"
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

// Percentiles are the percentiles that a result lists.
var Percentiles = []float64{50, 75, 90, 95, 99, 99.9, 99.99, 99.999, 99.9999}

// Curve is a histogram in a result: summary figures, and the complete encoded histogram for
// programs.
type Curve struct {
	Count       int64   `json:"n"`
	MinNs       int64   `json:"min_ns"`
	MeanNs      int64   `json:"mean_ns"`
	MaxNs       int64   `json:"max_ns"`
	Overflow    int64   `json:"overflow"` // samples above 120 s, counted as 120 s
	Negative    int64   `json:"negative"` // samples below zero, counted as zero
	Percentiles []Point `json:"percentiles"`
	// HDR is the histogram, in nanoseconds, in the compressed V2 encoding of HdrHistogram, base64.
	HDR string `json:"hdr"`
}

// Point is a percentile with at least ten samples above it, and its 95 % confidence interval.
type Point struct {
	Percentile float64 `json:"p"`
	Ns         int64   `json:"ns"`
	LowNs      int64   `json:"low_ns"`
	HighNs     int64   `json:"high_ns"`
}

// Curve encodes the histogram.
func (l *Histogram) Curve() Curve {
	hdr, err := l.h.EncodeV2()
	if err != nil {
		panic("encode histogram: " + err.Error()) // writes to memory succeed
	}
	c := Curve{
		Count: l.Count(), MinNs: int64(l.Min()), MeanNs: int64(l.Mean()), MaxNs: int64(l.Max()),
		Overflow: l.overflow, Negative: l.negative, Percentiles: []Point{}, HDR: string(hdr),
	}
	for _, p := range Percentiles {
		if d, shown := l.Percentile(p); shown {
			low, high := l.Interval(p)
			c.Percentiles = append(c.Percentiles, Point{p, int64(d), int64(low), int64(high)})
		}
	}
	return c
}

// Histogram decodes the curve's histogram.
func (c *Curve) Histogram() (*Histogram, error) {
	h, err := hdrhistogram.Decode([]byte(c.HDR))
	if err != nil {
		return nil, fmt.Errorf("decode histogram: %w", err)
	}
	l := NewHistogram()
	if h.LowestTrackableValue() != l.h.LowestTrackableValue() || h.SignificantFigures() != l.h.SignificantFigures() ||
		h.HighestTrackableValue() != l.h.HighestTrackableValue() {
		return nil, fmt.Errorf("decode histogram: it holds %d to %d with %d digits, want %d to %d with %d",
			h.LowestTrackableValue(), h.HighestTrackableValue(), h.SignificantFigures(), Lowest, Highest, digits)
	}
	if h.TotalCount() != c.Count || c.Overflow < 0 || c.Overflow > c.Count || c.Negative < 0 || c.Negative > c.Count {
		return nil, fmt.Errorf("decode histogram: it holds %d samples, beside it stand %d, of them %d overflows and %d negative",
			h.TotalCount(), c.Count, c.Overflow, c.Negative)
	}
	l.h, l.overflow, l.negative = h, c.Overflow, c.Negative
	return l, nil
}

// At returns a percentile of the curve, and false if there are too few samples.
func (c *Curve) At(p float64) (time.Duration, bool) {
	for _, point := range c.Percentiles {
		if point.Percentile == p {
			return time.Duration(point.Ns), true
		}
	}
	return 0, false
}

// UnmarshalJSON decodes a curve and refuses one whose histogram cannot be decoded.
func (c *Curve) UnmarshalJSON(p []byte) error {
	type plain Curve
	if err := json.Unmarshal(p, (*plain)(c)); err != nil {
		return err
	}
	_, err := c.Histogram()
	return err
}

// HistogramLog writes histograms of successive intervals in HdrHistogram's log format (.hlog).
type HistogramLog struct {
	w *hdrhistogram.HistogramLogWriter
}

// NewHistogramLog starts a log; times in it are relative to base.
func NewHistogramLog(w io.Writer, base time.Time) (*HistogramLog, error) {
	l := &HistogramLog{hdrhistogram.NewHistogramLogWriter(w)}
	if err := l.w.OutputComment("latencies in nanoseconds, seconds by when samples were taken"); err != nil {
		return nil, err
	}
	if err := l.w.OutputLogFormatVersion(); err != nil {
		return nil, err
	}
	if err := l.w.OutputStartTime(base.UnixMilli()); err != nil {
		return nil, err
	}
	return l, l.w.OutputLegend()
}

// Add writes the samples of one interval, tagged with the name of their curve.
func (l *HistogramLog) Add(tag string, from, to time.Time, h *Histogram) error {
	h.h.SetTag(tag)
	h.h.SetStartTimeMs(from.UnixMilli())
	h.h.SetEndTimeMs(to.UnixMilli())
	return l.w.OutputIntervalHistogram(h.h)
}
