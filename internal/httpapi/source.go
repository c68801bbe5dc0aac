package httpapi

import (
	"time"

	"github.com/VictoriaMetrics/metrics"
	"golang.org/x/sync/semaphore"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/httpapi/httpconn"
)

// readOptions configure NewSource. All fields are required.
type readOptions struct {
	// BudgetWait bounds the wait for memory of a reading with Waits.
	BudgetWait time.Duration
	// Drain ends waits for records and for memory.
	Drain *httpconn.DrainGroup
	// Timeout is the progress timeout of answers.
	Timeout httpconn.ProgressTimeout
	// Records and Bytes count what was read, before it is sent.
	Records, Bytes *metrics.Counter
}

// Source is the shared state of the readings of one broker. All methods may be called concurrently.
type Source struct {
	b          *broker.Broker
	o          readOptions
	fetch      *budget.Class
	buffers    *budget.Buffers
	requestMax int64
	// sem bounds the readings with Waits that are collected at once to gateSize bytes; others queue
	// in order. It estimates before the budget counts, so that an admitted reading finds memory and
	// need not stop half way.
	sem     *semaphore.Weighted
	semSize int64
}

// NewSource returns the source of readings of b.
func NewSource(b *broker.Broker, o readOptions) *Source {
	s := &Source{
		b: b, o: o, fetch: b.Budget().Class(budget.Fetch), buffers: b.Budget().Buffers(), requestMax: b.Budget().RequestMax(),
	}
	// The rest is for readings that do not wait.
	s.semSize = s.fetch.Limit() / 4 * 3
	s.sem = semaphore.NewWeighted(s.semSize)
	return s
}
