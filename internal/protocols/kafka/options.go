package kafka

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/group/coordinator"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/connlimit"
	"github.com/sebbroker/seb/internal/protocols/tlsport"
)

// Options configure New. A zero field means its default.
type Options struct {
	// Auth authenticates clients and decides what they may do. Required.
	Auth *auth.Authority
	// Port is that of framed.Options.
	Port *tlsport.Port
	// Advertised is the address, "host:port", that clients connect to. "": the local address of
	// their connection.
	Advertised string
	// Cluster tells of the other brokers of the bucket. nil: there are none.
	Cluster cluster.View
	// RootKey authenticates this broker at the leader. With a secure Port the connection uses TLS, as
	// ClusterTLS says; nil: with the authorities of the system.
	RootKey    string
	ClusterTLS *tls.Config
	// Groups coordinates consumer groups. nil: their API keys are not served.
	Groups *coordinator.Coordinator
	// Limits, Connections and TLSBytes are those of framed.Options.
	Limits      *connlimit.Limiter
	Connections int
	TLSBytes    int64
	// AckTimeout bounds the wait of a produce for the store: 60 s. Clients may request less.
	AckTimeout time.Duration
	// TransactionTimeout is the longest timeout of a transaction that a client may ask for: 15 min.
	TransactionTimeout time.Duration
	// LeaderWait bounds the time that metadata waits for a leader of Cluster: 2 s.
	LeaderWait time.Duration
	// Idle, AuthTimeout and Step are those of framed.Options.
	Idle, AuthTimeout, Step time.Duration
	// Logins counts failed logins; nil: it does not.
	Logins *auth.Failures
	// Logger: nil discards. Metrics: nil creates a set.
	Logger  *slog.Logger
	Metrics *metrics.Set
}

// Validate reports all faults at once.
func (o *Options) Validate() error {
	var errs []error
	if o.Auth == nil {
		errs = append(errs, errors.New("auth: required"))
	}
	if o.Advertised != "" {
		if _, err := splitAddress(o.Advertised); err != nil {
			errs = append(errs, err)
		}
	}
	if o.Connections < 0 {
		errs = append(errs, fmt.Errorf("connections %d: want 1 or more", o.Connections))
	}
	for _, d := range []time.Duration{o.AckTimeout, o.TransactionTimeout, o.LeaderWait, o.Idle, o.AuthTimeout, o.Step} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("timeout %s: want more than 0", d))
		}
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Metrics = cmp.Or(o.Metrics, metrics.NewSet())
	o.AckTimeout = cmp.Or(o.AckTimeout, time.Minute)
	o.TransactionTimeout = cmp.Or(o.TransactionTimeout, 15*time.Minute)
	o.LeaderWait = cmp.Or(o.LeaderWait, leaderWait)
	return o
}

// address is an address that clients connect to.
type address struct {
	host string
	port int32
}

// CheckAddress validates an advertised address.
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
