package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/bench/result"

	"github.com/sebbroker/seb/bench/sut"
	"github.com/sebbroker/seb/bench/workload"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// run makes a run of n samples around a middle at a rate.
func run(t *testing.T, label string, keeps sut.Durability, rate, n, repeat int, middle time.Duration) result.Run {
	t.Helper()
	h := result.NewHistogram()
	rng := rand.New(rand.NewPCG(uint64(repeat), uint64(middle)))
	for range n {
		h.Record(int64(float64(middle) * (0.5 + rng.ExpFloat64())))
	}
	c := h.Curve()
	w := workload.Default()
	must.NoError(t, w.Set("rate", fmt.Sprint(rate)))
	w.Name = "a <name> & more"
	r := result.Run{Label: label, Repeat: repeat, Workload: w, System: sut.Info{System: label, Durability: keeps}, Colocated: true}
	r.Curves = result.Curves{AckIntended: c, AckSent: c, E2EIntended: &c, E2ESent: &c}
	r.Generator.Lag, r.Generator.OwnLag, r.Generator.Jitter = c, c, c
	r.Counts.SentRate, r.Validity.Valid = float64(rate), true
	for i := range 5 {
		r.Seconds = append(r.Seconds, result.Second{
			At: float64(i + 1), Phase: result.Measure, Sent: int64(rate), Ack: c, E2E: &c, BrokerCPU: 0.5, BrokerRSS: 50e6,
		})
	}
	return r
}

func works(t *testing.T) []*Work {
	t.Helper()
	f := &result.File{}
	for i := range 3 {
		f.Runs = append(f.Runs, run(t, "seb</script>", sut.Fsync, 1000, 20000, i+1, 20*time.Millisecond+time.Duration(i)*time.Millisecond),
			run(t, "redis", sut.Memory, 1000, 20000, i+1, 300*time.Microsecond))
	}
	f.Runs = append(f.Runs, run(t, "redis", sut.Memory, 5000, 20000, 1, 700*time.Microsecond))
	f.Runs[1].Counts.Lost = 7
	f.Runs[3].Validity.Valid = false
	all := must.Get(Works(f))(t)
	return all
}

func TestWorks(t *testing.T) {
	all := works(t)
	if len(all) != 2 || len(all[0].Lines) != 2 || len(all[0].Lines[0].Runs) != 3 || len(all[1].Lines) != 1 {
		t.Fatalf("%d works: %+v", len(all), all)
	}
	if !all[0].Unlike() || all[1].Unlike() {
		t.Error("fsync and memory are unlike, one line is not")
	}
	redis := all[0].Lines[1]
	check.Equalf(t, strings.Join(redis.Faults(), ", "), "1 of 3 runs invalid, 7 lost", "faults")
	redis.Runs[0].Counts.Unanswered = 3
	check.Equalf(t, strings.Join(redis.Faults(), ", "), "1 of 3 runs invalid, 3 unanswered, 7 not delivered by the end", "faults of a run that was behind")
	redis.Runs[0].Counts.Unanswered = 0
	redis.Runs[0].Seconds[4].Received = 1
	check.Equalf(t, strings.Join(redis.Faults(), ", "), "1 of 3 runs invalid, 7 not delivered by the end", "faults of a run whose messages still came")
	s, ok := redis.Percentile(result.E2EIntended, 99)
	if !ok || s.N != 3 || s.Least > s.Middle || s.Middle > s.Most || s.Middle < 1e6 || s.Middle > 2e6 {
		t.Errorf("p99: %+v, %v", s, ok)
	}
	if _, ok := redis.Percentile(result.E2EIntended, 99.99); ok {
		t.Error("p99.99 of 20,000 samples has two above it, and is shown")
	}
}

func TestTable(t *testing.T) {
	rows := works(t)[0].Table(result.E2EIntended)
	head, seb, redis := rows[0], rows[1], rows[2]
	if strings.Join(head, " ") != "system durability samples rate/s p50 p99 p99.9 max acknowledged p50 acknowledged p99 broker µs/message broker MB what went wrong" {
		t.Errorf("head: %q", head)
	}
	if seb[1] != "fsync" || seb[2] != "3 × 20 k" || seb[10] != "500" || seb[11] != "50" || seb[12] != "nothing" {
		t.Errorf("row: %q", seb)
	}
	if !strings.Contains(redis[5], "ms (") || redis[12] != "1 of 3 runs invalid, 7 lost" {
		t.Errorf("row: %q", redis)
	}
	var b bytes.Buffer
	must.NoError(t, Markdown(&b, works(t)))
	for _, want := range []string{"| system |", "|---|", "durabilities differ", "broker and generator share the machine"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in %s", want, b.String())
		}
	}
}

