package tlsport

import (
	"crypto/tls"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// Files name a certificate chain, leaf first, and its private key, in PEM.
type Files struct{ Cert, Key string }

// Certificate is the pair in files, reloaded when they change. Its methods may be called
// concurrently.
type Certificate struct {
	names   Files
	log     *slog.Logger
	current atomic.Pointer[tls.Certificate]

	mu     sync.Mutex // guards the fields below
	looked time.Time
	files  watched
}

const (
	// checkInterval is the shortest time between checks of the files. A check costs a handshake two
	// system calls.
	checkInterval = time.Second
	// settled is how old a change must be for a further change to be visible, because file systems
	// have coarse clocks.
	settled = 2 * time.Second
	// expiryWarning is how long before its end a certificate causes a warning.
	expiryWarning = 7 * 24 * time.Hour
)

// Load reads a certificate. Errors name the setting and the file. Load registers a gauge of the
// certificate's end.
func Load(f Files, log *slog.Logger, set *metrics.Set) (*Certificate, error) {
	now := time.Now()
	c := &Certificate{names: f, log: log, looked: now, files: watch(f.Cert, f.Key)}
	loaded, err := f.load()
	if err != nil {
		return nil, err
	}
	c.use(loaded, now)
	set.NewGauge("seb_tls_certificate_not_after_seconds", func() float64 {
		return float64(c.current.Load().Leaf.NotAfter.Unix())
	})
	return c, nil
}

func (f Files) load() (*tls.Certificate, error) {
	cert, err := os.ReadFile(f.Cert)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert: %w", err)
	}
	key, err := os.ReadFile(f.Key)
	if err != nil {
		return nil, fmt.Errorf("--tls-key: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key) // errors of X509KeyPair do not contain the key
	if err != nil {
		return nil, fmt.Errorf("--tls-cert %s and --tls-key %s: %w", f.Cert, f.Key, err)
	}
	return &pair, nil
}

func (c *Certificate) use(loaded *tls.Certificate, now time.Time) {
	c.current.Store(loaded)
	leaf := loaded.Leaf
	if _, soon := c.Expiry(now); soon {
		c.log.Warn("TLS: certificate expires soon or has expired; clients will refuse it", "file", c.names.Cert, "ends", leaf.NotAfter.UTC())
	}
}

// Expiry returns the end of the certificate in use, and whether a client should be warned of it.
func (c *Certificate) Expiry(now time.Time) (end time.Time, soon bool) {
	end = c.current.Load().Leaf.NotAfter
	return end, end.Sub(now) < expiryWarning
}

// get returns the newest valid certificate.
func (c *Certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c.mu.TryLock() { // else another handshake is checking
		defer c.mu.Unlock()
		if now := time.Now(); now.Sub(c.looked) >= checkInterval {
			c.looked = now
			c.reloadLocked(now)
		}
	}
	return c.current.Load(), nil
}

// Dialer returns the configuration of a client that presents the certificate to a port that asks for
// one.
func (c *Certificate) Dialer() *tls.Config {
	return &tls.Config{
		MinVersion:           tls.VersionTLS12,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.get(nil) },
	}
}

// reloadLocked reads the files if they have changed. If they are invalid, such as a new certificate
// with the old key, the current certificate stays. The next change of a file causes the next
// attempt.
func (c *Certificate) reloadLocked(now time.Time) {
	changed, again := c.files.changed(now)
	if !changed {
		return
	}
	loaded, err := c.names.load()
	switch {
	case err != nil && !again:
		c.log.Warn("TLS: changed certificate is invalid; keeping the current one", "err", err)
	case err == nil && !loaded.Leaf.Equal(c.current.Load().Leaf):
		c.use(loaded, now)
		c.log.Info("TLS: certificate reloaded", "file", c.names.Cert, "ends", loaded.Leaf.NotAfter.UTC())
	}
}

// identity identifies the file itself, where the system supports that.
func identity(info fs.FileInfo) any {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return [2]uint64{uint64(s.Dev), s.Ino} //nolint:unconvert // Dev is signed elsewhere
	}
	return nil
}
