package server_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/operate/server"
	"github.com/sebbroker/seb/internal/protocols/tlsport"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// secured is a server with TLS.
type secured struct {
	*server.Server
	authority *testenv.Authority
	files     tlsport.Files
	log       sebtest.Log
}

func startSecured(t *testing.T, change func(*config.Config)) *secured {
	t.Helper()
	s := &secured{authority: testenv.NewAuthority(t)}
	s.files = s.authority.Files(t, t.TempDir(), testenv.Leaf{})
	c := settings(t, "mem:")
	c.Kafka.Listen = "127.0.0.1:0"
	c.TLS.CertFile, c.TLS.KeyFile = s.files.Cert, s.files.Key
	change(&c)
	s.Server = must.Get(server.Start(t.Context(), c, slog.New(slog.NewTextHandler(&s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))))(t)
	t.Cleanup(func() {
		check.NoError(t, s.Close(context.Background()))
		s.authority.MustBeSecret(t, s.log.String(), s.files)
	})
	return s
}

func (s *secured) http(t *testing.T, config *tls.Config) *client.Client {
	t.Helper()
	c := must.Get(client.New(s.URL(), client.Options{APIKey: s.APIKey(), TLS: config}))(t)
	t.Cleanup(c.Close)
	return c
}

func (s *secured) kafka(t *testing.T, config *tls.Config, how sasl.Mechanism, more ...kgo.Opt) *kgo.Client {
	t.Helper()
	c := must.Get(kgo.NewClient(append(more, kgo.SeedBrokers(s.KafkaAddress()), kgo.DialTLSConfig(config), kgo.SASL(how), kgo.AllowAutoTopicCreation(),
		kgo.RetryTimeout(5*time.Second), kgo.RecordDeliveryTimeout(20*time.Second), kgo.ProducerBatchMaxBytes(4<<20))...))(t)
	t.Cleanup(c.Close)
	return c
}

// TestTLS: one certificate for both listeners. Clients of both kinds, with PLAIN and SCRAM, read
// each other's records, small and large, from memory and from files.
func TestTLS(t *testing.T) {
	t.Parallel()
	for _, bucket := range []string{"mem:", "file:" + t.TempDir()} {
		s := startSecured(t, func(c *config.Config) { c.Bucket = bucket })
		if !strings.HasPrefix(s.URL(), "https://") {
			t.Fatal(s.URL())
		}
		values := [][]byte{[]byte("v"), bytes.Repeat([]byte("0123456789abcdef"), 60_000)}
		must.Get(s.http(t, s.authority.Trusted()).ProduceValues(t.Context(), "t", values, client.ProduceOptions{}))(t)
		for _, how := range []sasl.Mechanism{
			plain.Auth{User: "u", Pass: s.APIKey()}.AsMechanism(), scram.Auth{User: "u", Pass: s.APIKey()}.AsSha512Mechanism(),
		} {
			c := s.kafka(t, s.authority.Trusted(), how, kgo.ConsumeTopics("t"))
			must.NoError(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: values[1]}).FirstErr())
			values = append(values, values[1])
			var got [][]byte
			for len(got) < len(values) {
				f := c.PollFetches(t.Context())
				must.NoError(t, f.Err())
				f.EachRecord(func(r *kgo.Record) { got = append(got, r.Value) })
			}
			for i := range got {
				if !bytes.Equal(got[i], values[i]) {
					t.Errorf("Kafka, %d: %d bytes, want %d", i, len(got[i]), len(values[i]))
				}
			}
		}
		n := 0
		for r, err := range s.http(t, s.authority.Trusted()).Records(t.Context(), "t", client.ReadOptions{}) {
			if err != nil || !bytes.Equal(r.Value, values[n]) {
				t.Fatalf("HTTP, %d: %d bytes %v", n, len(r.Value), err)
			}
			n++
		}
		check.Equalf(t, n, len(values), "records")
		check.NoError(t, s.Close(t.Context()))
	}
}

