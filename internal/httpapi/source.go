package httpapi

import (
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/httpapi/httpconn"
)

// Options are what NewSource needs besides the broker. All fields are required.
type readOptions struct {
	// BudgetWait is how long a patient reading waits for memory.
	BudgetWait time.Duration
	// Stops ends waits for records and for memory.
	Stops *httpconn.Stops
	// Pace is that of answers.
	Pace httpconn.Pace
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
	gate       httpconn.Gate
}

// NewSource returns the source of readings of b.
func NewSource(b *broker.Broker, o readOptions) *Source {
	s := &Source{
		b: b, o: o, fetch: b.Budget().Class(budget.Fetch), buffers: b.Budget().Buffers(), requestMax: b.Budget().RequestMax(),
	}
	// The rest is for readers that do not wait.
	s.gate.Size = s.fetch.Limit() / 4 * 3
	return s
}

// PatientBytes returns how many bytes the answers to patient readings take that are under way.
func (s *Source) PatientBytes() int64 { return s.gate.Used() }
