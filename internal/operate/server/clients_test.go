package server_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/operate/server"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// certified is a server that verifies certificates of clients. The principal shop may write and read
// the topic orders.
type certified struct {
	*secured
	lists string
}

func startCertified(t *testing.T, auth string) *certified {
	t.Helper()
	c := &certified{lists: filepath.Join(t.TempDir(), "crl.pem")}
	authority := testenv.NewAuthority(t)
	authority.Revocations(t, c.lists, time.Hour)
	c.secured = startSecured(t, func(s *config.Config) {
		files := authority.Files(t, t.TempDir(), testenv.Leaf{})
		s.TLS = config.TLS{
			CertFile: files.Cert, KeyFile: files.Key, Listeners: "http,kafka", ClientCA: authority.File(t, t.TempDir()), ClientCRL: c.lists,
			ClientAuth: auth, PrincipalMapping: `RULE:^CN=(.*?),OU=services,O=Test$/$1/L`,
		}
	})
	c.authority = authority
	root := c.http(t, c.tls(c.client(t, "root")))
	for _, topic := range []string{"orders", "secret"} {
		must.Get(root.ProduceValues(t.Context(), topic, [][]byte{[]byte("first")}, client.ProduceOptions{}))(t)
	}
	var rules []client.Rule
	for _, operation := range []string{"read", "write"} {
		rules = append(rules, client.Rule{Principal: "shop", Resource: "topic", Pattern: "orders", Operation: operation})
	}
	must.NoError(t, root.AddRules(t.Context(), rules))
	return c
}

func (c *certified) client(t *testing.T, name string) tls.Certificate {
	t.Helper()
	return c.authority.Client(t, testenv.Client{Name: name})
}

// tls returns the configuration of a client with a certificate, or without one.
func (c *certified) tls(certs ...tls.Certificate) *tls.Config {
	config := c.authority.Trusted()
	config.Certificates = certs
	return config
}

// keyless returns an HTTP client without a key.
func (c *certified) keyless(t *testing.T, config *tls.Config) *client.Client {
	t.Helper()
	k := must.Get(client.New(c.URL(), client.Options{TLS: config, RetryTime: -1}))(t)
	t.Cleanup(k.Close)
	return k
}

// ssl returns a Kafka client with security.protocol=SSL, or with SASL if more has it.
func (c *certified) ssl(t *testing.T, config *tls.Config, more ...kgo.Opt) *kgo.Client {
	t.Helper()
	k := must.Get(kgo.NewClient(append(more, kgo.SeedBrokers(c.KafkaAddress()), kgo.DialTLSConfig(config), kgo.RetryTimeout(3*time.Second),
		kgo.RequestRetries(1), kgo.RecordDeliveryTimeout(5*time.Second), kgo.DisableIdempotentWrite())...))(t)
	t.Cleanup(k.Close)
	return k
}

func write(t *testing.T, c *client.Client, topic string) error {
	t.Helper()
	_, err := c.ProduceValues(t.Context(), topic, [][]byte{[]byte("v")}, client.ProduceOptions{})
	return err
}

// TestClientsWithCertificates: a certificate is a client of both listeners without a key, with the
// rights of the principal to which its name is mapped, and no others.
func TestClientsWithCertificates(t *testing.T) {
	t.Parallel()
	for _, auth := range []string{config.ClientRequest, config.ClientRequire} {
		t.Run(auth, func(t *testing.T) {
			c := startCertified(t, auth)
			shop := c.tls(c.client(t, "Shop"))
			http := c.keyless(t, shop)
			check.NoErrorf(t, write(t, http, "orders"), "HTTP, write to the allowed topic")
			check.ErrorIsf(t, write(t, http, "secret"), client.ErrForbidden, "HTTP, write to another topic")
			check.NoErrorf(t, check.Err(http.Tokens(t.Context())), "HTTP, own tokens")
			k := c.ssl(t, shop, kgo.ConsumeTopics("orders"))
			for topic, want := range map[string]error{"orders": nil, "secret": kerr.TopicAuthorizationFailed} {
				check.ErrorIsf(t, k.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr(), want, "Kafka, write to %s", topic)
			}
			n := 0
			for n < 3 { // first, HTTP, Kafka
				f := k.PollFetches(t.Context())
				must.NoError(t, f.Err())
				n += f.NumRecords()
			}
			check.ErrorIsf(t, write(t, c.keyless(t, c.tls(c.client(t, "other"))), "orders"), client.ErrForbidden, "a principal without rules")
		})
	}
}

