package api

import "time"

// Cost is the answer to GET /cost: what the bucket has cost in this calendar month (UTC).
type Cost struct {
	Month    string        `json:"month"`  // 2026-11
	Prices   string        `json:"prices"` // name of the price list
	Requests []RequestCost `json:"requests"`
	Dollars  float64       `json:"dollars"` // of all requests of the month so far
	Storage  StorageCost   `json:"storage"`
	// PaceSeconds is the time over which the pace of requests was measured, at most an hour; 0: it is
	// not known yet.
	PaceSeconds int `json:"pace_seconds"`
	// MonthDollars is the price of a month at the present pace and size.
	MonthDollars float64 `json:"month_dollars"`
	// PutBudget is the budget of commit objects; null without one.
	PutBudget *PutBudget `json:"put_budget,omitempty"`
}

// PutBudget is the budget that decides how long commit objects collect records (--put-budget), in
// this calendar month. Used is commit objects, other PUTs and LISTs.
type PutBudget struct {
	Budget      string  `json:"budget"` // 20USD/month
	Puts        int64   `json:"puts"`
	UsedPuts    int64   `json:"used_puts"` // a LIST counts by its price
	Dollars     float64 `json:"dollars"`
	UsedDollars float64 `json:"used_dollars"`
	// IntervalMillis is how long the next object collects records; 0: it leaves at once.
	IntervalMillis int64 `json:"interval_millis"`
	// Exceeded is the part of the budget that was spent beyond what it allows up to now; 0: none.
	Exceeded        float64 `json:"exceeded"`
	ExceededDollars float64 `json:"exceeded_dollars"`
}

// RequestCost has the requests of one kind.
type RequestCost struct {
	Kind         string    `json:"kind"` // commit (PUTs of commit objects), put (all others), list, get or delete
	Count        int64     `json:"count"`
	Since        time.Time `json:"since"` // of count: the begin of the month, or later
	PerMillion   float64   `json:"per_million"`
	Dollars      float64   `json:"dollars"`
	MonthCount   int64     `json:"month_count"` // in a month at the present pace
	MonthDollars float64   `json:"month_dollars"`
}

// StorageCost is the price of the stored batches.
type StorageCost struct {
	Bytes        int64   `json:"bytes"`
	PerGBMonth   float64 `json:"per_gb_month"` // a GB has 10^9 bytes
	MonthDollars float64 `json:"month_dollars"`
}
