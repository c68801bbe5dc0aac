package webhook_test

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sebbroker/seb/internal/triggers/delivery/template"
	"github.com/sebbroker/seb/internal/triggers/delivery/webhook"
	"github.com/sebbroker/seb/internal/triggers/secrets"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
	signed "github.com/sebbroker/seb/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func policy(t testing.TB, list ...string) webhook.Policy {
	t.Helper()
	p := must.Get(webhook.ParsePolicy(list))(t)
	return p
}

// newSender returns a Sender that is closed at the end of the test.
func newSender(t testing.TB, o webhook.Options) *webhook.Sender {
	t.Helper()
	s := must.Get(webhook.NewSender(o))(t)
	t.Cleanup(s.Close)
	return s
}

func local(t testing.TB) webhook.Options {
	return webhook.Options{Policy: policy(t, "127.0.0.0/8", "::1")}
}

var secret = signed.NewSecret()

func target(t testing.TB, c webhook.Config) *webhook.Target {
	t.Helper()
	if c.Secrets == nil {
		c.Secrets = []signed.Secret{secret}
	}
	target := must.Get(webhook.Parse(c, policy(t, webhook.AllowAll), nil))(t)
	return target
}

func message(trigger string) *template.Message {
	return &template.Message{
		ID: "f1", Trigger: trigger, Version: 1, Entity: "u7", At: noon, State: template.Fired, Attempt: 1,
		Witness: []signed.Event{{Event: "signup", Time: noon, Offset: 3, Data: json.RawMessage(`{"name":"Ada"}`)}},
	}
}

func send(t testing.TB, s *webhook.Sender, to *webhook.Target) webhook.Outcome {
	t.Helper()
	slot := s.Reserve(to, message("t"))
	if slot == nil {
		t.Fatal("no free slot")
	}
	defer slot.Release()
	return slot.Send(t.Context())
}

