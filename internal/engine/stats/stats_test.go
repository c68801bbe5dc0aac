package stats

import (
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestTableFits(t *testing.T) {
	if len(table) != tableSize {
		t.Fatalf("tableSize is %d, the table has %d series", tableSize, len(table))
	}
	if Bytes > 350<<10 {
		t.Errorf("%d bytes, want at most 350 KiB", Bytes)
	}
}

// value returns the value of a series, as text, and - without one.
func (w *Window) value(t *testing.T, name string, at int) string {
	t.Helper()
	for _, s := range w.Series {
		if s.Name == name {
			if v := s.Values[(at+len(s.Values))%len(s.Values)]; !math.IsNaN(v) {
				return fmt.Sprintf("%.3g", v)
			}
			return "-"
		}
	}
	t.Fatalf("no series %s", name)
	return ""
}

// metricsSet has some of the metrics of a broker.
func metricsSet() (set *metrics.Set, records, puts, others *metrics.Counter, acks *metrics.PrometheusHistogram) {
	set = metrics.NewSet()
	set.NewGauge("seb_log_queue_bytes", func() float64 { return 7 })
	set.NewGauge(`seb_memory_reserved_bytes{class="a"}`, func() float64 { return 1 })
	set.NewGauge(`seb_memory_reserved_bytes{class="b"}`, func() float64 { return 2 })
	records = set.NewCounter("seb_http_produced_records_total")
	puts = set.NewCounter(`seb_store_requests_total{request="put",outcome="ok"}`)
	others = set.NewCounter(`seb_store_requests_total{request="put",outcome="exists"}`)
	return set, records, puts, others, set.NewPrometheusHistogram("seb_log_ack_seconds")
}

func TestFigures(t *testing.T) {
	set, records, puts, others, acks := metricsSet()
	began := time.Unix(1_800_000_000, 0)
	s := newSampler(set.WritePrometheus, began)
	records.Add(1000) // before the first sample: no rate
	s.sample(began)
	records.Add(50)
	puts.Add(10)
	others.Add(10)
	for range 98 {
		acks.Update(0.02) // in (0.01, 0.025]
	}
	acks.Update(0.4)
	acks.Update(99) // above the last bound, 10
	s.sample(began.Add(10 * time.Second))
	// Two steps without a sample, then one without a change.
	s.sample(began.Add(40 * time.Second))
	w := s.window(time.Hour, began.Add(40*time.Second))
	if len(w.Times) != 360 || w.Step != 10*time.Second || !w.Times[359].Equal(began.Add(40*time.Second)) || s.Values(time.Hour) != 360*tableSize {
		t.Fatalf("%d steps of %s to %s", len(w.Times), w.Step, w.Times[len(w.Times)-1])
	}
	for name, want := range map[string]string{
		"http_records_in": "- - 5 - - 0", "store_puts": "- - 2 - - 0", "store_gets": "- - - - - -", "queued": "- 7 7 - - 7", "memory": "- 3 3 - - 3",
		"commit_p50": "- - 0.0177 - - -", "commit_p99": "- - 0.5 - - -", "commit_p999": "- - 10 - - -", "kafka_bytes_in": "- - - - - -",
	} {
		var got []string
		for at := -6; at < 0; at++ {
			got = append(got, w.value(t, name, at))
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	day := s.window(24*time.Hour, began.Add(40*time.Second))
	if len(day.Times) != 1440 || day.Step != time.Minute || day.value(t, "queued", -1) != "7" || day.value(t, "http_records_in", -1) != "-" {
		t.Errorf("a day: %d steps of %s", len(day.Times), day.Step)
	}
}

func TestOldFiguresAreReplaced(t *testing.T) {
	set, records, _, _, _ := metricsSet()
	began := time.Unix(1_800_000_000, 0)
	s := newSampler(set.WritePrometheus, began)
	now := began
	for range 400 { // more than the ring has
		s.sample(now)
		records.Add(10)
		now = now.Add(10 * time.Second)
	}
	w := s.window(time.Hour, now.Add(-10*time.Second))
	for at := range 360 {
		must.Equalf(t, w.value(t, "http_records_in", at), "1", "step %d", at)
	}
	if six := s.window(6*time.Hour, now); len(six.Times) != 360 || six.value(t, "http_records_in", -1) != "1" || six.value(t, "http_records_in", 0) != "-" {
		t.Errorf("6 hours: %d steps, last %s", len(six.Times), six.value(t, "http_records_in", -1))
	}
	// After a gap longer than the ring only the newest sample has a value.
	now = now.Add(3 * time.Hour)
	s.sample(now)
	w = s.window(time.Hour, now)
	if w.value(t, "queued", -1) != "7" || w.value(t, "queued", -2) != "-" || w.value(t, "queued", 0) != "-" {
		t.Error("figures from before a gap are shown as new ones")
	}
}

func TestSamplesEveryStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		samples := 0
		class := budget.New(64 << 20).Class(budget.Tail)
		s := must.Get(Start(class, func(io.Writer) { samples++ }, nil))(t)
		check.Equalf(t, class.Used(), Bytes, "bytes reserved")
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		s.Close()
		if samples != 7 || class.Used() != 0 {
			t.Errorf("%d samples in a minute, %d bytes reserved after Close, want 7 and 0", samples, class.Used())
		}
	})
	if _, err := Start(budget.New(budget.LimitMin).Class(budget.Tail), func(io.Writer) {}, nil); err == nil || !strings.Contains(err.Error(), "more than a quarter") {
		t.Errorf("smallest memory limit: %v, want an error", err)
	}
	if s, err := Start(budget.New(27<<20).Class(budget.Tail), func(io.Writer) {}, nil); err != nil {
		t.Error(err)
	} else {
		s.Close()
	}
}
