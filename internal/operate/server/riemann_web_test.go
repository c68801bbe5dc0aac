package server_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/operate/server"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// riemannBroker is a broker with subscriptions for dashboards.
func riemannBroker(t *testing.T) (*server.Server, *client.Client) {
	cfg := settings(t, "mem:")
	cfg.Riemann.WebListen = "127.0.0.1:0"
	must.NoError(t, cfg.HTTP.Origins.Set("https://dash.example.com"))
	s := start(t, cfg)
	return s, connect(t, s)
}

func sendRiemann(t *testing.T, c *client.Client, host, service, data string) {
	t.Helper()
	must.Get(c.ProduceEvent(t.Context(), client.Event{Name: service, EntityID: host, Data: json.RawMessage(data)}, client.EventOptions{Topic: "riemann"}))(t)
}

// subscribeURL returns the address of a subscription.
func subscribeURL(s *server.Server, text string) string {
	return "http://" + s.RiemannWebAddress() + "/index?subscribe=true&query=" + url.QueryEscape(text)
}

// fieldsOfEvent shows an event: "host service metric state".
func fieldsOfEvent(t *testing.T, data string) string {
	t.Helper()
	var e struct {
		Host, Service, State string
		Metric               json.Number
		Time                 time.Time
	}
	if err := json.Unmarshal([]byte(data), &e); err != nil || e.Time.IsZero() {
		t.Fatalf("%q: %v", data, err)
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s", e.Host, e.Service, e.Metric, e.State))
}

func TestRiemannEventStream(t *testing.T) {
	t.Parallel()
	s, c := riemannBroker(t)
	sendRiemann(t, c, "a", "load", `{"metric":1,"ttl":1}`)
	sendRiemann(t, c, "b", "load", `{"metric":2,"state":"ok"}`)
	sendRiemann(t, c, "c", "disk", `{"metric":3}`)
	sebtest.Eventually(t, "the index has the events", func() bool {
		x, err := c.RiemannIndex(t.Context(), `service = "disk"`)
		return err == nil && len(x.Events) == 1
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, subscribeURL(s, `service = "load" and not metric = nil or state = "expired"`), nil))(t)
	req.Header.Set("Origin", "https://dash.example.com")
	resp := must.Get(http.DefaultClient.Do(req))(t)
	defer resp.Body.Close()
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("Access-Control-Allow-Origin") != "https://dash.example.com" {
		t.Fatalf("%v", resp)
	}
	lines := bufio.NewScanner(resp.Body)
	next := func() string {
		t.Helper()
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				return fieldsOfEvent(t, data)
			}
		}
		t.Fatal(lines.Err())
		return ""
	}
	if one, two := next(), next(); one != "a load 1" && one != "b load 2 ok" || one == two {
		t.Errorf("the first events are %q and %q", one, two)
	}
	sendRiemann(t, c, "c", "disk", `{"metric":4}`)
	sendRiemann(t, c, "c", "load", `{"metric":5,"ttl":3600}`)
	check.Equalf(t, next(), "c load 5", "the new event")
	check.Equalf(t, next(), "a load  expired", "the expired event")
}

// webSocket is a client of RFC 6455.
type webSocket struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
}

// dial opens a WebSocket; it returns the answer without one.
func dial(t *testing.T, address string, header ...string) (*webSocket, *http.Response) {
	t.Helper()
	u := must.Get(url.Parse(address))(t)
	conn := must.Get(net.Dial("tcp", u.Host))(t)
	t.Cleanup(func() { conn.Close() })
	// The key and its answer are those of RFC 6455, section 1.3.
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n"+
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n", u.RequestURI(), u.Host)
	for _, h := range header {
		fmt.Fprintf(conn, "%s\r\n", h)
	}
	fmt.Fprint(conn, "\r\n")
	w := &webSocket{t, conn, bufio.NewReader(conn)}
	resp := must.Get(http.ReadResponse(w.r, nil))(t)
	if resp.StatusCode == http.StatusSwitchingProtocols && resp.Header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Fatalf("%v", resp.Header)
	}
	return w, resp
}

// frame sends a masked frame.
func (w *webSocket) frame(op byte, payload string) {
	w.t.Helper()
	mask := [4]byte{1, 2, 3, 4}
	b := append([]byte{0x80 | op, 0x80 | byte(len(payload))}, mask[:]...)
	for i := range len(payload) {
		b = append(b, payload[i]^mask[i%4])
	}
	must.Get(w.conn.Write(b))(w.t)
}

// next returns the next frame.
func (w *webSocket) next() (op byte, payload string) {
	w.t.Helper()
	must.NoError(w.t, w.conn.SetReadDeadline(time.Now().Add(sebtest.Limit)))
	head := make([]byte, 2)
	must.Get(io.ReadFull(w.r, head))(w.t)
	n := uint64(head[1])
	switch n {
	case 126:
		more := make([]byte, 2)
		_, _ = io.ReadFull(w.r, more)
		n = uint64(binary.BigEndian.Uint16(more))
	case 127:
		more := make([]byte, 8)
		_, _ = io.ReadFull(w.r, more)
		n = binary.BigEndian.Uint64(more)
	}
	b := make([]byte, n)
	must.Get(io.ReadFull(w.r, b))(w.t)
	return head[0] & 0x0f, string(b)
}