func server(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func TestRequest(t *testing.T) {
	old := signed.NewSecret()
	type arrived struct {
		received signed.Received
		err      error
		header   http.Header
		method   string
		path     string
	}
	got := make(chan arrived, 1)
	to := server(t, func(_ http.ResponseWriter, r *http.Request) {
		received, err := (&signed.Verifier{Secrets: []signed.Secret{secret}}).Receive(r)
		got <- arrived{received, err, r.Header, r.Method, r.URL.RequestURI()}
	})
	s := newSender(t, local(t))
	c := webhook.Config{
		URL: to + "/hook?x=1", Secrets: []signed.Secret{old, secret},
		Headers: map[string]secrets.Text{"authorization": "Bearer abc", "X-Team": "mail"},
	}
	for _, tt := range []struct{ template, contentType, wantType, wantBody string }{
		{"", "", "application/json", `{"type":"trigger.fired","timestamp":"2026-05-01T12:00:00Z","version":1,"id":"f1","attempt":1,` +
			`"data":{"trigger":"t","trigger_version":1,"entity":"u7","witness":[{"event":"signup","time":"2026-05-01T12:00:00Z","offset":3,"data":{"name":"Ada"}}]}}`},
		{`{"hi":"{{.Witness.signup.Data.name}}"}`, "", "application/json", `{"hi":"Ada"}`},
		{`Hi {{.Witness.signup.Data.name}}`, "text/plain; charset=UTF-8", "text/plain; charset=UTF-8", `Hi Ada`},
		{`{{/* nothing */}}`, "text/plain", "text/plain", ""},
	} {
		c.Template, c.ContentType = tt.template, tt.contentType
		o := send(t, s, target(t, c))
		if o.Kind != webhook.Delivered || o.Status != 200 || o.Reason != "" {
			t.Fatalf("outcome %+v", o)
		}
		a := <-got
		if a.err != nil || a.received.ID != "f1" || string(a.received.Body) != tt.wantBody {
			t.Errorf("received %s %q, %v; want %q", a.received.ID, a.received.Body, a.err, tt.wantBody)
		}
		if a.method != http.MethodPost || a.path != "/hook?x=1" || a.header.Get("Content-Type") != tt.wantType ||
			a.header.Get("Authorization") != "Bearer abc" || a.header.Get("X-Team") != "mail" || a.header.Get("User-Agent") != "Seb-Webhooks" {
			t.Errorf("%s %s with %v", a.method, a.path, a.header)
		}
		check.Equalf(t, a.header.Get("Accept-Encoding"), "", "an answer may be compressed")
		check.Equalf(t, len(strings.Fields(a.header.Get(signed.HeaderSignature))), 2, "signatures")
	}
}

// answers are receivers' answers with the expected outcomes.
var answers = []struct {
	name   string
	answer http.HandlerFunc
	want   webhook.Outcome // without Took
}{
	{"204", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, webhook.Outcome{Kind: webhook.Delivered, Status: 204}},
	{"202 with a body", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(202)
		fmt.Fprint(w, "thanks\x1b[31m\x00\xff")
	}, webhook.Outcome{Kind: webhook.Delivered, Status: 202, Detail: "thanks.[31m.."}},
	{"500", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "broken", 500) }, webhook.Outcome{
		Kind: webhook.Retry, Status: 500, Reason: "answered 500 Internal Server Error", Detail: "broken\n",
	}},
	{"404", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, webhook.Outcome{
		Kind: webhook.Retry, Status: 404, Reason: "answered 404 Not Found",
	}},
	{"410", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(410) }, webhook.Outcome{
		Kind: webhook.Permanent, Status: 410, Reason: "answered 410 Gone: the receiver accepts no more messages",
	}},
	{"301", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "http://user:pass@elsewhere.invalid/new?token=secret#x")
		w.WriteHeader(301)
	}, webhook.Outcome{
		Kind: webhook.Retry, Status: 301, Reason: "answered 301 Moved Permanently; redirects are not followed: set the URL to http://elsewhere.invalid/new",
	}},
	{"307 without a location", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(307) }, webhook.Outcome{
		Kind: webhook.Retry, Status: 307, Reason: "answered 307 Temporary Redirect; redirects are not followed",
	}},
	{"429 with seconds", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(429)
	}, webhook.Outcome{Kind: webhook.Retry, Status: 429, Reason: "answered 429 Too Many Requests", RetryAfter: 2 * time.Minute}},
	{"503 with a date", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", noon.Add(time.Hour).Format(http.TimeFormat))
		w.WriteHeader(503)
	}, webhook.Outcome{Kind: webhook.Retry, Status: 503, Reason: "answered 503 Service Unavailable", RetryAfter: time.Hour}},
	{"a date in the past", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", noon.Add(-time.Hour).Format(http.TimeFormat))
		w.WriteHeader(503)
	}, webhook.Outcome{Kind: webhook.Retry, Status: 503, Reason: "answered 503 Service Unavailable"}},
	{"far too many seconds", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "18446744073709551615")
		w.WriteHeader(503)
	}, webhook.Outcome{Kind: webhook.Retry, Status: 503, Reason: "answered 503 Service Unavailable", RetryAfter: 24 * time.Hour}},
	{"negative seconds", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "-5")
		w.WriteHeader(503)
	}, webhook.Outcome{Kind: webhook.Retry, Status: 503, Reason: "answered 503 Service Unavailable"}},
	{"an unknown status", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(799) }, webhook.Outcome{
		Kind: webhook.Retry, Status: 799, Reason: "answered 799",
	}},
	{"a long answer", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, strings.Repeat("x", 5000))
	}, webhook.Outcome{Kind: webhook.Delivered, Status: 200, Detail: strings.Repeat("x", 1024)}},
	{"a truncated answer", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, "half")
	}, webhook.Outcome{Kind: webhook.Delivered, Status: 200, Detail: "half"}},
}

func TestAnswers(t *testing.T) {
	for _, tt := range answers {
		o := local(t)
		o.Now = func() time.Time { return noon }
		s := newSender(t, o)
		got := send(t, s, target(t, webhook.Config{URL: server(t, tt.answer)}))
		if got.Took <= 0 {
			t.Errorf("%s: took %v", tt.name, got.Took)
		}
		got.Took = 0
		check.Equalf(t, got, tt.want, "%s", tt.name)
		check.Equalf(t, got.Gone(), got.Status == 410, "%s: gone", tt.name)
	}
}

