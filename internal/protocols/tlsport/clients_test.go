package tlsport_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/protocols/tlsport"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// gate is a TLS port that verifies clients. It answers with the principal of the client.
type gate struct {
	t           *testing.T
	authority   *testenv.Authority
	other       *testenv.Authority
	lists, auth string // files
	address     string
	log         sebtest.Log
	set         *metrics.Set
}

func newGate(t *testing.T, require bool) *gate {
	t.Helper()
	g := &gate{t: t, authority: testenv.NewAuthority(t), other: testenv.NewAuthority(t), lists: filepath.Join(t.TempDir(), "crl"), set: metrics.NewSet()}
	g.authority.Revocations(t, g.lists, time.Hour)
	g.auth = g.authority.File(t, t.TempDir())
	clients, err := tlsport.NewClients(tlsport.ClientOptions{
		Authorities: g.auth, Revoked: g.lists, Require: require, Logger: g.log.Logger(), Metrics: g.set,
		Principal: func(c *x509.Certificate) (string, error) {
			if c.Subject.CommonName == "unmapped" {
				return "", errors.New("unmapped has no principal")
			}
			return strings.ToLower(c.Subject.CommonName), nil
		},
	})
	must.NoError(t, err)
	cert := must.Get(tlsport.Load(g.authority.Files(t, t.TempDir(), testenv.Leaf{}), g.log.Logger(), g.set))(t)
	port := tlsport.NewPort(tlsport.Options{Name: "gate", Certificate: cert, Clients: clients, Logger: g.log.Logger(), Metrics: g.set})
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	g.address = listener.Addr().String()
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { greet(port.Server(c.(*net.TCPConn))) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
		clients.Close()
		clients.Close()
	})
	return g
}

// greet answers one line, and then reads until the end.
func greet(s *tlsport.Conn) {
	defer s.Close()
	_ = s.SetReadDeadline(time.Now().Add(time.Minute))
	if s.Handshake() != nil {
		return
	}
	name := "no certificate"
	if p := s.Peer(); p != nil {
		var err error
		if name, err = p.Principal(); err != nil {
			name = "error: " + err.Error()
		}
	}
	_, _ = fmt.Fprintln(s, name)
	_, _ = io.Copy(io.Discard, s)
}

// config returns the configuration of a client with a certificate, or without one.
func (g *gate) config(certs ...tls.Certificate) *tls.Config {
	c := g.authority.Trusted()
	c.Certificates = certs
	return c
}

// dial connects and returns the answer.
func (g *gate) dial(config *tls.Config) (c *tls.Conn, answer string, err error) {
	g.t.Helper()
	c, err = tls.Dial("tcp", g.address, config)
	if err != nil {
		return nil, "", err
	}
	g.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	var line [256]byte
	n, err := c.Read(line[:])
	return c, strings.TrimSuffix(string(line[:n]), "\n"), err
}

func (g *gate) refused(reason, alert string, config *tls.Config) {
	g.t.Helper()
	before := g.count(reason)
	_, answer, err := g.dial(config)
	check.ErrorContainsf(g.t, err, alert, "%s: answer %q", reason, answer)
	sebtest.Eventually(g.t, "the refusal is counted", func() bool { return g.count(reason) == before+1 })
	sebtest.Eventually(g.t, "the refusal is logged", func() bool { return strings.Contains(g.log.String(), "reason="+reason) })
}

func (g *gate) count(reason string) uint64 {
	return g.set.GetOrCreateCounter(fmt.Sprintf("seb_tls_client_certificates_refused_total{reason=%q}", reason)).Get()
}

func (g *gate) accepted(want string, config *tls.Config) *tls.Conn {
	g.t.Helper()
	c, answer, err := g.dial(config)
	if err != nil || answer != want {
		g.t.Fatalf("answer %q, %v; want %q\n%s", answer, err, want, g.log.String())
	}
	return c
}

// ends checks that the server ends a connection.
func (g *gate) ends(c *tls.Conn) {
	g.t.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		g.t.Errorf("%d bytes, %v; want the end of the connection", n, err)
	}
}

// eachVersion runs a test with TLS 1.2 and 1.3.
func eachVersion(t *testing.T, f func(t *testing.T, version uint16)) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) { f(t, version) })
	}
}

