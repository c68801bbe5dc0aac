package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/bench/load"
	"github.com/sebbroker/seb/bench/result"
	"github.com/sebbroker/seb/test/check"
)

func progress(label, phase string, at time.Duration) load.Progress {
	h := result.NewHistogram()
	for range 2000 {
		h.Record(int64(3 * time.Millisecond))
	}
	return load.Progress{
		Label: label, Phase: phase, At: at, Left: 35*time.Second - at, Rate: 2999.6, Wanted: 3000, InFlight: 12, Lag: 150 * time.Microsecond,
		Headline: h, EndToEnd: true,
	}
}

func TestLine(t *testing.T) {
	p := progress("redis", result.Measure, 10*time.Second)
	want := "redis: measure   3000/s of 3000  in flight 12  lag 150µs  e2e p50 3ms  p99 3ms  p99.9 -  25s left"
	check.Equal(t, progressLine(p), want)
	p.Failed, p.EndToEnd, p.Phase = 7, false, result.Drain
	got := progressLine(p)
	for _, want := range []string{"FAILED 7", "ack p50", "drain"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	if strings.Contains(got, "left") {
		t.Errorf("%q says how long draining takes", got)
	}
}

// show shows two runs of 35 seconds.
func show(v *view) {
	for _, label := range []string{"one", "two"} {
		for s := 1; s <= 35; s++ {
			phase := result.Measure
			if s <= 5 {
				phase = result.Warmup
			}
			v.Show(progress(label, phase, time.Duration(s)*time.Second))
		}
		v.Done()
	}
}

func TestView(t *testing.T) {
	t.Run("a pipe gets a line every few seconds and for each phase", func(t *testing.T) {
		var out bytes.Buffer
		show(newView(&out, false, 10*time.Second))
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 8 || strings.Contains(out.String(), "\x1b") { // at 1, 6, 16 and 26 s
			t.Errorf("%d lines:\n%s", len(lines), out.String())
		}
	})
	t.Run("a terminal gets one line for each run", func(t *testing.T) {
		var out bytes.Buffer
		show(newView(&out, true, 10*time.Second))
		check.Equalf(t, strings.Count(out.String(), "\n"), 2, "lines")
		if n := strings.Count(out.String(), "\r"); n != 70 {
			t.Errorf("drawn %d times", n)
		}
	})
}