// TestTLSThatIsNotTrusted: clients that do not trust the certificate send no key and fail at once,
// and the log has the reason.
func TestTLSThatIsNotTrusted(t *testing.T) {
	s := startSecured(t, func(*config.Config) {})
	other := testenv.NewAuthority(t).Trusted()
	began := time.Now()
	_, err := s.http(t, other).ProduceValues(t.Context(), "t", [][]byte{[]byte("v")}, client.ProduceOptions{})
	var wrong *tls.CertificateVerificationError
	if !errors.As(err, &wrong) || !errors.Is(err, client.ErrRejected) {
		t.Errorf("HTTP: %v", err)
	}
	if took := time.Since(began); took > 25*time.Second { // 30 s with retries
		t.Errorf("after %s", took)
	}
	err = s.kafka(t, other, plain.Auth{User: "u", Pass: s.APIKey()}.AsMechanism()).Ping(t.Context())
	if !errors.As(err, &wrong) {
		t.Errorf("Kafka: %v", err)
	}
	for _, listener := range []string{"http", "kafka"} {
		eventually(t, &s.log, `msg="TLS: the client refused the connection" listener=`+listener)
	}
	c := s.kafka(t, s.authority.Trusted(), plain.Auth{User: "u", Pass: "wrong"}.AsMechanism())
	check.ErrorContainsf(t, c.Ping(t.Context()), "SASL_AUTHENTICATION_FAILED", "wrong password")
}

func eventually(t *testing.T, l *sebtest.Log, want string) {
	t.Helper()
	sebtest.Eventually(t, "logged: "+want, func() bool { return strings.Contains(l.String(), want) })
}

// TestTLSIsRenewed: an expired certificate is replaced while the broker runs, and existing
// connections stay open.
func TestTLSIsRenewed(t *testing.T) {
	t.Parallel()
	var dir string
	s := startSecured(t, func(c *config.Config) {
		dir = t.TempDir()
		ended := testenv.NewAuthority(t).Files(t, dir, testenv.Leaf{Ended: true})
		c.TLS.CertFile, c.TLS.KeyFile = ended.Cert, ended.Key
	})
	eventually(t, &s.log, "expires soon or has expired")
	// A client that does not verify certificates connects nevertheless.
	old := s.kafka(t, &tls.Config{InsecureSkipVerify: true}, plain.Auth{User: "u", Pass: s.APIKey()}.AsMechanism())
	must.NoError(t, old.ProduceSync(t.Context(), &kgo.Record{Topic: "t"}).FirstErr())
	must.Error(t, s.kafka(t, s.authority.Trusted(), plain.Auth{}.AsMechanism()).Ping(t.Context()), "an expired certificate is trusted")
	s.authority.Files(t, dir, testenv.Leaf{})
	eventuallyTrusted(t, s)
	eventually(t, &s.log, "certificate reloaded")
	check.NoError(t, s.kafka(t, s.authority.Trusted(), plain.Auth{User: "u", Pass: s.APIKey()}.AsMechanism()).Ping(t.Context()))
	check.NoError(t, old.ProduceSync(t.Context(), &kgo.Record{Topic: "t"}).FirstErr())
}

