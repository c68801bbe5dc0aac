package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/console"
	"github.com/sebbroker/seb/internal/triggers/secrets"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// canary is the key of every test's broker. It must never appear in a log or an answer.
const canary = "CANARY-4f1c9a"

// server is a real broker on a store, with a real listener.
type server struct {
	t      testing.TB
	b      *broker.Broker
	auth   *auth.Authority
	api    *API
	http   *http.Server
	addr   string
	tls    *tls.Config // of clients; nil: plain text
	budget *budget.Budget
	log    *sebtest.Log
	client *http.Client
	close  func(context.Context) error // of the broker
}

// ownTopics are the topics of Seb itself.
var ownTopics = []string{"triggers", "firings", "events"}

// testRing has the secrets key of the brokers of tests.
var testRing = func() *secrets.Ring {
	r, err := secrets.Parse(secrets.NewKey().Reveal())
	if err != nil {
		panic(err)
	}
	return r
}()

// authority returns an Authority with the key of the tests, until the test ends.
func authority(t testing.TB, b *broker.Broker) *auth.Authority {
	a := auth.New(auth.Options{Broker: b, RootKey: canary, Internal: ownTopics})
	t.Cleanup(a.Close)
	return a
}

type setup struct {
	store  objstore.Store
	broker broker.Options
	http   Options
	limit  int64
	now    func() time.Time // the clock of tokens
	keys   bool             // with a key index
	plain  bool             // the secrets of webhooks are readable in the bucket
	wrap   func(KeyIndex) KeyIndex
	// secrets has the keys of the signing key; nil: none.
	secrets *secrets.Ring
	tls     bool
}

// start opens a broker. When the test ends it checks that all memory was released and that the key
// was not logged.
func start(t testing.TB, change ...func(*setup)) *server {
	t.Helper()
	s := &server{t: t, log: &sebtest.Log{}}
	logger := slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c := setup{store: objstore.NewMemory(), limit: 256 << 20, secrets: testRing}
	c.broker = broker.Options{Options: log.Options{NoWait: true, Logger: logger}, AutoCreate: true}
	c.http = Options{Hosts: []string{"x"}, Logger: logger, StepTimeout: 10 * time.Second, Heartbeat: 50 * time.Millisecond, Console: console.Serve, Control: obeying{}}
	for _, f := range change {
		f(&c)
	}
	s.budget = budget.New(c.limit)
	if _, test := t.(*testing.T); test {
		s.budget.Buffers().Poison()
	}
	c.broker.Store, c.broker.Budget = c.store, s.budget
	ctx, cancel := context.WithTimeout(context.Background(), sebtest.Limit)
	defer cancel()
	var err error
	if c.keys {
		s.openNode(ctx, &c)
	} else if s.b, err = broker.Open(ctx, c.broker); err != nil {
		t.Fatal(err)
	} else {
		s.close = s.b.Close
		c.http.Queues = queue.Open(queue.Options{Broker: s.b, Logger: logger})
	}
	s.auth = auth.New(auth.Options{Broker: s.b, RootKey: canary, Internal: ownTopics, Now: c.now, Keys: c.secrets})
	c.http.Auth = s.auth
	if s.api, err = New(s.b, c.http); err != nil {
		t.Fatal(err)
	}
	port, client := tlsPort(t, logger, c.tls)
	s.tls = client
	l := must.Get(Listen("127.0.0.1:0", port))(t)
	s.addr, s.http = l.Addr().String(), s.api.Server()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.http.Serve(l)
	}()
	s.client = &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return s.connect()
	}}}
	t.Cleanup(func() { s.stop(served) })
	return s
}

func (s *server) stop(served chan struct{}) {
	s.client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), sebtest.Limit)
	defer cancel()
	check.NoErrorf(s.t, s.http.Shutdown(ctx), "shut down")
	check.NoErrorf(s.t, s.api.EndStreams(ctx), "end event streams")
	<-served
	s.api.Close()
	s.auth.Close()
	if err := s.close(ctx); err != nil {
		s.t.Logf("close: %v", err)
	}
	if strings.Contains(s.log.String(), canary) {
		s.t.Error("the key is in the log")
	}
	for _, k := range []budget.Kind{budget.Produce, budget.Fetch} {
		check.Equalf(s.t, s.budget.Class(k).Used(), 0, "%s: bytes still in use", k)
	}
}

// answered is an answer including its body.
type answered struct {
	status int
	header http.Header
	body   []byte
}

func (a *answered) String() string { return fmt.Sprintf("%d %s", a.status, a.body) }

func (a *answered) problem(t *testing.T) api.Problem {
	t.Helper()
	var p api.Problem
	must.Equalf(t, a.header.Get("Content-Type"), api.ProblemJSON, "%s: content type", a)
	d := json.NewDecoder(bytes.NewReader(a.body))
	d.DisallowUnknownFields()
	must.NoErrorf(t, d.Decode(&p), "%s", a)
	if p.Status != a.status || api.Statuses[p.Code] != a.status || p.Title == "" || p.Type == "" {
		t.Fatalf("%s: inconsistent fields", a)
	}
	return p
}

