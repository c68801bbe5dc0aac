package load

import (
	"fmt"
	"time"

	"github.com/sebbroker/seb/bench/result"
)

// judgedBy is the percentile at which lag and latency are compared.
const judgedBy = 99

// judge decides whether the figures describe the system: the generator's own lag must be small
// compared with them. A system that is slow to accept messages does not make a run invalid.
func (r *run) judge() {
	name, curve := r.res.Curves.Headline()
	own := &r.res.Generator.OwnLag
	v := result.Validity{Valid: true, Curve: name, Limit: r.w.LagLimit, LagNs: tail(own), P99Ns: tail(curve)}
	if r.res.Counts.Measured == 0 {
		v.Reasons = append(v.Reasons, "no messages were measured")
	}
	if limit := r.w.LagLimit / 100 * float64(v.P99Ns); float64(v.LagNs) > limit && v.LagNs > int64(result.Lowest) {
		v.Reasons = append(v.Reasons, fmt.Sprintf("the generator itself was late: its p99 is %v, more than %v %% of the p99 of %s, which is %v",
			time.Duration(v.LagNs), r.w.LagLimit, name, time.Duration(v.P99Ns)))
	}
	if ack := tail(&r.res.Curves.AckIntended); name != result.AckIntended && float64(v.LagNs) > r.w.LagLimit/100*float64(ack) {
		v.Notes = append(v.Notes, fmt.Sprintf("the generator's own lag (p99 %v) is a large part of %s (p99 %v): read %s",
			time.Duration(v.LagNs), result.AckIntended, time.Duration(ack), result.AckSent))
	}
	if !result.Shown(judgedBy, own.Count) {
		v.Notes = append(v.Notes, fmt.Sprintf("compared by maxima: %d messages are too few for p%v", own.Count, judgedBy))
	}
	if r.res.Colocated {
		v.Notes = append(v.Notes, "generator and system share one machine: do not compare with measurements between machines")
	}
	if r.res.Curves.AckIntended.Negative > 0 || curve.Negative > 0 {
		v.Notes = append(v.Notes, "some latencies are negative: the clocks of sender and receiver differ")
	}
	v.Valid = len(v.Reasons) == 0
	r.res.Validity = v
}

// tail returns the percentile that is judged, or the maximum if there are too few samples for it.
func tail(c *result.Curve) int64 {
	if d, ok := c.At(judgedBy); ok {
		return int64(d)
	}
	return c.MaxNs
}