func TestCertificatesOfClients(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version uint16) {
		g := newGate(t, true)
		config := func(certs ...tls.Certificate) *tls.Config {
			c := g.config(certs...)
			c.MaxVersion = version
			return c
		}
		shop := g.authority.Client(t, testenv.Client{Name: "Shop"})
		g.accepted("shop", config(shop))
		g.accepted("shop", config(g.authority.Intermediate(t).Client(t, testenv.Client{Name: "SHOP"})))
		g.accepted("error: unmapped has no principal", config(g.authority.Client(t, testenv.Client{Name: "unmapped"})))
		if g.count("principal") != 1 || !strings.Contains(g.log.String(), "unmapped has no principal") {
			t.Error(g.log.String())
		}
		missing := "certificate required"
		if version == tls.VersionTLS12 {
			missing = "handshake failure"
		}
		g.refused("missing", missing, config())
		g.refused("expired", "expired certificate", config(g.authority.Client(t, testenv.Client{Name: "shop", Ends: -time.Minute})))
		// A client would not offer the certificate of an authority that the server does not name.
		offered := g.other.Client(t, testenv.Client{Name: "shop"})
		insistent := config()
		insistent.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &offered, nil }
		g.refused("untrusted", "unknown certificate authority", insistent)
		g.authority.Revocations(t, g.lists, time.Hour, shop)
		sebtest.Eventually(t, "the list is read", func() bool { return strings.Contains(g.log.String(), "revoked=1") })
		sebtest.Eventually(t, "the first connection is ended", func() bool { return g.count("revoked") == 1 })
		g.refused("revoked", "bad certificate", config(shop))
		if text := g.log.String(); !strings.Contains(text, `subject="CN=Shop,OU=services,O=Test"`) || !strings.Contains(text, fmt.Sprintf("serial=%X", shop.Leaf.SerialNumber)) {
			t.Error(text)
		}
	})
}

// TestClientsWithoutCertificates: if certificates are requested and not required, a client without
// one is served, and one with an invalid one is not.
func TestClientsWithoutCertificates(t *testing.T) {
	t.Parallel()
	g := newGate(t, false)
	g.accepted("no certificate", g.config())
	g.accepted("shop", g.config(g.authority.Client(t, testenv.Client{Name: "shop"})))
	g.refused("expired", "expired certificate", g.config(g.authority.Client(t, testenv.Client{Name: "shop", Ends: -time.Minute})))
}

// TestOpenConnectionsEnd: a revocation, the removal of the authority, and the end of the certificate
// end the connections of that certificate and no others.
func TestOpenConnectionsEnd(t *testing.T) {
	t.Parallel()
	g := newGate(t, true)
	shop, bill := g.authority.Client(t, testenv.Client{Name: "shop"}), g.authority.Client(t, testenv.Client{Name: "bill"})
	middle := g.authority.Intermediate(t)
	under := middle.Client(t, testenv.Client{Name: "under"})
	short := g.authority.Client(t, testenv.Client{Name: "short", Ends: 2 * time.Second})
	a, b, c, d := g.accepted("shop", g.config(shop)), g.accepted("bill", g.config(bill)), g.accepted("under", g.config(under)), g.accepted("short", g.config(short))
	g.ends(d)
	g.authority.Revocations(t, g.lists, time.Hour, shop)
	g.ends(a)
	g.authority.Revocations(t, g.lists, time.Hour, shop, middle.Certificate())
	g.ends(c)
	check.NoErrorf(t, check.Err(b.Write([]byte("x"))), "the connection of another certificate has ended")
	for reason, want := range map[string]uint64{"expired": 1, "revoked": 2} {
		check.Equalf(t, g.count(reason), want, "refusals are counted as %s", reason)
	}
	// Both files change: first the list of the new authority, which the current one has not signed.
	g.other.Revocations(t, g.lists, time.Hour)
	copyFile(t, g.other.File(t, t.TempDir()), g.auth)
	g.ends(b)
	g.accepted("bill", g.config(g.other.Client(t, testenv.Client{Name: "bill"})))
}

// TestResumedSessions: a session continues with its certificate, which is checked again.
func TestResumedSessions(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version uint16) {
		g := newGate(t, true)
		middle := g.authority.Intermediate(t)
		config := g.config(middle.Client(t, testenv.Client{Name: "shop"}))
		config.MaxVersion, config.ClientSessionCache = version, tls.NewLRUClientSessionCache(1)
		for i := range 3 {
			check.Equalf(t, g.accepted("shop", config).ConnectionState().DidResume, i > 0, "connection %d: resumed is %v", i, i == 0)
		}
		g.authority.Revocations(t, g.lists, time.Hour, middle.Certificate())
		sebtest.Eventually(t, "the open connections are ended", func() bool { return g.count("revoked") == 3 })
		g.refused("revoked", "bad certificate", config)
	})
}

