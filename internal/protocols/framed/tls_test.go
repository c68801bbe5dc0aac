package framed_test

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/protocols/framed"
	"github.com/sebbroker/seb/internal/protocols/tlsport"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// startTLS starts a server with TLS, and returns the TLS configuration of clients.
func startTLS(t testing.TB, o framed.Options) (*server, *tls.Config) {
	t.Helper()
	authority, set, log := testenv.NewAuthority(t), metrics.NewSet(), slog.New(slog.DiscardHandler)
	cert := must.Get(tlsport.Load(authority.Files(t, t.TempDir(), testenv.Leaf{}), log, set))(t)
	o.Port = tlsport.NewPort(tlsport.Options{Name: "kafka", Certificate: cert, Logger: log, Metrics: set})
	return start(t, o), authority.Trusted()
}

func (s *server) dialTLS(t testing.TB, config *tls.Config) *peer {
	t.Helper()
	c := must.Get(tls.Dial("tcp", s.addr, config))(t)
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return &peer{t, c}
}

// TestTLSAnswers: answers of any size, from memory and files, arrive in order; after the last one
// the client sees the end of the connection.
func TestTLSAnswers(t *testing.T) {
	s, config := startTLS(t, framed.Options{})
	content := bytes.Repeat([]byte("0123456789abcdef"), 50_000) // several pieces
	name := filepath.Join(t.TempDir(), "f")
	must.NoError(t, os.WriteFile(name, content, 0o600))
	file := must.Get(os.Open(name))(t)
	defer file.Close()
	s.file.Store(file)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config.MaxVersion = version
		p := s.dialTLS(t, config)
		ask := frame(keyFile, 1, 3)
		sent := append(append(frame(keyEcho, 0, 900_000), ask...), frame(keyLast, 2, 70_000)...)
		go func() { _, _ = p.Write(sent) }() // errors show as missing answers
		want := append(append(ask, '<'), append(content[1:], '>')...)
		binary.BigEndian.PutUint32(want, uint32(len(want)-4))
		p.expect(frame(keyEcho, 0, 900_000))
		p.expect(want)
		p.expect(frame(keyLast, 2, 70_000))
		if n, err := p.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("%s: %d %v", tls.VersionName(version), n, err)
		}
	}
}

// TestSlowHandshakes: a client that does not complete its TLS handshake in time is disconnected,
// and makes room for others before.
func TestSlowHandshakes(t *testing.T) {
	t.Parallel()
	short := 50 * time.Millisecond
	for name, send := range map[string]string{"nothing": "", "half a record": "\x16\x03\x01\x02\x00\x01", "an endless one": "\x16\x03\x01\x00\x04\x01\x00\x20\x00"} {
		for which, o := range map[string]framed.Options{"step": {Step: short}, "trust": {AuthTimeout: short}} {
			t.Run(name+", "+which, func(t *testing.T) {
				t.Parallel()
				s, _ := startTLS(t, o)
				p := s.dial(t)
				p.send([]byte(send))
				if _, err := io.Copy(io.Discard, p.Conn); errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error("the connection is still open")
				}
				sebtest.Eventually(t, "the connection is closed", func() bool { return s.Connections() == 0 })
			})
		}
	}
	t.Run("they count as connections", func(t *testing.T) {
		t.Parallel()
		s, config := startTLS(t, framed.Options{Connections: 3})
		var slow []*peer
		for range 20 {
			p := s.dial(t)
			p.send([]byte("\x16\x03\x01\x02\x00\x01"))
			slow = append(slow, p)
		}
		sebtest.Eventually(t, "all connection slots are taken", func() bool { return s.Connections() == 3 })
		good := s.dialTLS(t, config)
		good.send(frame(keyTrust, 1, 0))
		good.expect(frame(keyTrust, 1, 0))
		for range 20 { // an authenticated connection stays
			slow = append(slow, s.dial(t))
		}
		good.send(frame(keyEcho, 2, 0))
		good.expect(frame(keyEcho, 2, 0))
		sebtest.Eventually(t, "at most three connections, when those that gave way have ended", func() bool { return s.Connections() <= 3 })
		for _, p := range slow[:17] {
			p.ended()
		}
	})
	t.Run("the server stops", func(t *testing.T) {
		t.Parallel()
		s, _ := startTLS(t, framed.Options{})
		p := s.dial(t)
		p.send([]byte("\x16\x03\x01\x02\x00\x01"))
		sebtest.Eventually(t, "the connection is open", func() bool { return s.Connections() == 1 })
		s.Drain()
		if _, err := io.Copy(io.Discard, p.Conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("the connection is still open")
		}
	})
}

