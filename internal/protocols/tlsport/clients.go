package tlsport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// ClientOptions configure NewClients. Authorities, Principal, Logger and Metrics are required.
type ClientOptions struct {
	Authorities string // PEM file of the authorities that sign the certificates of clients
	Revoked     string // file of revocation lists; "": none
	Require     bool   // refuse clients without a certificate
	// Principal returns the ID of the principal that has a certificate. The error is one sentence.
	Principal func(*x509.Certificate) (string, error)
	Logger    *slog.Logger
	Metrics   *metrics.Set
}

// Clients verifies certificates of clients, and ends the connections of those that are no longer
// valid. It reads its files again when they change. Its methods may be called concurrently.
type Clients struct {
	o       ClientOptions
	refused map[string]*metrics.Counter // by reason
	trust   atomic.Pointer[trust]
	stop    func()
	ended   sync.WaitGroup

	mu   sync.Mutex // guards open
	open map[*Conn]struct{}
}

// The reasons of refused client certificates, in logs and metrics.
const (
	reasonMissing   = "missing"
	reasonExpired   = "expired"
	reasonUntrusted = "untrusted"
	reasonRevoked   = "revoked"
	reasonPrincipal = "principal"
)

// NewClients reads the files. Errors name the setting and the file. The caller calls Close.
func NewClients(o ClientOptions) (*Clients, error) {
	c := &Clients{o: o, refused: map[string]*metrics.Counter{}, open: map[*Conn]struct{}{}}
	files := watch(o.Authorities, o.Revoked)
	t, err := loadTrust(o.Authorities, o.Revoked)
	if err != nil {
		return nil, err
	}
	c.trust.Store(t)
	for _, reason := range []string{reasonMissing, reasonExpired, reasonUntrusted, reasonRevoked, reasonPrincipal} {
		c.refused[reason] = o.Metrics.NewCounter(fmt.Sprintf("seb_tls_client_certificates_refused_total{reason=%q}", reason))
	}
	o.Metrics.NewGauge("seb_tls_client_crl_next_update_seconds", func() float64 {
		if next := c.trust.Load().next; !next.IsZero() {
			return float64(next.Unix())
		}
		return 0
	})
	done := make(chan struct{})
	c.stop = sync.OnceFunc(func() { close(done) })
	c.ended.Go(func() { c.run(files, done) })
	return c, nil
}

// Close ends the checks of files and of open connections. A nil Clients may be closed.
func (c *Clients) Close() {
	if c != nil {
		c.stop()
		c.ended.Wait()
	}
}

// Outdated returns when the first revocation list was to be replaced, and whether that has passed.
func (c *Clients) Outdated(now time.Time) (next time.Time, is bool) {
	next = c.trust.Load().next
	return next, !next.IsZero() && now.After(next)
}

// run reads changed files, and ends connections whose certificates are no longer valid.
func (c *Clients) run(files watched, done <-chan struct{}) {
	var warned *trust // its outdated list is logged
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		now := time.Now()
		if next, is := c.Outdated(now); is && warned != c.trust.Load() {
			warned = c.trust.Load()
			c.o.Logger.Warn("TLS: revocation list is outdated; it stays in use", "file", c.o.Revoked, "next_update", next.UTC())
		}
		for _, conn := range c.list() {
			if now.After(conn.peer.ends) {
				conn.expel(&tls.CertificateVerificationError{UnverifiedCertificates: conn.peer.chain, Err: errEnded})
			}
		}
		select {
		case <-done:
			return
		case now = <-tick.C:
		}
		if changed, again := files.changed(now); changed {
			c.reload(again)
		}
	}
}

// reload reads the files and applies them to the open connections. If one is invalid, both stay as
// they are. again: they were read in this state before.
func (c *Clients) reload(again bool) {
	t, err := loadTrust(c.o.Authorities, c.o.Revoked)
	switch {
	case err != nil && !again:
		c.o.Logger.Warn("TLS: changed authorities or revocation list of clients are invalid; keeping the current ones", "err", err)
		return
	case err != nil || t.sum == c.trust.Load().sum:
		return
	}
	c.trust.Store(t)
	c.o.Logger.Info("TLS: authorities and revocation list of clients reloaded", "revoked", len(t.revoked))
	for _, conn := range c.list() {
		conn.verifyAgain(t)
	}
}

func (c *Clients) list() []*Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]*Conn, 0, len(c.open))
	for conn := range c.open {
		list = append(list, conn)
	}
	return list
}

// chainMax bounds the certificates that a client may send. Hundreds of small ones, of which only the
// first matters, would take much more memory than their bytes in the handshake.
const chainMax = 5