// TestInvalidLists: a file that cannot be used keeps the current one, and is logged once.
func TestInvalidLists(t *testing.T) {
	t.Parallel()
	g := newGate(t, true)
	shop := g.authority.Client(t, testenv.Client{Name: "shop"})
	g.authority.Revocations(t, g.lists, time.Hour, shop)
	sebtest.Eventually(t, "the list is read", func() bool { return strings.Contains(g.log.String(), "revoked=1") })
	warnings := func() int { return strings.Count(g.log.String(), "keeping the current ones") }
	g.other.Revocations(t, g.lists, time.Hour)
	sebtest.Eventually(t, "the signature of another authority is logged", func() bool { return warnings() == 1 })
	check.Contains(t, g.log.String(), "is not signed by that authority")
	must.NoError(t, os.WriteFile(g.lists, []byte("nonsense"), 0o600))
	sebtest.Eventually(t, "nonsense is logged", func() bool { return warnings() == 2 })
	g.refused("revoked", "bad certificate", g.config(shop))
	must.NoError(t, os.Remove(g.lists))
	sebtest.Eventually(t, "the missing file is logged", func() bool { return warnings() == 3 })
	g.refused("revoked", "bad certificate", g.config(shop))
	g.authority.Revocations(t, g.lists, -time.Minute)
	sebtest.Eventually(t, "the outdated list is in use", func() bool { return strings.Contains(g.log.String(), "revocation list is outdated") })
	g.accepted("shop", g.config(shop))
	check.Equalf(t, warnings(), 3, "warnings:\n%s", g.log.String())
	if n := strings.Count(g.log.String(), "is outdated"); n != 1 {
		t.Errorf("outdated %d times:\n%s", n, g.log.String())
	}
}

// TestInvalidClientFiles checks that the error names the setting, the file and the fault.
func TestInvalidClientFiles(t *testing.T) {
	authority, dir := testenv.NewAuthority(t), t.TempDir()
	own, lists := authority.File(t, dir), filepath.Join(dir, "crl")
	authority.Revocations(t, lists, time.Hour)
	leaf := authority.Files(t, dir, testenv.Leaf{})
	text := must.Get(os.ReadFile(lists))(t)
	block, _ := pem.Decode(text)
	write := func(name string, b []byte) string {
		name = filepath.Join(dir, name)
		must.NoError(t, os.WriteFile(name, b, 0o600))
		return name
	}
	der, flipped := write("der", block.Bytes), append([]byte(nil), block.Bytes...)
	flipped[len(flipped)-1] ^= 1
	for name, c := range map[string]struct{ authorities, lists, want string }{
		"DER":                    {own, der, ""},
		"no lists":               {own, "", ""},
		"two lists":              {own, write("two", append(text, text...)), ""},
		"no file":                {"/missing", "", "--tls-client-ca: open /missing"},
		"nonsense":               {write("nonsense", []byte("x")), "", "--tls-client-ca " + filepath.Join(dir, "nonsense") + ": no certificate"},
		"a key":                  {leaf.Key, "", `"PRIVATE KEY": want only certificates`},
		"the broker's":           {leaf.Cert, "", "is not one of an authority"},
		"no list":                {own, "/missing", "--tls-client-crl: open /missing"},
		"a certificate for list": {own, own, `"CERTIFICATE": want only X509 CRL`},
		"nonsense for list":      {own, leaf.Key, "want only X509 CRL"},
		"a flipped bit":          {own, write("flipped", flipped), "is not signed by that authority"},
		"of another authority":   {testenv.NewAuthority(t).File(t, t.TempDir()), lists, "is not signed by that authority"},
		"too large":              {own, write("large", make([]byte, 5<<20)), "more than 4 MiB"},
	} {
		var l sebtest.Log
		clients, err := tlsport.NewClients(tlsport.ClientOptions{Authorities: c.authorities, Revoked: c.lists, Logger: l.Logger(), Metrics: metrics.NewSet()})
		clients.Close()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestLongChains: three certificates of 9 KiB together fit into a handshake, also into that of a
// resumed session. Six certificates are refused, and 17 KiB are not read.
func TestLongChains(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version uint16) {
		g := newGate(t, true)
		config := g.config(g.authority.Intermediate(t).Intermediate(t).Client(t, testenv.Client{Name: "shop", Pad: 8 << 10}))
		config.MaxVersion, config.ClientSessionCache = version, tls.NewLRUClientSessionCache(1)
		for i := range 2 {
			check.Equalf(t, g.accepted("shop", config).ConnectionState().DidResume, i > 0, "connection %d: resumed is %v", i, i == 0)
		}
		many := g.authority.Client(t, testenv.Client{Name: "shop"})
		for range 5 {
			many.Certificate = append(many.Certificate, g.other.Certificate().Certificate...)
		}
		config = g.config(many)
		config.MaxVersion = version
		g.refused("untrusted", "bad certificate", config)
		check.Contains(t, g.log.String(), "6 certificates, the limit is 5")
		config = g.config(g.authority.Client(t, testenv.Client{Name: "shop", Pad: 17 << 10}))
		config.MaxVersion = version
		if _, answer, err := g.dial(config); err == nil {
			t.Errorf("17 KiB: %q", answer)
		}
	})
}