// TestTLSClientThatDoesNotRead: a client that does not read its answers is disconnected, and
// closing its connection does not block.
func TestTLSClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	s, config := startTLS(t, framed.Options{Step: 200 * time.Millisecond})
	var c *tls.Conn
	sebtest.Eventually(t, "a handshake takes less than a step", func() (done bool) {
		var err error
		c, err = tls.Dial("tcp", s.addr, config)
		return err == nil
	})
	defer c.Close()
	_ = c.NetConn().(*net.TCPConn).SetReadBuffer(4 << 10)
	for range 50 {
		if _, err := c.Write(frame(keyEcho, 1, 900_000)); err != nil {
			break
		}
	}
	sebtest.Eventually(t, "the connection is closed", func() bool { return s.Connections() == 0 })
}

// TestTLSMemory: an idle connection after large requests and answers takes at most the memory that
// the budget assumes for a TLS connection, 64 KiB. The measurement includes the client's half.
func TestTLSMemory(t *testing.T) {
	n := sebtest.Runs(100, 40)
	s, config := startTLS(t, framed.Options{Connections: 2 * n})
	measure := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse + m.StackInuse)
	}
	use := func(f func() *peer) {
		p := f()
		p.send(frame(keyTrust, 1, 100_000))
		p.expect(frame(keyTrust, 1, 100_000))
	}
	use(func() *peer { return s.dialTLS(t, config) })
	before := measure()
	for range n {
		use(func() *peer { return s.dialTLS(t, config) })
	}
	each := (measure() - before) / int64(n)
	t.Logf("%d bytes per connection and its client", each)
	if each > 2*64<<10 {
		t.Errorf("%d bytes per connection and its client", each)
	}
}

// BenchmarkFile sends 64 MiB from a file; a plain connection leaves the copy to the kernel. The
// client reads the raw bytes of the wire.
func BenchmarkFile(b *testing.B) {
	const size = 64 << 20
	name := filepath.Join(b.TempDir(), "f")
	must.NoError(b, os.WriteFile(name, make([]byte, size+1), 0o600))
	file, err := os.Open(name)
	must.NoError(b, err)
	defer file.Close()
	for _, name := range []string{"plain", "TLS"} {
		b.Run(name, func(b *testing.B) {
			var s *server
			var c, wire net.Conn
			if name == "plain" {
				s = start(b, framed.Options{})
				s.file.Store(file)
				c = s.dial(b).Conn
				wire = c
			} else {
				var config *tls.Config
				s, config = startTLS(b, framed.Options{})
				s.file.Store(file)
				c = s.dialTLS(b, config).Conn
				wire = c.(*tls.Conn).NetConn()
			}
			_ = c.SetDeadline(time.Time{})
			buffer := make([]byte, 256<<10)
			b.SetBytes(size)
			before := cpu()
			for b.Loop() {
				if _, err := c.Write(frame(keyFile, 1, 0)); err != nil {
					b.Fatal(err)
				}
				for n := 0; n < size; {
					m, err := wire.Read(buffer)
					must.NoError(b, err)
					n += m
				}
			}
			b.ReportMetric(float64((cpu()-before).Milliseconds())/float64(b.N)*(1<<30)/size, "cpu-ms/GiB")
			_ = wire.Close()
		})
	}
}

// cpu is the CPU time of this process.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
