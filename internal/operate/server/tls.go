package server

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/tlsport"
)

// ports are the TLS parts of the listeners.
type ports struct {
	http, kafka, riemann, riemannWeb *tlsport.Port
	certificate                      *tlsport.Certificate // nil without TLS
	clients                          *tlsport.Clients     // nil without certificates of clients
}

// newPorts loads the certificate, and the authorities of clients, if there are any. The caller closes
// the ports.
func newPorts(c *config.TLS, log *slog.Logger, set *metrics.Set) (p ports, err error) {
	if c.CertFile != "" {
		if p.certificate, err = tlsport.Load(tlsport.Files{Cert: c.CertFile, Key: c.KeyFile}, log, set); err != nil {
			return ports{}, config.Faults{err}
		}
	}
	if ask, require := c.Clients(); ask {
		mapping, err := auth.ParseMapping(c.PrincipalMapping)
		if err != nil {
			return ports{}, config.Faults{fmt.Errorf("--tls-principal-mapping: %w", err)}
		}
		p.clients, err = tlsport.NewClients(tlsport.ClientOptions{
			Authorities: c.ClientCA, Revoked: c.ClientCRL, Require: require, Principal: mapping.Principal, Logger: log, Metrics: set,
		})
		if err != nil {
			return ports{}, config.Faults{err}
		}
		log.Info("TLS: certificates of clients", "required", require, "authorities", c.ClientCA, "revocation_list", c.ClientCRL)
	}
	port := func(listener string, protocols ...string) *tlsport.Port {
		o := tlsport.Options{Name: listener, Protocols: protocols, Logger: log, Metrics: set}
		if c.On(listener) {
			o.Certificate, o.Clients = p.certificate, p.clients
		}
		return tlsport.NewPort(o)
	}
	p.http, p.kafka = port(config.ListenerHTTP, "http/1.1"), port(config.ListenerKafka)
	p.riemann, p.riemannWeb = port(config.ListenerRiemann), port(config.ListenerRiemannWeb, "http/1.1")
	return p, nil
}

// clusterTLS is the configuration of connections to other brokers; nil without TLS. It trusts the
// authorities of the system, those of clients, and the certificate of this broker, because all brokers
// may use one. It presents that certificate as linkTLS does.
func (p *ports) clusterTLS(c *config.TLS) (*tls.Config, error) {
	if c.CertFile == "" {
		return nil, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	for _, file := range []string{c.CertFile, c.ClientCA} {
		if file == "" {
			continue
		}
		certs, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		pool.AppendCertsFromPEM(certs)
	}
	trusts := p.linkTLS(c)
	if trusts == nil {
		trusts = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	trusts.RootCAs = pool
	return trusts, nil
}

// linkTLS is the configuration of links to the HTTP ports of other brokers. If those require
// certificates of clients, they get that of this broker. nil: no certificate.
func (p *ports) linkTLS(c *config.TLS) *tls.Config {
	if _, require := c.Clients(); !require || p.certificate == nil {
		return nil
	}
	return p.certificate.Dialer()
}

// warnings returns the warnings for GET /status.
func (p *ports) warnings() (list []string) {
	now := time.Now()
	if p.certificate != nil {
		if end, soon := p.certificate.Expiry(now); soon {
			list = append(list, "the TLS certificate ends at "+end.UTC().Format(time.RFC3339))
		}
	}
	if p.clients != nil {
		if next, is := p.clients.Outdated(now); is {
			list = append(list, "the revocation list of client certificates is outdated since "+next.UTC().Format(time.RFC3339))
		}
	}
	return list
}

// tlsBytes is the additional memory of a connection of a port with TLS: the last record and the state of the
// ciphers, and with certificates of clients a chain of three, which takes three times its size and
// 7 KiB.
func (p *ports) tlsBytes(of *tlsport.Port) int64 {
	switch {
	case !of.Secure():
		return 0
	case p.clients == nil:
		return 24 << 10
	}
	return 48 << 10
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