// closes requires a close frame with a status, and the end of the connection.
func (w *webSocket) closes(status uint16) {
	w.t.Helper()
	for {
		op, payload := w.next()
		if op != 8 {
			continue
		}
		check.Equalf(w.t, binary.BigEndian.Uint16([]byte(payload)), status, "closed with")
		check.Error(w.t, check.Err(w.r.ReadByte()), "more bytes after the close")
		return
	}
}

func TestRiemannWebSocket(t *testing.T) {
	s, c := riemannBroker(t)
	long := strings.Repeat("x", 70_000)
	sendRiemann(t, c, "a", "load", `{"metric":1}`)
	sendRiemann(t, c, "b", "load", `{"metric":2,"state":"`+long[:200]+`"}`)
	if _, err := c.RiemannIndex(t.Context(), "true"); err != nil { // waits for the events
		t.Fatal(err)
	}
	w, _ := dial(t, subscribeURL(s, "true"), "Origin: https://dash.example.com")
	for _, want := range []string{"a load 1", "b load 2 " + long[:200]} {
		if op, e := w.next(); op != 1 || fieldsOfEvent(t, e) != want {
			t.Fatalf("opcode %d, %.300s, want %.100s", op, e, want)
		}
	}
	w.frame(9, "hello")
	if op, payload := w.next(); op != 10 || payload != "hello" {
		t.Errorf("opcode %d, %q, want a pong", op, payload)
	}
	w.frame(1, "ignored")
	sendRiemann(t, c, "c", "load", `{"metric":3,"state":"`+long+`"}`)
	if op, e := w.next(); op != 1 || fieldsOfEvent(t, e) != "c load 3 "+long {
		t.Errorf("opcode %d, %.100s", op, e)
	}
	w.frame(8, "\x03\xe8")
	w.closes(1000)

	w, _ = dial(t, strings.Replace(subscribeURL(s, `host = "a"`), "subscribe=true", "", 1))
	if _, e := w.next(); fieldsOfEvent(t, e) != "a load 1" {
		t.Errorf("%.100s", e)
	}
	w.closes(1000) // without subscribe=true

	for name, wrong := range map[string]struct {
		bytes  string
		status uint16
	}{
		"no mask": {"\x81\x01x", 1002}, "reserved bits": {"\xf1\x80\x00\x00\x00\x00", 1002}, "unknown opcode": {"\x83\x80\x00\x00\x00\x00", 1002},
		"long control frame": {"\x89\xfe\x00\x80\x00\x00\x00\x00", 1002}, "large frame": {"\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00", 1009},
	} {
		w, _ := dial(t, subscribeURL(s, "true"))
		must.NoErrorf(t, check.Err(io.WriteString(w.conn, wrong.bytes)), "%s", name)
		w.closes(wrong.status)
	}

	w, _ = dial(t, subscribeURL(s, "true"))
	w.next()
	check.NoError(t, s.Close(t.Context()))
	w.closes(1001)
}

func TestRiemannSubscriptionsRefused(t *testing.T) {
	s, c := riemannBroker(t)
	sendRiemann(t, c, "a", "load", `{"metric":1}`)
	for _, r := range []struct {
		name, url, header string
		status            int
		text              string
	}{
		{"another origin", subscribeURL(s, "true"), "Origin: https://evil.example.com", 403, "--cors-origin"},
		{"another host", subscribeURL(s, "true"), "Host: rebound.example.com", 400, ""},
		{"wrong query", subscribeURL(s, "a ="), "", 400, "parse error: character 4: expected a value, found the end"},
		{"old WebSocket", subscribeURL(s, "true"), "Sec-WebSocket-Version: 8", 426, "13"},
		{"another path", "http://" + s.RiemannWebAddress() + "/pubsub/x?query=true", "", 404, ""},
	} {
		if strings.HasPrefix(r.header, "Sec-") {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url, nil)
			req.Header = http.Header{"Upgrade": {"websocket"}, "Connection": {"Upgrade"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}, "Sec-Websocket-Version": {"8"}}
			resp := must.Get(http.DefaultClient.Do(req))(t)
			if resp.Body.Close(); resp.StatusCode != r.status {
				t.Errorf("%s: status %d, want %d", r.name, resp.StatusCode, r.status)
			}
			continue
		}
		header := []string{}
		if r.header != "" {
			header = append(header, r.header)
		}
		_, resp := dial(t, r.url, header...)
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != r.status || !strings.Contains(string(body), r.text) {
			t.Errorf("%s: status %d, %s, want %d %s", r.name, resp.StatusCode, body, r.status, r.text)
		}
	}
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, subscribeURL(s, "true"), nil))(t)
	req.Host = "rebound.example.com"
	resp := must.Get(http.DefaultClient.Do(req))(t)
	if resp.Body.Close(); resp.StatusCode != 403 {
		t.Errorf("a host that is not the broker's: status %d, want 403", resp.StatusCode)
	}
}