// limit is called when package tls has verified the certificates of a handshake, before the client has
// proved that it has the key.
func (c *Clients) limit(sent [][]byte, chains [][]*x509.Certificate) error {
	if len(sent) <= chainMax {
		return nil
	}
	return &tls.CertificateVerificationError{
		UnverifiedCertificates: chains[0], Err: fmt.Errorf("%d certificates, the limit is %d", len(sent), chainMax),
	}
}

// verify is called at the end of each handshake. Package tls has verified the certificates, except
// those of a resumed session.
func (c *Clients) verify(s tls.ConnectionState) error {
	if len(s.PeerCertificates) == 0 {
		return nil
	}
	known := s.VerifiedChains
	if s.DidResume {
		known = nil
	}
	_, err := c.trust.Load().chain(s.PeerCertificates, known)
	return err
}

// errEnded: a certificate ended while its connection was open.
var errEnded = errors.New("certificate has ended")

// reasonOf returns why a client's certificate was refused; "" for another error.
func reasonOf(err error) string {
	var verification *tls.CertificateVerificationError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.Is(err, errRevoked):
		return reasonRevoked
	case errors.Is(err, errEnded), errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return reasonExpired
	case errors.As(err, &verification):
		return reasonUntrusted
	case err.Error() == "tls: client didn't provide a certificate": // package tls has no value for it
		return reasonMissing
	}
	return ""
}

// refuse logs and counts a refused certificate.
func (p *Port) refuse(reason string, remote net.Addr, err error) {
	p.clients.refused[reason].Inc()
	more := []any{"reason", reason}
	if v, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		cert := v.UnverifiedCertificates[0]
		more = append(more, "subject", fmt.Sprintf("%.200s", cert.Subject), "serial", fmt.Sprintf("%X", cert.SerialNumber)) // as openssl prints it
	}
	p.note(p.log.Warn, "TLS: client certificate refused", remote, err, more...)
}

// Peer is the verified certificate of a connection's client. Its methods may be called concurrently.
type Peer struct {
	// Login is for the layer that authenticates, which keeps its result for the connection here.
	Login atomic.Value

	clients   *Clients
	chain     []*x509.Certificate // the client's certificate first
	serials   []serial            // of chain
	ends      time.Time           // the first end of a certificate of the chain
	principal func() (string, error)
}

// Ends is when the certificate, or one of an authority above it, ends.
func (p *Peer) Ends() time.Time { return p.ends }

// Revoked reports whether the newest revocation lists contain the certificate.
func (p *Peer) Revoked() bool { return p.clients.trust.Load().revokes(p.serials) }

// Principal returns the ID of the principal that has the certificate. The first call logs and counts
// an error.
func (p *Peer) Principal() (string, error) { return p.principal() }

// Peer returns the certificate of the client; nil if it has none, or before the handshake.
func (c *Conn) Peer() *Peer { return c.peer }

// enroll registers a connection after its handshake, which began with t.
func (c *Conn) enroll(t *trust) error {
	clients, s := c.port.clients, c.ConnectionState()
	if len(s.PeerCertificates) == 0 {
		return nil
	}
	chain, err := t.chain(s.PeerCertificates, s.VerifiedChains)
	if err != nil {
		return err
	}
	peer := &Peer{clients: clients, chain: chain, serials: serialsOf(chain), ends: chain[0].NotAfter}
	for _, cert := range chain[1:] {
		if cert.NotAfter.Before(peer.ends) {
			peer.ends = cert.NotAfter
		}
	}
	peer.principal = sync.OnceValues(func() (string, error) {
		id, err := clients.o.Principal(chain[0])
		if err != nil {
			c.port.refuse(reasonPrincipal, c.RemoteAddr(), err)
		}
		return id, err
	})
	c.peer = peer
	clients.mu.Lock()
	clients.open[c] = struct{}{}
	clients.mu.Unlock()
	if now := clients.trust.Load(); now != t { // reload has not seen the connection
		c.verifyAgain(now)
	}
	return nil
}

func (c *Conn) withdraw() {
	if clients := c.port.clients; clients != nil {
		clients.mu.Lock()
		defer clients.mu.Unlock()
		delete(clients.open, c)
	}
}

// verifyAgain ends the connection if its certificate is no longer trusted.
func (c *Conn) verifyAgain(t *trust) {
	if _, err := t.chain(c.peer.chain, nil); err != nil {
		c.expel(err)
	}
}

// expel ends the connection because of its certificate.
func (c *Conn) expel(err error) {
	c.port.refuse(reasonOf(err), c.RemoteAddr(), err)
	_ = c.Cut()
}
