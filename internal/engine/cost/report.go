package cost

import "time"

// Report is what the bucket has cost in this calendar month (UTC). GET /cost answers it: package api
// describes the fields.
type Report struct {
	Month        string
	Prices       string
	Requests     []Requests
	Dollars      float64
	Storage      Storage
	PaceSeconds  int
	MonthDollars float64
	PutBudget    *Spending // nil without a budget of commit objects
}

// Spending is the use of the budget of PUTs.
type Spending struct {
	Budget          string
	Puts            int64
	UsedPuts        int64
	Dollars         float64
	UsedDollars     float64
	IntervalMillis  int64
	Exceeded        float64
	ExceededDollars float64
}

// Requests are the requests of one kind.
type Requests struct {
	Kind         string
	Count        int64
	Since        time.Time
	PerMillion   float64
	Dollars      float64
	MonthCount   int64
	MonthDollars float64
}

// Storage is the price of the stored batches.
type Storage struct {
	Bytes        int64
	PerGBMonth   float64
	MonthDollars float64
}