// raw serves each connection with a function, until the connection ends.
func raw(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var served []chan struct{}
		for {
			conn, err := l.Accept()
			if err != nil {
				break
			}
			ended := make(chan struct{})
			served = append(served, ended)
			go func() {
				defer close(ended)
				defer conn.Close()
				serve(conn)
			}()
		}
		for _, ended := range served {
			<-ended
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return "http://" + l.Addr().String()
}

func head(conn net.Conn) {
	r := bufio.NewReader(conn)
	req, err := http.ReadRequest(r)
	if err == nil {
		_, _ = io.Copy(io.Discard, req.Body)
	}
}

// gone waits until the peer has closed a connection.
func gone(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

const statusOK = "HTTP/1.1 200 OK\r\n"

// misbehaving are raw receivers with the expected outcomes.
var misbehaving = []struct {
	name   string
	short  bool // ends by a timeout, with a short one
	serve  func(net.Conn)
	kind   webhook.Kind
	reason string
}{
	{"is silent", true, func(c net.Conn) { gone(c) }, webhook.Retry, "no answer in time"},
	{"reads and does not answer", true, func(c net.Conn) { head(c); gone(c) }, webhook.Retry, "no answer in time"},
	{"slow headers", true, func(c net.Conn) {
		head(c)
		for i := 0; ; i++ {
			if _, err := fmt.Fprintf(c, "%c", (statusOK + "X-Slow: " + strings.Repeat("x", 1<<16))[i%(1<<16)]); err != nil {
				return
			}
			<-time.After(5 * time.Millisecond)
		}
	}, webhook.Retry, "no answer in time"},
	{"a missing body", false, func(c net.Conn) { head(c); fmt.Fprint(c, statusOK+"Content-Length: 5\r\n\r\n"); gone(c) }, webhook.Delivered, ""},
	{"an endless body", false, func(c net.Conn) {
		head(c)
		fmt.Fprint(c, statusOK+"Transfer-Encoding: chunked\r\n\r\n")
		for {
			if _, err := fmt.Fprintf(c, "400\r\n%s\r\n", strings.Repeat("y", 1024)); err != nil {
				return
			}
		}
	}, webhook.Delivered, ""},
	{"endless headers", false, func(c net.Conn) {
		head(c)
		fmt.Fprint(c, statusOK)
		for i := 0; ; i++ {
			if _, err := fmt.Fprintf(c, "X-%d: %s\r\n", i, strings.Repeat("y", 100)); err != nil {
				return
			}
		}
	}, webhook.Retry, "exceeded"},
	{"endless interim answers", false, func(c net.Conn) {
		head(c)
		for {
			if _, err := fmt.Fprint(c, "HTTP/1.1 102 Processing\r\nX: "+strings.Repeat("y", 1000)+"\r\n\r\n"); err != nil {
				return
			}
		}
	}, webhook.Retry, "exceeded"},
	{"resets the connection", false, func(c net.Conn) { head(c); _ = c.(*net.TCPConn).SetLinger(0) }, webhook.Retry, "read: connection reset by peer"},
	{"closes the connection", false, func(c net.Conn) { head(c) }, webhook.Retry, "EOF"},
	{"is not an HTTP server", false, func(c net.Conn) { head(c); fmt.Fprint(c, "220 mail\r\n"); gone(c) }, webhook.Retry, "malformed HTTP"},
	{"sends first", false, func(c net.Conn) { fmt.Fprint(c, "220 mail\r\n"); gone(c) }, webhook.Retry, ""},
	{"is not a TLS server", false, func(c net.Conn) { fmt.Fprint(c, "HTTP/1.0 400 Bad Request\r\n\r\n"); gone(c) }, webhook.Retry, "TLS: "},
	{"switches protocols", false, func(c net.Conn) {
		head(c)
		fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
		gone(c)
	}, webhook.Retry, "answered 101"},
}

// TestReceiversThatMisbehave: every attempt ends with an outcome, and its connection is closed.
func TestReceiversThatMisbehave(t *testing.T) {
	for _, tt := range misbehaving {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := local(t)
			o.Timeout = 5 * time.Minute // longer than a test
			if tt.short {
				o.Timeout = 200 * time.Millisecond
			}
			to := raw(t, tt.serve)
			if strings.HasPrefix(tt.reason, "TLS") {
				to = strings.Replace(to, "http:", "https:", 1)
			}
			got := send(t, newSender(t, o), target(t, webhook.Config{URL: to}))
			if strings.ContainsAny(got.Reason, "!%") || (got.Reason == "") != (tt.kind == webhook.Delivered) {
				t.Errorf("reason %q", got.Reason)
			}
			if got.Kind != tt.kind || !strings.Contains(got.Reason, tt.reason) || strings.Contains(got.Reason, "127.0.0.1") {
				t.Errorf("outcome %+v, want %s, %q", got, tt.kind, tt.reason)
			}
		})
	}
}

