package api

import "time"

// Cost is the answer to GET /cost: what the bucket has cost in this calendar month (UTC).
type Cost struct {
	Month    string        `json:"month"`  // Such as 2026-11.
	Prices   string        `json:"prices"` // Name of the price list.
	Requests []RequestCost `json:"requests"`
	Dollars  float64       `json:"dollars"` // Of all requests of the month so far.
	Storage  StorageCost   `json:"storage"`
	// Time over which the pace of requests was measured, at most an hour. 0 if it is not known yet.
	PaceSeconds  int     `json:"pace_seconds"`
	MonthDollars float64 `json:"month_dollars"` // Of a month at the present pace and size.
	// Absent without a budget of commit objects.
	PutBudget *PutBudget `json:"put_budget,omitempty"`
}

// PutBudget is the budget that decides how long commit objects collect records (--put-budget), in
// this calendar month. Used is commit objects, other PUTs and LISTs.
type PutBudget struct {
	Budget      string  `json:"budget"` // Such as 20USD/month.
	Puts        int64   `json:"puts"`
	UsedPuts    int64   `json:"used_puts"` // A LIST counts by its price.
	Dollars     float64 `json:"dollars"`
	UsedDollars float64 `json:"used_dollars"`
	// How long the next object collects records. 0 if it leaves at once.
	IntervalMillis int64 `json:"interval_millis"`
	// Part of the budget that was spent beyond what it allows up to now.
	Exceeded        float64 `json:"exceeded"`
	ExceededDollars float64 `json:"exceeded_dollars"`
}

// RequestCost has the requests of one kind.
type RequestCost struct {
	// PUTs of commit objects, all other PUTs, and the other requests.
	//openapi:enum [commit, put, list, get, delete]
	Kind         string    `json:"kind"`
	Count        int64     `json:"count"`
	Since        time.Time `json:"since"`       // Begin of the month or of the count.
	PerMillion   float64   `json:"per_million"` // Dollars.
	Dollars      float64   `json:"dollars"`
	MonthCount   int64     `json:"month_count"` // In a month at the present pace.
	MonthDollars float64   `json:"month_dollars"`
}

// StorageCost is the price of the stored batches.
type StorageCost struct {
	// Batches of records, and of deleted records that packs still hold.
	Bytes int64 `json:"bytes"`
	// Dollars. A GB has 10^9 bytes.
	PerGBMonth   float64 `json:"per_gb_month"`
	MonthDollars float64 `json:"month_dollars"`
}
