package server_test

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// riemannEvent is a message with an event of the service s of the host h.
var riemannEvent = []byte("\x32\x06\x22\x01h\x1a\x01s")

// riemannAsk sends a message and returns whether the answer is ok, and its bytes.
func riemannAsk(c net.Conn, message []byte) (ok bool, answer string, err error) {
	_ = c.SetDeadline(time.Now().Add(sebtest.Limit))
	if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...)); err != nil {
		return false, "", err
	}
	r := bufio.NewReader(c)
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return false, "", err
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err = io.ReadFull(r, b)
	return strings.HasPrefix(string(b), "\x10\x01"), string(b), err
}

// TestRiemann: a server stores the events of Riemann clients, HTTP clients read them, and the server
// stops while a client is connected.
func TestRiemann(t *testing.T) {
	t.Parallel()
	cfg := settings(t, "mem:")
	cfg.Riemann.Listen, cfg.Riemann.UDP = "127.0.0.1:0", "127.0.0.1:0"
	s := start(t, cfg)
	c := must.Get(net.Dial("tcp", s.RiemannAddress()))(t)
	defer c.Close()
	if ok, answer, err := riemannAsk(c, riemannEvent); !ok || err != nil {
		t.Fatalf("%q %v", answer, err)
	}
	for r, err := range connect(t, s).Records(t.Context(), "riemann", client.ReadOptions{}) {
		if want := `{"event":"s","entity_id":"h","data":{}}`; err != nil || string(r.Value) != want || string(r.Key) != "h" {
			t.Errorf("%+v %v", r, err)
		}
	}
	var out strings.Builder
	if s.Banner(&out, "seb"); !strings.Contains(out.String(), ", Riemann "+s.RiemannAddress()+", Riemann "+s.RiemannDatagrams()+" (UDP)\n") {
		t.Errorf("banner: %s", out.String())
	}
	d := must.Get(net.Dial("udp", s.RiemannDatagrams()))(t)
	defer d.Close()
	must.Get(d.Write(riemannEvent))(t)
	sebtest.Eventually(t, "the datagram is stored", func() bool { return strings.Contains(scrape(t, s), "seb_riemann_events_total 2\n") })
	check.NoError(t, s.Close(t.Context()))
	check.NoErrorf(t, check.Err(io.ReadAll(c)), "the connection ends with")
	check.Error(t, check.Err(net.Dial("tcp", s.RiemannAddress())), "the listener exists")
}

// TestRiemannStatus: GET /status shows listeners, events and the index, but no topic that the client may
// not describe.
func TestRiemannStatus(t *testing.T) {
	t.Parallel()
	cfg := settings(t, "mem:")
	cfg.Riemann.Listen, cfg.Riemann.UDP, cfg.Riemann.WebListen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	s := start(t, cfg)
	root := connect(t, s)
	c, err := net.Dial("tcp", s.RiemannAddress())
	must.NoError(t, err)
	defer c.Close()
	if ok, answer, err := riemannAsk(c, riemannEvent); !ok || err != nil {
		t.Fatalf("%q %v", answer, err)
	}
	if ok, _, err := riemannAsk(c, []byte{0xff}); ok || err != nil {
		t.Fatalf("a broken message: %t, %v", ok, err)
	}
	d, err := net.Dial("udp", s.RiemannDatagrams())
	must.NoError(t, err)
	defer d.Close()
	must.Get(d.Write([]byte{0xff}))(t)
	want := api.RiemannStatus{
		Address: s.RiemannAddress(), UDPAddress: s.RiemannDatagrams(), WebAddress: s.RiemannWebAddress(), Topic: "riemann",
		Connections: 1, Events: 1, MessagesRefused: 1, Datagrams: 1, DatagramsDropped: 1, Index: api.RiemannIndexStatus{Events: 1, Bytes: 69},
	}
	var got client.Status
	sebtest.Eventually(t, "the status has the events", func() bool {
		if got, err = root.Status(t.Context()); err != nil {
			t.Fatal(err)
		}
		return got.Riemann != nil && *got.Riemann == want && len(got.Warnings) == 0
	})
	made, err := root.CreateToken(t.Context(), client.TokenSpec{ID: "ops", Rules: []client.Rule{{Resource: "metrics", Pattern: "metrics", Operation: "describe"}}})
	must.NoError(t, err)
	ops, err := client.New(s.URL(), client.Options{APIKey: made.Secret})
	must.NoError(t, err)
	defer ops.Close()
	if got, err = ops.Status(t.Context()); err != nil || got.Riemann == nil || got.Riemann.Topic != "" || got.Riemann.Events != 1 {
		t.Errorf("without a right to the topic: %+v, %v", got.Riemann, err)
	}
	if got, err = connect(t, start(t, settings(t, "mem:"))).Status(t.Context()); err != nil || got.Riemann != nil {
		t.Errorf("without a listener: %+v, %v", got.Riemann, err)
	}
}

