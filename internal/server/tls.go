package server

import (
	"log/slog"
	"net"
	"path/filepath"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/config"
	"github.com/sebbroker/seb/internal/tlsport"
)

// ports are the TLS parts of the listeners.
type ports struct {
	http, kafka *tlsport.Port
	certificate *tlsport.Certificate // nil without TLS
}

// newPorts loads the certificate, if there is one.
func newPorts(c *config.TLS, log *slog.Logger, set *metrics.Set) (ports, error) {
	var cert *tlsport.Certificate
	if c.CertFile != "" {
		var err error
		if cert, err = tlsport.Load(tlsport.Files{Cert: c.CertFile, Key: c.KeyFile}, log, set); err != nil {
			return ports{}, config.Faults{err}
		}
	}
	port := func(listener string, protocols ...string) *tlsport.Port {
		o := tlsport.Options{Name: listener, Protocols: protocols, Logger: log, Metrics: set}
		if c.On(listener) {
			o.Certificate = cert
		}
		return tlsport.NewPort(o)
	}
	return ports{port(config.ListenerHTTP, "http/1.1"), port(config.ListenerKafka), cert}, nil
}

// warnings returns the warnings for GET /status.
func (p *ports) warnings() []string {
	if p.certificate == nil {
		return nil
	}
	if end, soon := p.certificate.Expiry(time.Now()); soon {
		return []string{"the TLS certificate ends at " + end.UTC().Format(time.RFC3339)}
	}
	return nil
}

// tlsBytes is the additional memory of a TLS connection: the last record and the state of the
// ciphers.
func (p *ports) tlsBytes() int64 {
	if p.http.Secure() || p.kafka.Secure() {
		return 24 << 10
	}
	return 0
}

// warn logs the listeners whose clients send API keys and records in plain text through a network.
func (p *ports) warn(log *slog.Logger, httpAddress, kafkaAddress string) {
	for _, l := range []struct {
		name, address string
		port          *tlsport.Port
	}{{config.ListenerHTTP, httpAddress, p.http}, {config.ListenerKafka, kafkaAddress, p.kafka}} {
		if l.address != "" && !l.port.Secure() && !loopback(l.address) {
			log.Warn("API keys and records are sent in plain text: the listener is not on a loopback address and has no TLS (--tls-cert)",
				"listener", l.name, "address", l.address)
		}
	}
}

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && ip != nil && ip.IsLoopback()
}

// absolute returns an absolute path, for commands in other folders.
func absolute(file string) string {
	if path, err := filepath.Abs(file); err == nil {
		return path
	}
	return file
}
