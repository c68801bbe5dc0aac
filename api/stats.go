package api

import "time"

// Stats is the answer to GET /stats: figures of the last hours at a fixed step.
type Stats struct {
	//openapi:enum ['1h', '6h', '24h']
	Window      string                 `json:"window"`
	Reason      string                 `json:"reason,omitempty"` // Why the broker keeps no series.
	StepSeconds int                    `json:"step_seconds"`
	Times       []int64                `json:"times"`  // Unix time of each value, in seconds.
	Series      map[string]StatsSeries `json:"series"` // By name.
}

// StatsSeries has a value for each of the times of the answer.
type StatsSeries struct {
	Unit string `json:"unit"`
	// For each of the times; null if the broker did not run, or had nothing to measure. A rate or a
	// quantile covers the step before its time.
	//openapi:items {nullable: true}
	Values []*float64 `json:"values"`
}

// Latency is the answer to GET /latency: how long acknowledgements and PUTs took. Durations have
// three significant digits.
type Latency struct {
	//openapi:enum ['1h', start]
	Window string    `json:"window"`
	Since  time.Time `json:"since,omitzero"`   // No value is older.
	Reason string    `json:"reason,omitempty"` // Why there are no values.
	// From the oldest append of each commit object to its acknowledgement.
	Acks LatencyCurve `json:"acks"`
	// Of each commit object.
	Puts LatencyCurve `json:"puts"`
}

// LatencyCurve is a distribution of durations in seconds. Each commit object has one value: the
// time of its PUT, or from its oldest append to the acknowledgement.
type LatencyCurve struct {
	Count int64   `json:"count"`
	Max   float64 `json:"max"` // In seconds.
	// Ascending from 0 to 99.999; empty without values.
	Percentiles []LatencyPoint `json:"percentiles"`
}

// LatencyPoint is one percentile.
type LatencyPoint struct {
	Percentile float64 `json:"percentile"`
	Seconds    float64 `json:"seconds"`
	Count      int64   `json:"count"` // How many values took at most that.
}