func TestConnectionRefused(t *testing.T) {
	address := must.Get(testenv.FreeAddress())(t)
	to := "http://" + address
	got := send(t, newSender(t, local(t)), target(t, webhook.Config{URL: to}))
	if got.Kind != webhook.Retry || got.Reason != "dial: connect: connection refused" {
		t.Errorf("outcome %+v", got)
	}
}

func TestCertificatesAreVerified(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	to := target(t, webhook.Config{URL: s.URL})
	o := local(t)
	if got := send(t, newSender(t, o), to); got.Kind != webhook.Retry || !strings.HasPrefix(got.Reason, "TLS: tls: failed to verify certificate") {
		t.Errorf("an untrusted certificate: %+v", got)
	}
	o.RootCAs = x509.NewCertPool()
	o.RootCAs.AddCert(s.Certificate())
	if got := send(t, newSender(t, o), to); got.Kind != webhook.Delivered {
		t.Errorf("a trusted certificate: %+v", got)
	}
	name := strings.Replace(s.URL, "127.0.0.1", "receiver.test", 1)
	o.Resolver = resolver(t, func(string) net.IP { return net.IPv4(127, 0, 0, 1) })
	if got := send(t, newSender(t, o), target(t, webhook.Config{URL: name})); !strings.Contains(got.Reason, "not receiver.test") {
		t.Errorf("a certificate for another name: %+v", got)
	}
}

func TestUnsendableMessagesArePermanent(t *testing.T) {
	to := server(t, func(http.ResponseWriter, *http.Request) { t.Error("a message was sent") })
	for name, tt := range map[string]struct {
		o      webhook.Options
		c      webhook.Config
		id     string
		reason string
	}{
		"a template":            {local(t), webhook.Config{URL: to, Template: `"{{.Witness.signup.Data.nick}}"`}, "f1", "template: 1:4: .Witness.signup.Data.nick is missing"},
		"an ID":                 {local(t), webhook.Config{URL: to}, "f.1", "webhook id: byte 1"},
		"an address":            {webhook.Options{}, webhook.Config{URL: to}, "f1", "url: host refused: address class loopback (127.0.0.0/8) is not among the targets that the operator of the broker allows (--webhook-targets)"},
		"an address, disguised": {webhook.Options{}, webhook.Config{URL: "http://[::ffff:10.1.2.3]/"}, "f1", "address class private (10.0.0.0/8)"},
	} {
		m := message("t")
		m.ID = tt.id
		slot := newSender(t, tt.o).Reserve(target(t, tt.c), m)
		got := slot.Send(t.Context())
		slot.Release()
		if got.Kind != webhook.Permanent || !strings.Contains(got.Reason, tt.reason) {
			t.Errorf("%s: %+v, want %q", name, got, tt.reason)
		}
	}
}

func TestStopped(t *testing.T) {
	arrived := make(chan struct{})
	to := raw(t, func(c net.Conn) { head(c); close(arrived); gone(c) })
	ctx, cancel := context.WithCancel(t.Context())
	slot := newSender(t, local(t)).Reserve(target(t, webhook.Config{URL: to}), message("t"))
	defer slot.Release()
	go func() { <-arrived; cancel() }()
	if got := slot.Send(ctx); got.Kind != webhook.Stopped {
		t.Errorf("outcome %+v", got)
	}
}

