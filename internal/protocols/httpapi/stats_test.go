package httpapi

import (
	"reflect"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/cost"
	"github.com/sebbroker/seb/internal/engine/stats"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestStats(t *testing.T) {
	set := metrics.NewSet()
	s := start(t, func(c *setup) { c.http.Metrics = set })
	var off api.Stats
	if s.must(200, s.get("/stats"), &off); off.Reason == "" || len(off.Series) != 0 {
		t.Errorf("without statistics: %+v, want a reason", off)
	}
	sampler := must.Get(stats.Start(s.budget.Class(budget.Tail), set.WritePrometheus, s.api.o.Queues.Stats))(t)
	t.Cleanup(sampler.Close)
	s.api.o.Stats = sampler
	for path, want := range map[string]struct{ step, times int }{
		"/stats": {10, 360}, "/stats?window=1h": {10, 360}, "/stats?window=6h": {60, 360}, "/stats?window=24h": {60, 1440},
	} {
		var got api.Stats
		s.must(200, s.get(path), &got)
		if got.StepSeconds != want.step || len(got.Times) != want.times || got.Times[1]-got.Times[0] != int64(want.step) {
			t.Errorf("%s: steps of %d s, %d times, want %+v", path, got.StepSeconds, len(got.Times), want)
		}
		of := got.Series["http_connections"]
		if len(of.Values) != want.times || of.Unit != "connections" || of.Values[0] != nil {
			t.Errorf("%s: %d connections of unit %q, want %d, the first null", path, len(of.Values), of.Unit, want.times)
		}
	}
	newQueue(s, "q", "")
	var none api.Stats
	if s.must(200, s.get("/queues/q/stats"), &none); none.Reason == "" || len(none.Series) != 0 {
		t.Errorf("a queue that was not sampled: %+v, want a reason", none)
	}
	for _, bad := range []string{"2h", "", "1H"} {
		if p := s.get("/stats?window=" + bad).problem(t); p.Code != api.BadRequest || p.Field != "window" {
			t.Errorf("window %q: %+v", bad, p)
		}
	}
	key := s.token("client", time.Time{}, permit(access.Describe, access.Topic, access.Any))
	if a := s.matrix("GET", "/stats", "", "", authorization(key)); a.status != 403 {
		t.Errorf("without the right to metrics: %s, want 403", a)
	}
}

// TestLatency: each commit object is a value of acknowledgements and of PUTs.
func TestLatency(t *testing.T) {
	var latency stats.Latency
	s := start(t, func(c *setup) { c.broker.Latency, c.http.Latency = &latency, &latency })
	var off api.Latency
	if s.must(200, s.get("/latency"), &off); off.Reason == "" || off.Acks.Count != 0 || !off.Since.IsZero() {
		t.Errorf("without histograms: %+v, want a reason", off)
	}
	began := time.Now()
	must.NoError(t, latency.Start(s.budget.Class(budget.Tail), began))
	t.Cleanup(latency.Close)
	for range 3 {
		s.mustPost("topic-name=t", api.TextPlain, "v")
	}
	for _, window := range []string{"", "?window=1h", "?window=start"} {
		var got api.Latency
		s.must(200, s.get("/latency"+window), &got)
		for _, c := range []*api.LatencyCurve{&got.Acks, &got.Puts} {
			n := len(c.Percentiles)
			if c.Count < 3 || n != len(stats.Percentiles) || c.Max <= 0 || c.Max > time.Since(began).Seconds()*1.002 {
				t.Fatalf("/latency%s: %d values, %d percentiles, max %v", window, c.Count, n, c.Max)
			}
			if last := c.Percentiles[n-1]; last.Percentile != 99.999 || last.Count != c.Count || last.Seconds != c.Max || c.Percentiles[0].Count != 1 {
				t.Errorf("/latency%s: first %+v, last %+v of %d, max %v", window, c.Percentiles[0], last, c.Count, c.Max)
			}
		}
		if !got.Since.Equal(began) || got.Reason != "" {
			t.Errorf("/latency%s: since %s, want %s", window, got.Since, began)
		}
	}
	if p := s.get("/latency?window=24h").problem(t); p.Code != api.BadRequest || p.Field != "window" || p.Detail != `window: want 1h or start, given "24h"` {
		t.Errorf("an unknown window: %+v", p)
	}
	key := s.token("client", time.Time{}, permit(access.Describe, access.Topic, access.Any))
	if a := s.matrix("GET", "/latency", "", "", authorization(key)); a.status != 403 {
		t.Errorf("without the right to metrics: %s, want 403", a)
	}
}

func TestCost(t *testing.T) {
	s := start(t)
	var before, after api.Cost
	s.must(200, s.get("/cost"), &before)
	newTopic(s, "t", 1)
	s.must(200, s.get("/cost"), &after)
	if n := after.Requests[0].Count - before.Requests[0].Count; n != 1 || after.Requests[0].Kind != "commit" || after.Month != time.Now().UTC().Format("2006-01") {
		t.Errorf("%+v after %+v, want one commit object more", after, before)
	}
	key := s.token("client", time.Time{}, permit(access.Describe, access.Topic, access.Any))
	if a := s.matrix("GET", "/cost", "", "", authorization(key)); a.status != 403 {
		t.Errorf("without the right to metrics: %s, want 403", a)
	}
}

// TestCostHasEveryField: the answer has each field of the report.
func TestCostHasEveryField(t *testing.T) {
	c := costOf(cost.Report{
		Month: "2026-11", Prices: "p", Requests: []cost.Requests{{Kind: "put", Count: 1}}, Dollars: 1, Storage: cost.Storage{Bytes: 1}, PaceSeconds: 1, MonthDollars: 1,
		PutBudget: &cost.Spending{Puts: 1},
	})
	for v, i := reflect.ValueOf(c), 0; i < v.NumField(); i++ {
		check.Equalf(t, v.Field(i).IsZero(), false, "%s is missing", v.Type().Field(i).Name)
	}
}
