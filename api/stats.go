package api

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