// call is a request. A nil body sends none.
type call struct {
	method, path string
	body         io.Reader
	header       map[string]string
	noKey        bool
	// bare sends no Accept header by default, like the original's client. Otherwise a GET sends
	// */*, like curl.
	bare bool
}

func (s *server) try(c call) (*answered, error) {
	req := must.Get(http.NewRequest(c.method, "http://"+s.addr+c.path, c.body))(s.t)
	if !c.noKey {
		req.Header.Set("Authorization", "Bearer "+canary)
	}
	if c.method == "GET" && !c.bare {
		req.Header.Set("Accept", "*/*")
	}
	for k, v := range c.header {
		req.Header.Set(k, v)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if bytes.Contains(body, []byte(canary)) || strings.Contains(fmt.Sprint(resp.Header), canary) {
		s.t.Errorf("%s %s: the key is in the answer", c.method, c.path)
	}
	a := &answered{status: resp.StatusCode, header: resp.Header, body: body}
	checkSpec(s.t, c.method, c.path, a)
	return a, nil
}

func (s *server) do(c call) *answered {
	s.t.Helper()
	a, err := s.try(c)
	must.NoErrorf(s.t, err, "%s %s", c.method, c.path)
	return a
}

func (s *server) get(path string, accept ...string) *answered {
	s.t.Helper()
	h := map[string]string{}
	if len(accept) > 0 {
		h["Accept"] = strings.Join(accept, ", ")
	}
	return s.do(call{method: "GET", path: path, header: h})
}

// post sends a body with a content type, as a client that understands problems.
func (s *server) post(query, kind, body string) *answered {
	s.t.Helper()
	return s.do(call{
		method: "POST", path: "/records?" + query, body: strings.NewReader(body),
		header: map[string]string{"Content-Type": kind, "Accept": "application/json, " + api.ProblemJSON},
	})
}

// mustPost posts and expects 201.
func (s *server) mustPost(query, kind, body string) *answered {
	s.t.Helper()
	a := s.post(query, kind, body)
	must.Equalf(s.t, a.status, http.StatusCreated, "post %s: %s", query, a)
	return a
}

// form returns a multipart body of values and its content type.
func form(values ...string) (body, kind string) {
	var buf bytes.Buffer
	w := multipart.NewWriter(&buf)
	sizes := make([]int, len(values))
	for i, v := range values {
		sizes[i] = len(v)
	}
	text, _ := json.Marshal(sizes)
	for _, part := range []struct{ name, data string }{{"sizes", string(text)}, {"records", strings.Join(values, "")}} {
		pw, _ := w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {fmt.Sprintf("form-data; name=%q", part.name)}})
		_, _ = pw.Write([]byte(part.data))
	}
	_ = w.Close()
	return buf.String(), w.FormDataContentType()
}

// boundary returns the boundary of an answer in multipart, or a value that no answer contains.
func (a *answered) boundary() string {
	if kind, params, err := mime.ParseMediaType(a.header.Get("Content-Type")); err == nil && kind == api.Multipart {
		return params["boundary"]
	}
	return "\xffnot multipart"
}

// unform reads a multipart answer like the original's client.
func (a *answered) unform(t *testing.T) []string {
	t.Helper()
	r := multipart.NewReader(bytes.NewReader(a.body), a.boundary())
	if a.status == http.StatusPartialContent {
		if p, err := r.NextPart(); err != io.EOF {
			t.Fatalf("206 with a part: %v %v", p, err)
		}
		return nil
	}
	sizesPart, err := r.NextPart()
	if err != nil || sizesPart.FormName() != "sizes" {
		t.Fatalf("first part: %v", err)
	}
	var sizes []int
	must.NoError(t, json.NewDecoder(sizesPart).Decode(&sizes))
	recordsPart, err := r.NextPart()
	if err != nil || recordsPart.FormName() != "records" {
		t.Fatalf("second part: %v", err)
	}
	data := must.Get(io.ReadAll(recordsPart))(t)
	var values []string
	for _, n := range sizes {
		values = append(values, string(data[:n]))
		data = data[n:]
	}
	must.Equalf(t, len(data), 0, "bytes after the last record")
	return values
}

// raw sends bytes on a separate connection and returns the answer, or the error of reading it.
func (s *server) raw(text string) (*http.Response, error) {
	s.t.Helper()
	conn := s.dial()
	if _, err := conn.Write([]byte(text)); err != nil {
		return nil, err
	}
	_ = conn.SetReadDeadline(time.Now().Add(sebtest.Limit))
	return http.ReadResponse(bufio.NewReader(conn), nil)
}

func (s *server) dial() net.Conn {
	s.t.Helper()
	conn := must.Get(s.connect())(s.t)
	s.t.Cleanup(func() { conn.Close() })
	return conn
}

// body returns a multipart body like that of the original's client.
func body(boundary, sizes, records string) string {
	return "--" + boundary + "\r\nContent-Disposition: form-data; name=\"sizes\"\r\n\r\n" + sizes +
		"\r\n--" + boundary + "\r\nContent-Disposition: form-data; name=\"records\"\r\n\r\n" + records + "\r\n--" + boundary + "--\r\n"
}

const testNow = 1_700_000_000_000