// TestSlowRiemannSubscriberIsDropped: a client that does not read ends, and others go on.
func TestSlowRiemannSubscriberIsDropped(t *testing.T) {
	s, c := riemannBroker(t)
	slow, _ := dial(t, subscribeURL(s, `service = "big"`))
	other, _ := dial(t, subscribeURL(s, `service = "small"`))
	text := strings.Repeat("x", 200<<10)
	dropped := func() bool {
		_, series := families(t, scrape(t, s))
		return series["seb_riemann_subscribers_dropped_total"] == "1"
	}
	for i := 0; !dropped(); i++ {
		if i == 200 {
			t.Fatal("40 MiB were queued for a client that does not read")
		}
		sendRiemann(t, c, "a", "big", `{"description":"`+text+`"}`)
	}
	sendRiemann(t, c, "a", "small", `{"metric":1}`)
	if _, e := other.next(); fieldsOfEvent(t, e) != "a small 1" {
		t.Errorf("%.100s", e)
	}
	_ = slow.conn.SetReadDeadline(time.Now().Add(sebtest.Limit))
	if _, err := io.Copy(io.Discard, slow.r); errors.Is(err, context.DeadlineExceeded) {
		t.Error("the connection of the slow client is still open")
	}
}

// TestRiemannQueries: a query over TCP sees the events that were acknowledged before it.
func TestRiemannQueries(t *testing.T) {
	t.Parallel()
	cfg := settings(t, "mem:")
	cfg.Riemann.Listen = "127.0.0.1:0"
	s := start(t, cfg)
	c := must.Get(net.Dial("tcp", s.RiemannAddress()))(t)
	defer c.Close()
	queries := func(text string) []byte { // a Msg with a Query
		return append([]byte{0x2a, byte(len(text) + 2), 0x0a, byte(len(text))}, text...)
	}
	for i := range 20 {
		state := fmt.Sprintf("state-%d", i)
		body := append([]byte("\x22\x01h\x1a\x01s\x12"), append([]byte{byte(len(state))}, state...)...) // host, service, state
		if ok, answer, err := riemannAsk(c, append([]byte{0x32, byte(len(body))}, body...)); !ok || err != nil {
			t.Fatalf("%q %v", answer, err)
		}
		if ok, answer, err := riemannAsk(c, queries(`host = "h" and service = "s"`)); !ok || err != nil || !strings.Contains(answer, state) {
			t.Fatalf("query %d: %t %q %v", i, ok, answer, err)
		}
	}
	for text, want := range map[string]string{`a =`: "parse error: character 4: expected a value, found the end", `a ~= "(?=x)"`: "a lookahead (?=…)"} {
		if ok, answer, err := riemannAsk(c, queries(text)); ok || err != nil || !strings.Contains(answer, want) {
			t.Errorf("%s: %t %q %v", text, ok, answer, err)
		}
	}
	if ok, answer, err := riemannAsk(c, queries(`state = "state-0"`)); !ok || err != nil || len(answer) != 2 {
		t.Errorf("no event: %t %q %v", ok, answer, err)
	}
}

// TestManyRiemannSubscriptions: clients beyond the limit of subscriptions are refused, and those
// beyond the limit of connections are cut. The subscriptions continue.
func TestManyRiemannSubscriptions(t *testing.T) {
	s, c := riemannBroker(t)
	sendRiemann(t, c, "a", "load", `{"metric":1}`)
	var open []*webSocket
	for {
		w, resp := dial(t, subscribeURL(s, "true"))
		if resp.StatusCode == http.StatusServiceUnavailable {
			break
		}
		if open = append(open, w); resp.StatusCode != http.StatusSwitchingProtocols || len(open) > 64 {
			t.Fatalf("subscription %d: status %d", len(open), resp.StatusCode)
		}
	}
	var last net.Conn
	for range 200 { // that send no whole request
		var err error
		if last, err = net.Dial("tcp", s.RiemannWebAddress()); err != nil {
			t.Fatal(err)
		}
		defer last.Close()
		must.Get(io.WriteString(last, "G"))(t)
	}
	_ = last.SetReadDeadline(time.Now().Add(5 * time.Second)) // less than the time for the head of a request
	if _, err := last.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the last of 200 connections: %v", err)
	}
	open[0].frame(8, "\x03\xe8")
	open[0].closes(1000)
	if _, e := open[1].next(); fieldsOfEvent(t, e) != "a load 1" {
		t.Errorf("%.100s", e)
	}
}