// TestAKeyWins: with a key or SASL a client is that of the key, whatever its certificate.
func TestAKeyWins(t *testing.T) {
	t.Parallel()
	c := startCertified(t, config.ClientRequire)
	shop := c.tls(c.client(t, "shop"))
	check.NoErrorf(t, write(t, c.http(t, shop), "secret"), "HTTP with the root key")
	sasl := func(password string) error {
		k := c.ssl(t, shop, kgo.SASL(plain.Auth{User: "u", Pass: password}.AsMechanism()))
		return k.ProduceSync(t.Context(), &kgo.Record{Topic: "secret"}).FirstErr()
	}
	check.NoErrorf(t, sasl(c.APIKey()), "Kafka with the root key")
	wrong := must.Get(client.New(c.URL(), client.Options{TLS: shop, APIKey: "wrong", RetryTime: -1}))(t)
	defer wrong.Close()
	check.ErrorIsf(t, write(t, wrong, "orders"), client.ErrUnauthorized, "HTTP with a wrong key")
	check.ErrorIsf(t, sasl("wrong"), kerr.SaslAuthenticationFailed, "Kafka with a wrong password")
	// A certificate must not make a token of its principal, which would outlive it.
	must.Get(c.http(t, shop).CreateToken(t.Context(), client.TokenSpec{ID: "shop"}))(t)
	check.ErrorIsf(t, check.Err(c.keyless(t, shop).RotateToken(t.Context(), "shop", 0)), client.ErrForbidden, "a token by a certificate")
}

// TestRefusedCertificates: expired, of another authority, revoked, or with a name that is no
// principal; and none.
func TestRefusedCertificates(t *testing.T) {
	t.Parallel()
	for _, auth := range []string{config.ClientRequest, config.ClientRequire} {
		t.Run(auth, func(t *testing.T) {
			c := startCertified(t, auth)
			revoked, foreign := c.client(t, "shop"), testenv.NewAuthority(t).Client(t, testenv.Client{Name: "shop"})
			c.authority.Revocations(t, c.lists, time.Hour, revoked)
			eventually(t, &c.log, "revoked=1")
			insistent := c.tls()
			insistent.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &foreign, nil }
			for reason, config := range map[string]*tls.Config{
				"expired":   c.tls(c.authority.Client(t, testenv.Client{Name: "shop", Ends: -time.Minute})),
				"untrusted": insistent,
				"revoked":   c.tls(revoked),
			} {
				began := time.Now()
				// Also with the root key, and without waiting for retries. If the end of the connection overtakes the
				// broker's reason, the outcome is unknown until the next attempt.
				err := write(t, c.http(t, config), "orders")
				if !errors.Is(err, client.ErrRejected) && !errors.Is(err, client.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "remote error: tls: ") {
					t.Errorf("HTTP, %s: %v", reason, err)
				}
				if took := time.Since(began); took > 25*time.Second {
					t.Errorf("%s: refused after %s", reason, took)
				}
				check.Error(t, c.ssl(t, config).Ping(t.Context()), "Kafka, %s: accepted", reason)
				eventually(t, &c.log, `msg="TLS: client certificate refused" listener=kafka`)
				eventually(t, &c.log, "reason="+reason)
			}
			// Names that cannot be principals, among them that of the root key.
			for _, name := range []string{"SEB", "two words", "*"} {
				config := c.tls(c.client(t, name))
				if err := write(t, c.keyless(t, config), "orders"); !errors.Is(err, client.ErrUnauthorized) || !strings.Contains(err.Error(), "add a rule such as RULE:^CN=") {
					t.Errorf("HTTP, %q: %v", name, err)
				}
				check.Error(t, c.ssl(t, config).Ping(t.Context()), "Kafka, %q: accepted", name)
			}
			eventually(t, &c.log, "reason=principal")
			// Without a certificate.
			check.Error(t, c.ssl(t, c.tls()).Ping(t.Context()), "Kafka without certificate and SASL is accepted")
			if auth == config.ClientRequest {
				err, withKey := write(t, c.keyless(t, c.tls()), "orders"), write(t, c.http(t, c.tls()), "orders")
				if !errors.Is(err, client.ErrUnauthorized) || withKey != nil {
					t.Errorf("no certificate: %v; with the key: %v", err, withKey)
				}
				return
			}
			for name, c := range map[string]*client.Client{"with the key": c.http(t, c.tls()), "without a key": c.keyless(t, c.tls())} {
				refusedFor(t, "no certificate, "+name, c, "certificate required")
			}
		})
	}
}