func eventuallyTrusted(t *testing.T, s *secured) {
	t.Helper()
	sebtest.Eventually(t, "the certificate is trusted", func() bool {
		c, err := tls.Dial("tcp", s.KafkaAddress(), s.authority.Trusted())
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

// TestTLSAndPlainText: the wrong protocol on a port ends the connection without a Kafka answer, and
// is logged. HTTP answers with the reason.
func TestTLSAndPlainText(t *testing.T) {
	s := startSecured(t, func(*config.Config) {})
	c := must.Get(net.Dial("tcp", s.KafkaAddress()))(t)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	must.Get(c.Write([]byte("\x00\x00\x00\x10\x00\x12\x00\x00\x00\x00\x00\x01\x00\x06client")))(t)
	if b, err := io.ReadAll(c); len(b) > 0 || err != nil { // in particular no reset
		t.Errorf("%q %v", b, err)
	}
	eventually(t, &s.log, `msg="plain text on a port with TLS, connection closed" listener=kafka`)
	resp := must.Get(http.Get("http" + strings.TrimPrefix(s.URL(), "https")))(t)
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "https://") {
		t.Errorf("%d %q %v", resp.StatusCode, body, err)
	}
	eventually(t, &s.log, `msg="plain text on a port with TLS, connection closed" listener=http`)

	s = startSecured(t, func(c *config.Config) { c.TLS = config.TLS{Listeners: "http,kafka"} })
	for listener, address := range map[string]string{"kafka": s.KafkaAddress(), "http": strings.TrimPrefix(s.URL(), "http://")} {
		check.Error(t, check.Err(tls.Dial("tcp", address, s.authority.Trusted())), "%s speaks TLS", listener)
		eventually(t, &s.log, `msg="TLS on a port without TLS, connection closed" listener=`+listener)
	}
}

// TestTLSOfOneListener: the other listener stays plain.
func TestTLSOfOneListener(t *testing.T) {
	s := startSecured(t, func(c *config.Config) { c.TLS.Listeners = "kafka" })
	check.NoError(t, s.kafka(t, s.authority.Trusted(), plain.Auth{User: "u", Pass: s.APIKey()}.AsMechanism()).Ping(t.Context()))
	if err := produce(t, connect(t, s.Server)); err != nil || !strings.HasPrefix(s.URL(), "http://") {
		t.Error(s.URL(), err)
	}
	s = startSecured(t, func(c *config.Config) { c.TLS.Listeners = "http" })
	check.NoError(t, produce(t, s.http(t, s.authority.Trusted())))
	check.NoError(t, kafkaClient(t, s.Server).Ping(t.Context()))
}

// TestHTTP2IsNotOffered: a client that offers it gets HTTP/1.1, and one that requires it gets no
// connection.
func TestHTTP2IsNotOffered(t *testing.T) {
	s := startSecured(t, func(*config.Config) {})
	tr := &http.Transport{TLSClientConfig: s.authority.Trusted(), ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	resp := must.Get((&http.Client{Transport: tr}).Get(s.URL() + "/healthz"))(t)
	_ = resp.Body.Close()
	if resp.ProtoMajor != 1 || resp.StatusCode != http.StatusOK {
		t.Errorf("%s %d", resp.Proto, resp.StatusCode)
	}
	only := s.authority.Trusted()
	only.NextProtos = []string{"h2"}
	if c, err := tls.Dial("tcp", strings.TrimPrefix(s.URL(), "https://"), only); err == nil {
		t.Errorf("protocol %q", c.ConnectionState().NegotiatedProtocol)
		_ = c.Close()
	}
}

// TestTLSFilesAreChecked: a broker with an invalid certificate does not start, and does not take
// the bucket from a running one.
func TestTLSFilesAreChecked(t *testing.T) {
	c := settings(t, "mem:")
	c.TLS.CertFile, c.TLS.KeyFile = "/missing/cert.pem", "/missing/key.pem"
	var faults config.Faults
	if _, err := server.Start(t.Context(), c, quiet); !errors.As(err, &faults) || !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "--tls-cert: open /missing/cert.pem") {
		t.Error(err)
	}
}

// TestPlainTextBeyondLoopbackIsWarnedOf: the log names each such listener, and none with TLS or on
// loopback.
func TestPlainTextBeyondLoopbackIsWarnedOf(t *testing.T) {
	const warning = "are sent in plain text"
	for name, c := range map[string]struct {
		change func(*config.Config)
		want   []string
	}{
		"loopback": {func(c *config.Config) { c.TLS = config.Default().TLS }, nil},
		"both": {func(c *config.Config) {
			c.TLS, c.HTTP.Address, c.Kafka.Listen = config.Default().TLS, "0.0.0.0", ":0"
		}, []string{"listener=http", "listener=kafka"}},
		"TLS":        {func(c *config.Config) { c.HTTP.Address, c.Kafka.Listen = "0.0.0.0", ":0" }, nil},
		"TLS of one": {func(c *config.Config) { c.HTTP.Address, c.Kafka.Listen, c.TLS.Listeners = "0.0.0.0", ":0", "http" }, []string{"listener=kafka"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := startSecured(t, c.change)
			var lines []string
			for line := range strings.Lines(s.log.String()) {
				if strings.Contains(line, warning) {
					lines = append(lines, line)
				}
			}
			must.Equalf(t, len(lines), len(c.want), "%q", lines)
			for i, want := range c.want {
				check.Contains(t, lines[i], want)
			}
		})
	}
}
