package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/bench/report"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// TestMain runs the bare server in the processes that the comparison starts.
func TestMain(m *testing.M) {
	if os.Getenv(bareVariable) != "" {
		if err := serveBare(); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// TestPairsRun runs every load of the table with the built program.
func TestPairsRun(t *testing.T) {
	program := must.Get(testenv.Build(t.TempDir()))(t)
	at := &place{program: program, tmpfs: t.TempDir(), disk: t.TempDir()}
	list := pairs(0)
	for i := range list {
		if testing.Short() && i > 0 {
			break
		}
		p := &list[i]
		r := must.Get(p.Run(t.Context(), at, 1, func() {}))(t)
		for _, s := range []Sample{r.SebSamples[0], r.BareSamples[0]} {
			if s.RecordsPerSecond <= 0 || s.CPU <= 0 || s.RSS < 1<<20 || s.MemoryLimit < 256<<20 || s.Objects <= 0 || s.Bytes <= 0 || s.P99 <= 0 {
				t.Errorf("%s: %+v", p.Name, s)
			}
		}
		var out strings.Builder
		if err := (&Report{Results: []*Result{r}}).Write(&out); err != nil || !strings.Contains(out.String(), p.Name) {
			t.Errorf("%v: %s", err, &out)
		}
	}
	checks, err := at.history(t.Context(), 0, 1, func() {})
	if err != nil || len(checks) != 3 || !strings.Contains(checks[0].Name, "10000 records in 10 objects") {
		t.Errorf("history: %+v, %v", checks, err)
	}
	checks, err = at.forward(t.Context(), 1, 100, 1, func() {})
	if err != nil || len(checks) != 2 || strings.Contains(checks[0].Value, " 0 µs") {
		t.Errorf("forward: %+v, %v", checks, err)
	}
	checks, err = at.follow(t.Context(), 300*time.Millisecond)
	if err != nil || len(checks) != 2 || strings.Contains(checks[0].Value, " 0 records") || strings.Contains(checks[1].Value, " 0 records") {
		t.Errorf("follow: %+v, %v", checks, err)
	}
	for _, connections := range []int{1, 16} {
		check, err := at.single(t.Context(), "--batch-wait-time 0", connections, 100, 1, func() {})
		if err != nil || !strings.Contains(check.Value, " µs, bare server ") || strings.Contains(check.Value, " 0.0 µs") {
			t.Errorf("single: %+v, %v", check, err)
		}
	}
	checks, err = at.catchUp(t.Context(), 0, 1, func() {})
	if err != nil || len(checks) != len(catchUpRows) || strings.Contains(checks[0].Value, " 0.00 GETs/MB") {
		t.Errorf("catch-up: %+v, %v", checks, err)
	}
	if check, err := at.start(1); err != nil || !strings.HasSuffix(check.Value, " ms") {
		t.Errorf("start: %+v, %v", check, err)
	}
}

func TestVerdicts(t *testing.T) {
	sample := func(rate, cpu float64, rss int64) Sample {
		return Sample{RecordsPerSecond: rate, CPU: cpu, RSS: rss, MemoryLimit: 1 << 20}
	}
	bare := []Sample{sample(100, 1, 0), sample(10, 1, 0), sample(100, 1, 0)}
	for name, c := range map[string]struct {
		seb []Sample
		met bool
	}{
		"the middle counts":      {[]Sample{sample(10, 1, 0), sample(10, 1, 0), sample(120, 1, 0)}, true},
		"each with its own pair": {[]Sample{sample(100, 1, 0), sample(9, 1, 0), sample(90, 1, 0)}, false},
		"CPU":                    {[]Sample{sample(100, 2, 0), sample(10, 2, 0), sample(100, 1, 0)}, false},
		"memory at worst":        {[]Sample{sample(100, 1, 0), sample(10, 1, 0), sample(100, 1, 33<<20+1)}, false},
		"memory a little beyond": {[]Sample{sample(100, 1, 0), sample(10, 1, 0), sample(100, 1, 33<<20)}, true},
	} {
		r := Result{Pair: Pair{Ratio: 1, CPU: 1, OwnMemory: true}, SebSamples: c.seb, BareSamples: bare}
		check.Equalf(t, r.met(), c.met, "%s: %v, ratios %v", name, !c.met, r.ratios())
	}
}

func TestQuantile(t *testing.T) {
	text := "x_bucket{le=\"0.001\"} 0\nx_bucket{le=\"0.01\"} 50\nx_bucket{le=\"0.1\"} 100\nx_bucket{le=\"+Inf\"} 100\ny_bucket{le=\"9\"} 100\n"
	for q, want := range map[float64]time.Duration{0.5: 10 * time.Millisecond, 0.25: 5500 * time.Microsecond, 1: 100 * time.Millisecond} {
		if got, err := quantile(text, "x", q); err != nil || (got-want).Abs() > time.Microsecond {
			t.Errorf("%v: %v, %v; want %v", q, got, err, want)
		}
	}
	check.Error(t, check.Err(quantile(text, "z", 0.5)), "a histogram that is not there has a quantile")
}

func TestPictureIsXML(t *testing.T) {
	sheet := report.Sheet{Columns: 2, Width: 420, Height: 290, Caption: "<caption>"}
	for _, s := range sweeps(1) {
		if len(s.Pairs) != len(s.Points) {
			t.Errorf("%s: %d pairs for %d points", s.Title, len(s.Pairs), len(s.Points))
		}
		var results []*Result
		for i := range s.Points {
			v := 1e5 * float64(1+i)
			results = append(results, &Result{SebSamples: []Sample{{RecordsPerSecond: v}, {RecordsPerSecond: 2 * v}}, BareSamples: []Sample{{RecordsPerSecond: v}}})
		}
		c := must.Get(s.chart(results))(t)
		sheet.Charts = append(sheet.Charts, c)
	}
	var out strings.Builder
	must.NoError(t, sheet.SVG(&out))
	d := xml.NewDecoder(strings.NewReader(out.String()))
	texts := 0
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		must.NoError(t, err)
		if e, ok := tok.(xml.StartElement); ok && e.Name.Local == "text" {
			texts++
		}
	}
	if texts < 4*8 {
		t.Errorf("%d texts", texts)
	}
}