// TestRiemannCertificates: a client with a certificate has the rights of its principal. Without one it
// is refused if certificates are required, and otherwise acts with the listener's token.
func TestRiemannCertificates(t *testing.T) {
	t.Parallel()
	for _, auth := range []string{config.ClientRequest, config.ClientRequire} {
		t.Run(auth, func(t *testing.T) {
			authority := testenv.NewAuthority(t)
			files := authority.Files(t, t.TempDir(), testenv.Leaf{})
			cfg := settings(t, "mem:")
			cfg.Riemann.Listen = "127.0.0.1:0"
			cfg.TLS = config.TLS{
				CertFile: files.Cert, KeyFile: files.Key, Listeners: "riemann", ClientCA: authority.File(t, t.TempDir()), ClientAuth: auth,
				PrincipalMapping: `RULE:^CN=(.*?),OU=services,O=Test$/$1/L`,
			}
			s := start(t, cfg)
			root := connect(t, s)
			must.NoError(t, root.AddRules(t.Context(), []client.Rule{
				{Principal: "collector", Resource: "topic", Pattern: "riemann", Operation: "write"},
				{Principal: "collector", Resource: "topic", Pattern: "riemann", Operation: "create"},
			}))
			ask := func(certs ...tls.Certificate) (bool, string, error) {
				trusted := authority.Trusted()
				trusted.Certificates = certs
				c, err := tls.Dial("tcp", s.RiemannAddress(), trusted)
				if err != nil {
					return false, "", err
				}
				defer c.Close()
				return riemannAsk(c, riemannEvent)
			}
			if ok, answer, err := ask(authority.Client(t, testenv.Client{Name: "Collector"})); !ok || err != nil {
				t.Errorf("with a certificate: %q %v", answer, err)
			}
			if ok, answer, err := ask(authority.Client(t, testenv.Client{Name: "Other"})); ok || err != nil || !strings.Contains(answer, "topic riemann") {
				t.Errorf("with a certificate without rights: %t %q %v", ok, answer, err)
			}
			if ok, answer, err := ask(testenv.NewAuthority(t).Client(t, testenv.Client{Name: "Collector"})); err == nil {
				t.Errorf("with a certificate of another authority: %t %q", ok, answer)
			}
			if ok, answer, err := ask(); (err == nil && ok) != (auth == config.ClientRequest) {
				t.Errorf("without a certificate: %t %q %v", ok, answer, err)
			}
			stored := 0
			for _, err := range root.Records(t.Context(), "riemann", client.ReadOptions{}) {
				must.NoError(t, err)
				stored++
			}
			check.Equalf(t, stored, map[string]int{config.ClientRequest: 2, config.ClientRequire: 1}[auth], "events are stored")
			// A client sees the alert of a failed handshake before the server counts it.
			failed := map[string]string{config.ClientRequest: "1", config.ClientRequire: "2"}[auth]
			sebtest.Eventually(t, "refusals are counted", func() bool {
				_, series := families(t, scrape(t, s))
				return series["seb_riemann_messages_refused_total"] == "1" && series[`seb_tls_failures_total{listener="riemann"}`] == failed
			})
		})
	}
}
