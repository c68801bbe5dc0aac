package result

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

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
