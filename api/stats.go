package api

import "time"

// Stats is the answer to GET /stats: figures of the last hours at a fixed step.
type Stats struct {
	Window      string                 `json:"window"`           // 1h, 6h or 24h
	Reason      string                 `json:"reason,omitempty"` // why the broker keeps no series
	StepSeconds int                    `json:"step_seconds"`
	Times       []int64                `json:"times"` // Unix seconds
	Series      map[string]StatsSeries `json:"series"`
}

// StatsSeries has a value for each of the Times. It is null if the broker did not run, or had
// nothing to measure. A rate or a quantile covers the step before its time.
type StatsSeries struct {
	Unit   string     `json:"unit"`
	Values []*float64 `json:"values"`
}

// Latency is the answer to GET /latency: how long acknowledgements and PUTs took. Durations have
// three significant digits.
type Latency struct {
	Window string    `json:"window"`           // 1h or start
	Since  time.Time `json:"since,omitzero"`   // no value is older
	Reason string    `json:"reason,omitempty"` // why there are no values
	// Acks are the times from the oldest append of each commit object to its acknowledgement.
	Acks LatencyCurve `json:"acks"`
	Puts LatencyCurve `json:"puts"` // of each commit object
}

// LatencyCurve is a distribution of durations in seconds.
type LatencyCurve struct {
	Count       int64          `json:"count"`
	Max         float64        `json:"max"`
	Percentiles []LatencyPoint `json:"percentiles"` // 0 to 99.999; empty without values
}

// LatencyPoint is one percentile: Count of the values took at most Seconds.
type LatencyPoint struct {
	Percentile float64 `json:"percentile"`
	Seconds    float64 `json:"seconds"`
	Count      int64   `json:"count"`
}
