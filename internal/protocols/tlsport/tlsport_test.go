package tlsport_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/goleak"

	"github.com/sebbroker/seb/internal/protocols/tlsport"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo starts a TLS port that sends back its input.
func echo(t *testing.T, files tlsport.Files, l *sebtest.Log) (address string) {
	t.Helper()
	set := metrics.NewSet()
	cert := must.Get(tlsport.Load(files, l.Logger(), set))(t)
	port := tlsport.NewPort(tlsport.Options{Name: "test", Certificate: cert, Logger: l.Logger(), Metrics: set})
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				s := port.Server(c.(*net.TCPConn))
				defer s.Close()
				_ = s.SetReadDeadline(time.Now().Add(time.Minute))
				if s.Handshake() == nil {
					_, _ = io.Copy(s, s)
					_ = s.CloseWrite()
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	return listener.Addr().String()
}

// TestCertificateReload changes the files in place, by rename, and one after the other. An invalid
// pair is not used, and is logged once.
func TestCertificateReload(t *testing.T) {
	t.Parallel()
	authority := testenv.NewAuthority(t)
	files := authority.Files(t, t.TempDir(), testenv.Leaf{})
	var l sebtest.Log
	address := echo(t, files, &l)
	serial := func() string {
		t.Helper()
		c := must.Get(tls.Dial("tcp", address, authority.Trusted()))(t)
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	wait := func(want string) {
		t.Helper()
		sebtest.Eventually(t, "the certificate is replaced", func() bool { return serial() == want })
	}
	first := serial()
	inPlace := authority.Files(t, t.TempDir(), testenv.Leaf{})
	copyFile(t, inPlace.Cert, files.Cert)
	sebtest.Eventually(t, "the current certificate is kept", func() bool {
		if got := serial(); got != first {
			t.Fatalf("serial %s, was %s\n%s", got, first, l.String())
		}
		return strings.Contains(l.String(), "keeping the current one")
	})
	copyFile(t, inPlace.Key, files.Key)
	wait(testenv.CertificateSerial(t, inPlace.Cert))
	renamed := authority.Files(t, t.TempDir(), testenv.Leaf{Ended: true})
	for from, to := range map[string]string{renamed.Cert: files.Cert, renamed.Key: files.Key} {
		must.NoError(t, os.Rename(from, to))
	}
	sebtest.Eventually(t, "the expired certificate is in use", func() bool {
		c, err := tls.Dial("tcp", address, authority.Trusted())
		if c != nil {
			_ = c.Close()
		}
		return err != nil && strings.Contains(err.Error(), "expired")
	})
	if text := l.String(); !strings.Contains(text, "has expired") || strings.Count(text, "certificate reloaded") != 2 {
		t.Error(text)
	}
	authority.MustBeSecret(t, l.String(), files)
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	must.NoError(t, err)
}

// TestInvalidFiles checks that the error names the setting and the file, and does not contain the
// key.
func TestInvalidFiles(t *testing.T) {
	authority := testenv.NewAuthority(t)
	good, other := authority.Files(t, t.TempDir(), testenv.Leaf{}), authority.Files(t, t.TempDir(), testenv.Leaf{})
	nonsense := filepath.Join(t.TempDir(), "nonsense")
	must.NoError(t, os.WriteFile(nonsense, []byte("nonsense"), 0o600))
	for name, c := range map[string]struct {
		files tlsport.Files
		want  []string
	}{
		"no certificate":       {tlsport.Files{Cert: "/missing", Key: good.Key}, []string{"--tls-cert", "/missing"}},
		"no key":               {tlsport.Files{Cert: good.Cert, Key: "/missing"}, []string{"--tls-key", "/missing"}},
		"a folder":             {tlsport.Files{Cert: t.TempDir(), Key: good.Key}, []string{"--tls-cert", "is a directory"}},
		"another's key":        {tlsport.Files{Cert: good.Cert, Key: other.Key}, []string{other.Key, "does not match"}},
		"swapped files":        {tlsport.Files{Cert: good.Key, Key: good.Cert}, []string{"--tls-cert " + good.Key}},
		"nonsense certificate": {tlsport.Files{Cert: nonsense, Key: good.Key}, []string{nonsense, "--tls-cert"}},
		"nonsense key":         {tlsport.Files{Cert: good.Cert, Key: nonsense}, []string{nonsense, "--tls-key"}},
	} {
		_, err := tlsport.Load(c.files, slog.New(slog.DiscardHandler), metrics.NewSet())
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: no %q in %v", name, want, err)
			}
		}
		authority.MustBeSecret(t, err.Error(), good, other)
	}
}

