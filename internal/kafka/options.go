package kafka

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/group/coordinator"
	"github.com/sebbroker/seb/internal/logins"
	"github.com/sebbroker/seb/internal/tlsport"
)

// Options are what New needs besides the broker. A zero field means its default.
type Options struct {
	// APIKey is the password that clients must give by SASL. Required; only its digest is kept.
	APIKey string
	// Port is that of conn.Options.
	Port *tlsport.Port
	// Advertised is the address, "host:port", that clients are told to connect to. "": where each of them has connected to.
	Advertised string
	// Groups coordinates consumer groups. nil: the API keys about them are not served.
	Groups *coordinator.Coordinator
	// Connections is how many may be open: 256.
	Connections int
	// AckTimeout is the longest that a produce waits for the store; clients may ask for less. 60 s.
	AckTimeout time.Duration
	// Idle, TrustWithin and Step are those of conn.Options.
	Idle, TrustWithin, Step time.Duration
	// Logins notes failed logins; nil does not.
	Logins *logins.Failures
	// Logger; nil discards. Metrics; nil makes a set.
	Logger  *slog.Logger
	Metrics *metrics.Set
}

// Validate reports every fault at once.
func (o *Options) Validate() error {
	var errs []error
	if o.APIKey == "" {
		errs = append(errs, errors.New("an API key is required"))
	}
	if o.Advertised != "" {
		if _, err := splitAddress(o.Advertised); err != nil {
			errs = append(errs, err)
		}
	}
	if o.Connections < 0 {
		errs = append(errs, fmt.Errorf("connections %d: want 1 or more", o.Connections))
	}
	for _, d := range []time.Duration{o.AckTimeout, o.Idle, o.TrustWithin, o.Step} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("timeout %s: want more than 0", d))
		}
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = metrics.NewSet()
	}
	if o.AckTimeout == 0 {
		o.AckTimeout = time.Minute
	}
	return o
}

// address is where clients connect to.
type address struct {
	host string
	port int32
}

// CheckAddress says what is wrong with an address to advertise.
func CheckAddress(hostPort string) error {
	_, err := splitAddress(hostPort)
	return err
}

func splitAddress(hostPort string) (address, error) {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return address{}, fmt.Errorf("address %q: want host:port", hostPort)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || host == "" || n == 0 {
		return address{}, fmt.Errorf("address %q: want host:port, with a port from 1 to 65535", hostPort)
	}
	return address{host, int32(n)}, nil
}
