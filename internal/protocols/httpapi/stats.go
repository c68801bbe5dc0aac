package httpapi

import (
	"context"
	"math"
	"net/http"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/cost"
	"github.com/sebbroker/seb/internal/engine/stats"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
)

// statsWindows are the spans of GET /stats.
var statsWindows = map[string]time.Duration{"1h": time.Hour, "6h": 6 * time.Hour, "24h": 24 * time.Hour}

// statsBytes is the memory of a value in an answer, decoded and encoded.
const statsBytes = 64

// latencyPointBytes is the memory of a point of GET /latency, decoded and encoded.
const latencyPointBytes = 256

// getLatency answers with the distributions of the times of acknowledgements and PUTs. It makes no
// request to the store.
func (a *API) getLatency(w http.ResponseWriter, r *http.Request, _ *caller) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	name, given := q.Text(httpconn.ParamWindow)
	if !given {
		name = "1h"
	}
	if name != "1h" && name != "start" {
		q.Fail(httpconn.ParamWindow, "want 1h or start, given %s", problem.Quote(name))
	}
	if q.Fault != nil {
		return q.Fault
	}
	memory, err := a.small(stats.CurvesBytes + int64(2*len(stats.Percentiles))*latencyPointBytes)
	if err != nil {
		return err
	}
	defer memory.Release()
	curves, since, ok := a.o.Latency.Curves(name == "1h")
	out := api.Latency{Window: name, Since: since.UTC(), Acks: curveOf(&curves[stats.Acks]), Puts: curveOf(&curves[stats.Puts])}
	if !ok {
		out.Since, out.Reason = time.Time{}, "--memory-limit is too small for histograms"
	}
	return a.writeJSON(w, http.StatusOK, &out)
}

// curveOf returns a distribution as in answers.
func curveOf(c *stats.Curve) api.LatencyCurve {
	out := api.LatencyCurve{Count: c.Count, Max: c.Max.Seconds(), Percentiles: []api.LatencyPoint{}}
	for i, at := range c.At {
		p := stats.Percentiles[i]
		out.Percentiles = append(out.Percentiles, api.LatencyPoint{Percentile: p, Seconds: at.Seconds(), Count: stats.Rank(p, c.Count)})
	}
	return out
}

// getCost answers what the bucket costs. The meter may read from the store at the begin of a month.
func (a *API) getCost(w http.ResponseWriter, _ *http.Request, _ *caller) error {
	return a.writeJSON(w, http.StatusOK, costOf(a.o.Cost.Report()))
}

// getStats answers with the figures of the last hours. It makes no request to the store.
func (a *API) getStats(w http.ResponseWriter, r *http.Request, _ *caller) error {
	name, span, err := windowOf(r)
	if err != nil {
		return err
	}
	if a.o.Stats == nil {
		out := statsOf(name, &stats.Window{})
		out.Reason = "--memory-limit is too small for statistics"
		return a.writeJSON(w, http.StatusOK, out)
	}
	memory, err := a.small(int64(a.o.Stats.Values(span)) * statsBytes)
	if err != nil {
		return err
	}
	defer memory.Release()
	window := a.o.Stats.Window(span)
	return a.writeJSON(w, http.StatusOK, statsOf(name, &window))
}

// windowOf reads the parameter window.
func windowOf(r *http.Request) (name string, span time.Duration, err error) {
	q := httpconn.ParseParams(r.URL.RawQuery)
	name, given := q.Text(httpconn.ParamWindow)
	if !given {
		name = "1h"
	}
	span, known := statsWindows[name]
	if !known {
		q.Fail(httpconn.ParamWindow, "want 1h, 6h or 24h, given %s", problem.Quote(name))
	}
	if q.Fault != nil {
		return "", 0, q.Fault
	}
	return name, span, nil
}

// statsOf returns figures as in answers.
func statsOf(name string, window *stats.Window) *api.Stats {
	s := &api.Stats{Window: name, StepSeconds: int(window.Step / time.Second), Times: []int64{}, Series: map[string]api.StatsSeries{}}
	for _, t := range window.Times {
		s.Times = append(s.Times, t.Unix())
	}
	for i := range window.Series {
		of := &window.Series[i]
		values := make([]*float64, len(of.Values))
		for k := range of.Values {
			if !math.IsNaN(of.Values[k]) {
				values[k] = &of.Values[k]
			}
		}
		s.Series[of.Name] = api.StatsSeries{Unit: of.Unit, Values: values}
	}
	return s
}

// getTime answers with log time. It makes no request to the store.
func (a *API) getTime(w http.ResponseWriter, _ *http.Request, _ *caller) error {
	return a.writeTime(w, a.b.LogTime())
}

// postTimeReset moves log time back after a wrong clock has put it into the future.
func (a *API) postTimeReset(w http.ResponseWriter, r *http.Request, by *caller) error {
	ctx, cancel := context.WithTimeout(r.Context(), a.o.AckTimeout)
	defer cancel()
	ctx, err := by.changing(ctx, access.Alter, access.Cluster, access.ClusterName)
	if err != nil {
		return err
	}
	t, err := a.b.ResetTime(ctx)
	if err != nil {
		return err
	}
	return a.writeTime(w, t)
}

func (a *API) writeTime(w http.ResponseWriter, t broker.LogTime) error {
	out := api.LogTime{Last: t.Last.UTC(), Now: t.Now.UTC()}
	if t.Err != nil {
		out.Error = t.Err.Error()
	}
	return a.writeState(w, http.StatusOK, &out)
}

// getUpgrade answers with the bucket's format level. It makes no request to the store.
func (a *API) getUpgrade(w http.ResponseWriter, _ *http.Request, _ *caller) error {
	return a.writeLevel(w, a.b.Level())
}

// postUpgrade raises the bucket to the highest format level that the broker supports.
func (a *API) postUpgrade(w http.ResponseWriter, r *http.Request, by *caller) error {
	ctx, cancel := context.WithTimeout(r.Context(), a.o.AckTimeout)
	defer cancel()
	ctx, err := by.changing(ctx, access.Alter, access.Cluster, access.ClusterName)
	if err != nil {
		return err
	}
	level, err := a.b.Raise(ctx)
	if err != nil {
		return err
	}
	return a.writeLevel(w, level)
}

func (a *API) writeLevel(w http.ResponseWriter, v broker.Level) error {
	out := api.Upgrade{Level: int(v.Now), HighestLevel: int(v.Max), RaiseAt: v.RaiseAt.UTC()}
	return a.writeState(w, http.StatusOK, &out)
}

// costOf returns a report as the answer has it.
func costOf(r cost.Report) api.Cost {
	c := api.Cost{
		Month: r.Month, Prices: r.Prices, Dollars: r.Dollars, Storage: api.StorageCost(r.Storage),
		PaceSeconds: r.PaceSeconds, MonthDollars: r.MonthDollars, PutBudget: (*api.PutBudget)(r.PutBudget),
	}
	for _, kind := range r.Requests {
		c.Requests = append(c.Requests, api.RequestCost(kind))
	}
	return c
}
