package httpapi

import (
	"time"

	"github.com/VictoriaMetrics/metrics"
	"golang.org/x/sync/semaphore"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/httpapi/httpconn"
)

// Options are what NewSource needs besides the broker. All fields are required.
type readOptions struct {
	// BudgetWait is how long a patient reading waits for memory.
	BudgetWait time.Duration
	// Stops ends waits for records and for memory.
	Stops *httpconn.DrainGroup
	// Pace is that of answers.
	Pace httpconn.ProgressTimeout
	// Records and Bytes count what was read, before it is sent.
	Records, Bytes *metrics.Counter
}

// Source is what readings of one broker share. All methods may be called concurrently.
type Source struct {
	b          *broker.Broker
	o          readOptions
	fetch      *budget.Class
	buffers    *budget.Buffers
	requestMax int64
	// gate lets patient readings of gateSize bytes together be collected at once; others wait,
	// first come, first served. It guesses before what the budget counts when it happens: a reading
	// that is let in finds memory, and need not stop half way.
	gate     *semaphore.Weighted
	gateSize int64
}

// NewSource returns the source of readings of b.
func NewSource(b *broker.Broker, o readOptions) *Source {
	s := &Source{
		b: b, o: o, fetch: b.Budget().Class(budget.Fetch), buffers: b.Budget().Buffers(), requestMax: b.Budget().RequestMax(),
	}
	// The rest is for readers that do not wait.
	s.gateSize = s.fetch.Limit() / 4 * 3
	s.gate = semaphore.NewWeighted(s.gateSize)
	return s
}
