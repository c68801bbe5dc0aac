package result_test

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/bench/result"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestHistogram(t *testing.T) {
	t.Run("parts merged equal one of all samples", func(t *testing.T) {
		whole, merged := result.NewHistogram(), result.NewHistogram()
		rng := rand.New(rand.NewPCG(1, 2))
		for range 7 {
			part := result.NewHistogram()
			for range 10_000 {
				ns := int64(math.Exp(rng.Float64()*28) - 10) // from below zero to above the top
				part.Record(ns)
				whole.Record(ns)
			}
			merged.Merge(part)
		}
		if !merged.Equal(whole) || merged.Count() != 70_000 {
			t.Errorf("merged: %d samples, %d overflows, %d negative; whole: %d, %d, %d", merged.Count(), merged.Overflow(), merged.Negative(),
				whole.Count(), whole.Overflow(), whole.Negative())
		}
		if whole.Overflow() == 0 || whole.Negative() == 0 {
			t.Error("the samples do not go beyond the range")
		}
	})
	t.Run("what is too long is counted at the top", func(t *testing.T) {
		h := result.NewHistogram()
		for range 20 {
			h.Record(int64(time.Millisecond))
			h.Record(int64(time.Hour))
		}
		if h.Overflow() != 20 || h.Count() != 40 || h.Max() != result.Highest {
			t.Errorf("%d overflows among %d, max %v", h.Overflow(), h.Count(), h.Max())
		}
		if d, _ := h.Percentile(90); d != result.Highest {
			t.Errorf("p90 is %v", d)
		}
	})
	t.Run("what is negative is counted, as zero", func(t *testing.T) {
		h := result.NewHistogram()
		h.Record(-5)
		h.Record(int64(time.Second))
		if h.Negative() != 1 || h.Count() != 2 || h.Min() != 0 {
			t.Errorf("%d negative among %d, min %v", h.Negative(), h.Count(), h.Min())
		}
	})
	t.Run("three digits are exact", func(t *testing.T) {
		for _, d := range []time.Duration{time.Microsecond, 999 * time.Microsecond, 17 * time.Millisecond, time.Second, 119 * time.Second} {
			h := result.NewHistogram()
			h.Record(int64(d))
			if off := (h.Max() - d).Abs(); off > max(d/1000, 512) {
				t.Errorf("%v becomes %v", d, h.Max())
			}
		}
	})
	t.Run("emptied it equals a new one", func(t *testing.T) {
		h := result.NewHistogram()
		h.Record(-1)
		h.Record(int64(time.Hour))
		h.Reset()
		if !h.Equal(result.NewHistogram()) || h.Max() != 0 || h.Min() != 0 {
			t.Error("something stays")
		}
	})
}

func TestPacked(t *testing.T) {
	for _, samples := range []int64{0, 1, 1000} {
		h := result.NewHistogram()
		for i := range samples {
			h.Record(i*i*i*1000 - 10)
		}
		packed := h.Pack()
		if !packed.Histogram().Equal(h) {
			t.Errorf("of %d samples, they differ", samples)
		}
	}
}

func TestShown(t *testing.T) {
	for _, c := range []struct {
		p    float64
		need int64
	}{{50, 20}, {99, 1000}, {99.9, 10_000}, {99.99, 100_000}, {99.9999, 10_000_000}} {
		if result.Shown(c.p, c.need-1) || !result.Shown(c.p, c.need) {
			t.Errorf("p%v needs %d samples", c.p, c.need)
		}
	}
	h := result.NewHistogram()
	for i := range int64(9999) {
		h.Record(i * 1000)
	}
	c := h.Curve()
	if _, ok := c.At(99.9); ok {
		t.Error("p99.9 of 9,999 samples is shown")
	}
	if d, ok := c.At(99); !ok || (d-9899*time.Microsecond).Abs() > 10*time.Microsecond {
		t.Errorf("p99 is %v, shown %v", d, ok)
	}
}

func TestInterval(t *testing.T) {
	// 10,000 samples of a uniform distribution: the median's rank is within 98 of 5,000.
	h := result.NewHistogram()
	for i := range int64(10_000) {
		h.Record(i * 100_000)
	}
	low, high := h.Interval(50)
	if (low-490_200*time.Microsecond).Abs() > time.Millisecond || (high-509_800*time.Microsecond).Abs() > time.Millisecond {
		t.Errorf("the median lies in %v to %v", low, high)
	}
}

func TestCurve(t *testing.T) {
	h := result.NewHistogram()
	for i := range int64(5000) {
		h.Record(i * i * 1000)
	}
	h.Record(-1)
	h.Record(int64(time.Hour))
	for name, h := range map[string]*result.Histogram{"full": h, "empty": result.NewHistogram()} {
		t.Run("a "+name+" one survives a file", func(t *testing.T) {
			c := h.Curve()
			text := must.Get(json.Marshal(c))(t)
			var back result.Curve
			must.NoError(t, json.Unmarshal(text, &back))
			again, err := back.Histogram()
			if err != nil || !again.Equal(h) {
				t.Errorf("it differs, error %v", err)
			}
			again.Merge(h)
			check.Equalf(t, again.Count(), 2*h.Count(), "merged with itself it holds")
		})
	}
	t.Run("damage is found", func(t *testing.T) {
		c := h.Curve()
		count, hdr := c, c
		count.Count++
		hdr.HDR = "HISTFAAAAB" + strings.Repeat("A", 20)
		for _, c := range []result.Curve{count, hdr, {}} {
			text, _ := json.Marshal(c)
			var back result.Curve
			check.Error(t, json.Unmarshal(text, &back), "%.80s... is taken", text)
		}
	})
}

func TestText(t *testing.T) {
	h := result.NewHistogram()
	for i := range int64(1000) {
		h.Record(i * int64(time.Millisecond))
	}
	var percentiles, log bytes.Buffer
	must.NoError(t, h.WritePercentiles(&percentiles))
	if !strings.Contains(percentiles.String(), "Percentile") || !strings.Contains(percentiles.String(), "Total count    =         1000") {
		t.Errorf("percentiles:\n%s", percentiles.String())
	}
	start := time.UnixMilli(1_700_000_000_000)
	l := must.Get(result.NewHistogramLog(&log, start))(t)
	must.NoError(t, l.Add("ack", start, start.Add(time.Second), h))
	check.Containsf(t, log.String(), "Tag=ack,", "log")
	var sum int64
	for _, b := range h.Bars() {
		sum += b.Count
	}
	if sum != 1000 {
		t.Errorf("the bars hold %d samples", sum)
	}
}