// TestPolicyAppliesToResolvedAddresses: a name with a public address at the creation of the
// trigger may later resolve to a private one.
func TestPolicyAppliesToResolvedAddresses(t *testing.T) {
	to := server(t, func(http.ResponseWriter, *http.Request) {})
	u := must.Get(url.Parse(to))(t)
	var address atomic.Pointer[net.IP]
	o := webhook.Options{Resolver: resolver(t, func(string) net.IP { return *address.Load() })}
	named := target(t, webhook.Config{URL: "http://receiver.test:" + u.Port() + "/"})
	for _, tt := range []struct {
		ip    net.IP
		class string
	}{
		{net.IPv4(127, 0, 0, 1), "loopback (127.0.0.0/8)"},
		{net.IPv4(10, 0, 0, 1), "private (10.0.0.0/8)"},
		{net.IPv4(169, 254, 169, 254), "a metadata service (169.254.169.254/32)"},
	} {
		address.Store(&tt.ip)
		got := send(t, newSender(t, o), named)
		want := "host receiver.test refused: address class " + tt.class + " is not among the targets that the operator of the broker allows (--webhook-targets)"
		if got.Kind != webhook.Retry || got.Reason != want {
			t.Errorf("%v: %+v, want %q", tt.ip, got, want)
		}
	}
	address.Store(&net.IP{127, 0, 0, 1})
	o.Policy = policy(t, "127.0.0.1")
	if got := send(t, newSender(t, o), named); got.Kind != webhook.Delivered {
		t.Errorf("allowed: %+v", got)
	}
	address.Store(&net.IP{})
	if got := send(t, newSender(t, o), named); got.Kind != webhook.Retry || got.Reason != "unknown host receiver.test" {
		t.Errorf("no address: %+v", got)
	}
}

// resolver uses a DNS server of the test, with the addresses of answer; nil means an unknown name.
func resolver(t testing.TB, answer func(name string) net.IP) *net.Resolver {
	t.Helper()
	conn := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		query := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(query)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(dnsAnswer(query[:n], answer), from)
		}
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// dnsAnswer answers a query with one question (RFC 1035): A with the address, others without
// records.
func dnsAnswer(query []byte, answer func(string) net.IP) []byte {
	const header, typeA = 12, 1
	end, name := header, ""
	for query[end] != 0 {
		name += string(query[end+1:end+1+int(query[end])]) + "."
		end += 1 + int(query[end])
	}
	question := query[header : end+5]
	reply := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question...)
	ip := answer(name).To4()
	if ip == nil {
		reply[3] |= 3 // unknown name
	} else if question[len(question)-3] == typeA {
		reply[7] = 1
		reply = append(reply, 0xc0, header, 0, typeA, 0, 1, 0, 0, 0, 0, 0, 4)
		reply = append(reply, ip...)
	}
	return reply
}

func TestProxy(t *testing.T) {
	asked := make(chan string, 1)
	proxy := must.Get(url.Parse(server(t, func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.String() })))(t)
	s := newSender(t, webhook.Options{Proxy: proxy})
	if got := send(t, s, target(t, webhook.Config{URL: "http://receiver.test/hook"})); got.Kind != webhook.Delivered {
		t.Errorf("through a proxy: %+v", got)
	}
	check.Equalf(t, <-asked, "http://receiver.test/hook", "the proxy got a request for")
	if got := send(t, s, target(t, webhook.Config{URL: "http://10.0.0.1/hook"})); got.Kind != webhook.Permanent {
		t.Errorf("a private address through a proxy: %+v", got)
	}
}

func TestOptionsOutOfRange(t *testing.T) {
	for _, o := range []webhook.Options{
		{Timeout: -1},
		{ConnectTimeout: time.Hour},
		{HeaderTimeout: time.Hour},
		{Total: -1},
		{Total: 1 << 30},
		{Bytes: 1},
		{Proxy: &url.URL{Scheme: "ftp", Host: "x"}},
	} {
		if s, err := webhook.NewSender(o); err == nil {
			s.Close()
			t.Errorf("%+v is accepted", o)
		}
	}
}
