package riemann

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/tlsport"
)

// Options configure New. A zero field means its default.
type Options struct {
	// Auth authenticates clients and decides what they may do. Required.
	Auth Authority
	// Token is the token with which clients without a certificate act. "": the root key, of which
	// the listener only uses the rights to write Topic and to read the index.
	Token string
	// Port is that of framed.Options.
	Port *tlsport.Port
	// Topic has the events: riemann. It is created if it does not exist.
	Topic string
	// Received: a message is acknowledged when the broker has its events in memory, before they are
	// stored.
	Received bool
	// Patience is the time for which a message waits before it is refused, if waiting may help;
	// negative: none. 4 s.
	Patience time.Duration
	// MessageMax bounds a message, and the answer to a query: 1 MiB.
	MessageMax int
	// Index answers queries; nil: they are refused.
	Index Index
	// Connections bounds the open connections: 256.
	Connections int
	// AckTimeout bounds the wait of a message for the store: 60 s.
	AckTimeout time.Duration
	// Idle and Step are those of framed.Options: 1 h, 15 s.
	Idle, Step time.Duration
	// Now is the clock for timestamps of records: nil is time.Now.
	Now func() time.Time
	// Logger: nil discards. Metrics: nil creates a set.
	Logger  *slog.Logger
	Metrics *metrics.Set
}

// DefaultTopic, DefaultPatience and DefaultMessageMax are the defaults of Options.
const (
	DefaultTopic      = "riemann"
	DefaultPatience   = 4 * time.Second
	DefaultMessageMax = 1 << 20
)

// QueryMax bounds the text of a query.
const QueryMax = 4 << 10

// Index answers queries for the newest event of each host and service. Its methods may be called
// concurrently.
type Index interface {
	// Query returns the events for which an expression of Riemann's query language is true, each
	// encoded as the field events (6) of a Msg, at most limit bytes. It sees every event that was
	// committed to the topic before the call. The error is a sentence for the client, such as
	// "parse error: ..." or one that the answer has more than limit bytes.
	Query(ctx context.Context, text string, limit int) ([]byte, error)
}

// Validate reports all faults at once.
func (o *Options) Validate() error {
	var errs []error
	if o.Auth == nil {
		errs = append(errs, errors.New("auth: required"))
	}
	if o.Connections < 0 || o.MessageMax < 0 {
		errs = append(errs, fmt.Errorf("connections %d, largest message %d: want 1 or more", o.Connections, o.MessageMax))
	}
	for _, d := range []time.Duration{o.AckTimeout, o.Idle, o.Step} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("timeout %s: want more than 0", d))
		}
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Metrics = cmp.Or(o.Metrics, metrics.NewSet())
	o.Topic = cmp.Or(o.Topic, DefaultTopic)
	o.Patience = cmp.Or(o.Patience, DefaultPatience)
	o.MessageMax = cmp.Or(o.MessageMax, DefaultMessageMax)
	o.AckTimeout = cmp.Or(o.AckTimeout, time.Minute)
	o.Idle = cmp.Or(o.Idle, time.Hour)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}