// TestPercentilesEnd: a line ends where fewer than ten samples are above.
func TestPercentilesEnd(t *testing.T) {
	c := works(t)[0].Percentiles(result.E2EIntended, result.E2ESent)
	if len(c.Lines) != 4 || !c.Lines[1].Dashed || c.Lines[0].Low == nil {
		t.Fatalf("lines: %d", len(c.Lines))
	}
	if last := c.Lines[0].X[len(c.Lines[0].X)-1]; last < 3.25 || last > 3.3011 { // 10 of 20,000 are 1 in 10^3.301
		t.Errorf("the line ends at %v nines, want 3.30", last)
	}
	if len(c.Lines[0].X) != len(c.Lines[0].Y) || len(c.Lines[0].Low) != len(c.Lines[0].X) {
		t.Error("columns of different lengths")
	}
	if !strings.Contains(c.Note, "durabilities differ") || !strings.Contains(c.Lines[0].Name, "(fsync)") {
		t.Errorf("%s, %s: unlike durabilities are not named", c.Note, c.Lines[0].Name)
	}
}

// TestSVG: pictures are well-formed with any label, and all points are inside the frame.
func TestSVG(t *testing.T) {
	all := works(t)
	knees := Knees(all, 99)
	must.Equal(t, len(knees), 1)
	empty := &Chart{Title: "nothing", X: Nines, Y: Log}
	for _, c := range append(knees, all[0].Percentiles(result.E2EIntended, result.E2ESent), all[0].Seconds(99), empty) {
		var b bytes.Buffer
		must.NoError(t, c.SVG(&b))
		wellFormed(t, b.Bytes())
		if strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "Inf") {
			t.Errorf("%s: a place that is no number", c.Title)
		}
		if dir := os.Getenv("SEB_BENCH_PICTURES"); dir != "" {
			os.WriteFile(fmt.Sprintf("%s/%d.svg", dir, b.Len()), b.Bytes(), 0o644)
		}
	}
}

// TestLoops: an open-loop work and its closed-loop counterpart share one picture, which includes
// the closed loop's curve from the send time.
func TestLoops(t *testing.T) {
	f := &result.File{}
	for i := range 2 {
		open, closed := run(t, "redis", sut.Memory, 1000, 20000, i+1, time.Millisecond), run(t, "redis", sut.Memory, 1000, 20000, i+1, time.Millisecond)
		closed.Workload.Loop = workload.Closed
		f.Runs = append(f.Runs, open, closed, run(t, "redis", sut.Memory, 2000, 20000, i+1, time.Millisecond))
	}
	all := must.Get(Works(f))(t)
	pictures := Pictures(all)
	names := map[string]*Chart{}
	for _, p := range pictures {
		if names[p.Name] != nil {
			t.Errorf("two pictures are called %s", p.Name)
		}
		names[p.Name] = p.Chart
	}
	c := names["loops"]
	if c == nil || len(c.Lines) != 2 || c.Lines[0].Dashed || !c.Lines[1].Dashed || !strings.Contains(c.Lines[1].Name, "closed loop") {
		t.Fatalf("pictures %v", names)
	}
	if len(pictures) != 2+3*3 || names["rates"] == nil || names["01-a--name----more-delivered"] == nil {
		t.Errorf("%d pictures: %v", len(pictures), names)
	}
}

// TestNarrowSVG: almost equal values still get an axis.
func TestNarrowSVG(t *testing.T) {
	for _, axis := range []Axis{Linear, Log} {
		for _, x := range []float64{0, 0.12, 1e9} {
			c := &Chart{X: axis, Y: axis, Lines: []Trace{{X: []float64{x + 1, math.Nextafter(x+1, 1e12)}, Y: []float64{x + 1, math.Nextafter(x+1, 1e12)}}}}
			var b bytes.Buffer
			must.NoError(t, c.SVG(&b))
			if n := strings.Count(b.String(), `class="grid"`); n < 2 || n > 40 || strings.Contains(b.String(), "NaN") {
				t.Errorf("%s at %v: %d marks", axis, x, n)
			}
		}
	}
	zero := &Chart{X: Log, Y: Log, Lines: []Trace{{X: []float64{0, 10}, Y: []float64{0, 10}, Low: []float64{0, 5}, High: []float64{0, 20}}}}
	var b bytes.Buffer
	if err := zero.SVG(&b); err != nil || strings.Contains(b.String(), "Inf") {
		t.Errorf("zeros on logarithmic axes: error %v\n%s", err, b.String())
	}
}

func wellFormed(t *testing.T, text []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
	}
}

func TestHTML(t *testing.T) {
	var b bytes.Buffer
	must.NoError(t, HTML(&b, works(t), result.ThisTool("v0")))
	text := b.String()
	if strings.Contains(text, "seb</script>") {
		t.Error("a label ends the script")
	}
	check.Equalf(t, strings.Count(text, `class="chart"`), 1+3+3, "charts")
	for _, bad := range []string{"http://", "https://"} { // needs nothing from elsewhere, but for names in the licence
		for _, tag := range []string{`src="` + bad, `href="` + bad} {
			if strings.Contains(text, tag) {
				t.Errorf("the page loads %s", tag)
			}
		}
	}
	if dir := os.Getenv("SEB_BENCH_PICTURES"); dir != "" {
		os.WriteFile(dir+"/page.html", b.Bytes(), 0o644)
	}
}