// refusedFor writes until the client gets the reason of its refusal: the end of the connection may
// overtake it. No write succeeds.
func refusedFor(t *testing.T, who string, c *client.Client, reason string) {
	t.Helper()
	sebtest.Eventually(t, who+": "+reason, func() bool {
		err := write(t, c, "orders")
		must.Error(t, err, "%s: accepted", who)
		return errors.Is(err, client.ErrRejected) && strings.Contains(err.Error(), reason)
	})
}

// TestARevocationEndsConnections: open streams and idle connections of both kinds end within the
// interval of checks, and connections of another certificate continue.
func TestARevocationEndsConnections(t *testing.T) {
	t.Parallel()
	c := startCertified(t, config.ClientRequire)
	shop, other := c.client(t, "shop"), c.client(t, "shop")
	stream := func(cert tls.Certificate) (done chan struct{}) {
		tr := &http.Transport{TLSClientConfig: c.tls(cert)}
		t.Cleanup(tr.CloseIdleConnections)
		req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, c.URL()+"/records?topic-name=orders&offset=0", nil))(t)
		req.Header.Set("Accept", "text/event-stream")
		resp := must.Get(tr.RoundTrip(req))(t)
		if _, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%d, %v", resp.StatusCode, err)
		}
		done = make(chan struct{})
		go func() {
			defer close(done)
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}()
		return done
	}
	idle := func(address string) *tls.Conn {
		conn := must.Get(tls.Dial("tcp", address, c.tls(shop)))(t)
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		return conn
	}
	ends, stays := stream(shop), stream(other)
	kafka := c.ssl(t, c.tls(shop))
	must.NoError(t, kafka.ProduceSync(t.Context(), &kgo.Record{Topic: "orders"}).FirstErr())
	http, raw := idle(strings.TrimPrefix(c.URL(), "https://")), idle(c.KafkaAddress())
	c.authority.Revocations(t, c.lists, time.Hour, shop)
	<-ends
	for _, conn := range []*tls.Conn{http, raw} {
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %v, want the end", conn.RemoteAddr(), err)
		}
	}
	check.Error(t, kafka.ProduceSync(t.Context(), &kgo.Record{Topic: "orders"}).FirstErr(), "a Kafka client writes after the revocation")
	select {
	case <-stays:
		t.Error("the stream of another certificate has ended")
	default:
	}
}

// TestTheEndOfACertificateEndsConnections: that is the session lifetime of clients without SASL.
func TestTheEndOfACertificateEndsConnections(t *testing.T) {
	t.Parallel()
	c := startCertified(t, config.ClientRequire)
	conf := c.tls(c.authority.Client(t, testenv.Client{Name: "shop", Ends: 3 * time.Second}))
	ended := make(chan error, 1)
	kafka := c.ssl(t, conf, kgo.ConsumeTopics("orders"), kgo.WithHooks(disconnects(ended)))
	if f := kafka.PollFetches(t.Context()); f.Err() != nil || f.NumRecords() == 0 {
		t.Fatalf("%d records, %v", f.NumRecords(), f.Err())
	}
	http := must.Get(tls.Dial("tcp", strings.TrimPrefix(c.URL(), "https://"), conf))(t)
	defer http.Close()
	_ = http.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := http.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("HTTP: %v, want the end", err)
	}
	<-ended
	eventually(t, &c.log, "reason=expired")
}

type disconnects chan error

func (d disconnects) OnBrokerDisconnect(kgo.BrokerMetadata, net.Conn) {
	select {
	case d <- nil:
	default:
	}
}

