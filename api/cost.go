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