// TestVersions checks that TLS 1.2 and 1.3 are supported, and nothing older.
func TestVersions(t *testing.T) {
	authority := testenv.NewAuthority(t)
	var l sebtest.Log
	address := echo(t, authority.Files(t, t.TempDir(), testenv.Leaf{}), &l)
	for version, want := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		config := authority.Trusted()
		config.MinVersion, config.MaxVersion = version, version
		c, err := tls.Dial("tcp", address, config)
		check.Equalf(t, err == nil, want, "%s: %v", tls.VersionName(version), err)
		if err != nil {
			continue
		}
		sent := bytes.Repeat([]byte("0123456789"), 10_000)
		go func() {
			_, _ = c.Write(sent)
			_ = c.CloseWrite()
		}()
		if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%s: %d bytes, %v", tls.VersionName(version), len(got), err)
		}
		_ = c.Close()
	}
}

// TestSuitesWithoutAuthenticationAreRefused checks that CBC is refused, even if the client offers
// nothing else.
func TestSuitesWithoutAuthenticationAreRefused(t *testing.T) {
	authority := testenv.NewAuthority(t)
	var l sebtest.Log
	address := echo(t, authority.Files(t, t.TempDir(), testenv.Leaf{}), &l)
	for _, suite := range tls.CipherSuites() {
		config := authority.Trusted()
		config.MaxVersion, config.CipherSuites = tls.VersionTLS12, []uint16{suite.ID}
		c, err := tls.Dial("tcp", address, config)
		if err == nil {
			_ = c.Close()
		}
		if err == nil && strings.Contains(suite.Name, "_CBC_") {
			t.Errorf("%s is accepted", suite.Name)
		}
	}
}

// TestHandshakesAreBounded checks that a client hello of more than 16 KiB ends the connection
// before all of it is read.
func TestHandshakesAreBounded(t *testing.T) {
	authority := testenv.NewAuthority(t)
	var l sebtest.Log
	address := echo(t, authority.Files(t, t.TempDir(), testenv.Leaf{}), &l)
	c, err := net.Dial("tcp", address)
	must.NoError(t, err)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	// A message of 60,000 bytes in records of 4,000; package tls would collect all of it.
	message := append([]byte{1, 0, 60_000 >> 8, 60_000 & 0xff}, make([]byte, 60_000)...)
	sent := 0
	for at := 0; at < len(message) && err == nil; at += 4000 {
		part := message[at:min(at+4000, len(message))]
		if _, err = c.Write(append([]byte{22, 3, 1, byte(len(part) >> 8), byte(len(part))}, part...)); err == nil {
			sent += len(part)
		}
		time.Sleep(5 * time.Millisecond) // time to notice the refusal
	}
	if n, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) || n > 100 {
		t.Errorf("%d bytes, %v", n, err)
	}
	if sent > 50_000 {
		t.Errorf("%d bytes were read", sent)
	}
}

// TestLogLines checks that plain text and refusals by clients are logged once a minute, and
// interrupted handshakes not.
func TestLogLines(t *testing.T) {
	authority := testenv.NewAuthority(t)
	var l sebtest.Log
	address := echo(t, authority.Files(t, t.TempDir(), testenv.Leaf{}), &l)
	for range 3 {
		for _, send := range []string{"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x00"} {
			c := must.Get(net.Dial("tcp", address))(t)
			_, _ = c.Write([]byte(send)) // the server may have closed the connection
			_ = c.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
		must.Error(t, check.Err(tls.Dial("tcp", address, testenv.NewAuthority(t).Trusted())), "a certificate of another authority is accepted")
	}
	sebtest.Eventually(t, "the fault is logged", func() bool { return strings.Count(l.String(), "\n") >= 2 })
	text := l.String()
	if strings.Count(text, "\n") != 2 || strings.Count(text, "plain text on a port with TLS") != 1 || strings.Count(text, "the client refused the connection") != 1 {
		t.Error(text)
	}
}