// TestAMappingThatMapsNothing: a broker whose rules can only refuse does not start.
func TestAMappingThatMapsNothing(t *testing.T) {
	authority := testenv.NewAuthority(t)
	files := authority.Files(t, t.TempDir(), testenv.Leaf{})
	for _, rules := range []string{"", "DEFAULT", "RULE:(/x/"} {
		c := settings(t, "mem:")
		c.TLS = config.TLS{CertFile: files.Cert, KeyFile: files.Key, Listeners: "http", ClientCA: authority.File(t, t.TempDir()), PrincipalMapping: rules}
		var faults config.Faults
		if _, err := server.Start(t.Context(), c, quiet); !errors.As(err, &faults) || !strings.Contains(err.Error(), "--tls-principal-mapping: ") {
			t.Errorf("%q: %v", rules, err)
		}
	}
}

// TestAnOutdatedListIsReported by GET /status, and stays in use.
func TestAnOutdatedListIsReported(t *testing.T) {
	t.Parallel()
	c := startCertified(t, config.ClientRequest)
	c.authority.Revocations(t, c.lists, -time.Minute)
	eventually(t, &c.log, "revocation list is outdated")
	status, err := c.http(t, c.tls()).Status(t.Context())
	if err != nil || !strings.Contains(strings.Join(status.Warnings, ";"), "revocation list of client certificates is outdated") {
		t.Errorf("%q, %v", status.Warnings, err)
	}
}

var handshakes = flag.Int("handshakes", 200, "handshakes of TestHandshakesDoNotLeak (full run: 10000)")

// TestHandshakesDoNotLeak: accepted and refused handshakes of many certificates leave no goroutine, no
// descriptor and no memory.
func TestHandshakesDoNotLeak(t *testing.T) {
	sebtest.Long(t, "the other tests of certificates remain")
	c := startCertified(t, config.ClientRequire)
	var configs []*tls.Config
	for i := range 20 {
		name := "shop"
		if i%4 == 3 {
			name = "no principal"
		}
		configs = append(configs, c.tls(c.authority.Client(t, testenv.Client{Name: name, Pad: 1000})))
	}
	configs = append(configs, c.tls(), c.tls(c.authority.Client(t, testenv.Client{Name: "shop", Ends: -time.Minute})))
	configs[0].ClientSessionCache = tls.NewLRUClientSessionCache(4)
	round := func(i int) {
		config := configs[i%len(configs)]
		address, message := c.KafkaAddress(), "\x00\x00\x00\x11\x00\x12\x00\x00\x00\x00\x00\x01\x00\x06client\x00"
		if i%2 == 0 {
			address, message = strings.TrimPrefix(c.URL(), "https://"), "GET /topics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
		}
		conn, err := tls.Dial("tcp", address, config)
		must.NoError(t, err)
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		_, _ = conn.Write([]byte(message)) // a refused client may see the alert first
		if _, err := conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		_ = conn.Close()
	}
	use := func() (goroutines, files int, heap uint64) {
		runtime.GC()
		runtime.GC()
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("no /proc")
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return runtime.NumGoroutine(), len(entries), m.HeapAlloc
	}
	for i := range 3 * len(configs) {
		round(i)
	}
	var goroutines, files int
	var heap uint64
	settled := func(g, f int) func() bool {
		return func() bool { goroutines, files, heap = use(); return goroutines <= g && files <= f }
	}
	g0, f0, h0 := use()
	sebtest.Eventually(t, "the first connections end", func() bool { g, f, _ := use(); less := g < g0 || f < f0; g0, f0, h0 = use(); return !less })
	for i := range *handshakes {
		round(i)
	}
	sebtest.Eventually(t, "goroutines and descriptors are as before", settled(g0, f0))
	// The test's own log grows with each connection.
	if heap > h0+1<<20+2*uint64(len(c.log.String())) {
		t.Errorf("%d handshakes: heap of %d bytes, was %d", *handshakes, heap, h0)
	}
	t.Logf("%d handshakes: goroutines %d, were %d; descriptors %d, were %d; heap %d KiB, was %d KiB", *handshakes, goroutines, g0, files, f0, heap>>10, h0>>10)
}
