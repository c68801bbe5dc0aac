package tlsport

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// Files name a certificate, its chain behind it, and its private key, in PEM.
type Files struct{ Cert, Key string }

// Certificate is what is in files, which are read again when they change. Its methods may be called concurrently.
type Certificate struct {
	files   Files
	log     *slog.Logger
	current atomic.Pointer[tls.Certificate]

	mu     sync.Mutex // guards what follows
	looked time.Time
	seen   stamps // of current, or of the files that could not be used
}

const (
	// lookEvery is how often files are looked at, at most: a handshake pays for two calls of the system.
	lookEvery = time.Second
	// settled is how old a change must be for another to show: clocks of file systems are coarse.
	settled = 2 * time.Second
	// soon is how long before its end a certificate is warned of.
	soon = 7 * 24 * time.Hour
)

// Load reads a certificate. Errors name the setting and the file. The time at which it ends is a metric.
func Load(f Files, log *slog.Logger, set *metrics.Set) (*Certificate, error) {
	c := &Certificate{files: f, log: log}
	now := time.Now()
	c.looked, c.seen = now, f.stamps()
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
	pair, err := tls.X509KeyPair(cert, key) // its errors have no key in them
	if err != nil {
		return nil, fmt.Errorf("--tls-cert %s and --tls-key %s: %w", f.Cert, f.Key, err)
	}
	return &pair, nil
}

func (c *Certificate) use(loaded *tls.Certificate, now time.Time) {
	c.current.Store(loaded)
	leaf := loaded.Leaf
	if left := leaf.NotAfter.Sub(now); left < soon {
		c.log.Warn("TLS: the certificate ends soon or has ended; clients will refuse it", "file", c.files.Cert, "ends", leaf.NotAfter.UTC())
	}
}

// get returns the newest certificate that could be read.
func (c *Certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c.mu.TryLock() { // else another handshake looks
		defer c.mu.Unlock()
		if now := time.Now(); now.Sub(c.looked) >= lookEvery {
			c.looked = now
			c.lookLocked(now)
		}
	}
	return c.current.Load(), nil
}

// lookLocked reads the files if they have changed. Files that can not be used, such as a new certificate beside the old key,
// are tried again when one of them has changed; until then the certificate stays that it was.
func (c *Certificate) lookLocked(now time.Time) {
	found := c.files.stamps()
	if found == c.seen && now.Sub(found.newest()) > settled {
		return
	}
	same := found == c.seen
	c.seen = found
	loaded, err := c.files.load()
	switch {
	case err != nil && !same:
		c.log.Warn("TLS: the changed certificate can not be used, the one before stays", "err", err)
	case err == nil && !loaded.Leaf.Equal(c.current.Load().Leaf):
		c.use(loaded, now)
		c.log.Info("TLS: certificate read again", "file", c.files.Cert, "ends", loaded.Leaf.NotAfter.UTC())
	}
}

// stamps tell that files have changed.
type stamps [2]stamp

type stamp struct {
	size     int64
	modified time.Time
	file     any // of the system: another file under the same name
}

func (f Files) stamps() (s stamps) {
	for i, name := range []string{f.Cert, f.Key} {
		if info, err := os.Stat(name); err == nil {
			s[i] = stamp{info.Size(), info.ModTime(), identity(info)}
		}
	}
	return s
}

func (s stamps) newest() time.Time {
	if s[0].modified.After(s[1].modified) {
		return s[0].modified
	}
	return s[1].modified
}
