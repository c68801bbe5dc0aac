package server_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/triggers/secrets"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// TestRiemannSubscriptionRights: with TLS and client certificates a subscriber needs the right to read
// the topic, and its subscription ends with that right. Others are refused.
func TestRiemannSubscriptionRights(t *testing.T) {
	t.Parallel()
	authority := testenv.NewAuthority(t)
	files := authority.Files(t, t.TempDir(), testenv.Leaf{})
	cfg := settings(t, "mem:")
	cfg.Riemann.WebListen = "127.0.0.1:0"
	cfg.TLS = config.TLS{
		CertFile: files.Cert, KeyFile: files.Key, Listeners: config.ListenerRiemannWeb, ClientCA: authority.File(t, t.TempDir()),
		ClientAuth: config.ClientRequire, PrincipalMapping: `RULE:^CN=(.*?),OU=services,O=Test$/$1/L`,
	}
	s := start(t, cfg)
	root := connect(t, s)
	sendRiemann(t, root, "a", "load", `{"metric":1}`)
	dashboard := client.Rule{Principal: "dashboard", Resource: "topic", Pattern: "riemann", Operation: "read"}
	must.NoError(t, root.AddRules(t.Context(), []client.Rule{dashboard}))
	address := strings.Replace(subscribeURL(s, "true"), "http://", "https://", 1)
	get := func(certs ...tls.Certificate) (*http.Response, error) {
		trusted := authority.Trusted()
		trusted.Certificates = certs
		transport := &http.Transport{TLSClientConfig: trusted}
		t.Cleanup(transport.CloseIdleConnections)
		req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil))(t)
		return transport.RoundTrip(req)
	}
	open := must.Get(get(authority.Client(t, testenv.Client{Name: "Dashboard"})))(t)
	defer open.Body.Close()
	lines := bufio.NewScanner(open.Body)
	if lines.Scan(); open.StatusCode != 200 || fieldsOfEvent(t, strings.TrimPrefix(lines.Text(), "data: ")) != "a load 1" {
		t.Errorf("with a certificate: %d %q", open.StatusCode, lines.Text())
	}
	resp := must.Get(get(authority.Client(t, testenv.Client{Name: "Other"})))(t)
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 403 || !strings.Contains(string(text), "read on topic riemann") {
		t.Errorf("with a certificate without rights: %d %q %v", resp.StatusCode, text, err)
	}
	for name, certs := range map[string][]tls.Certificate{
		"of another authority": {testenv.NewAuthority(t).Client(t, testenv.Client{Name: "Dashboard"})}, "none": nil,
	} {
		if resp, err := get(certs...); err == nil {
			resp.Body.Close()
			t.Errorf("certificate %s: status %d", name, resp.StatusCode)
		}
	}
	sebtest.Eventually(t, "refusals are counted", func() bool {
		_, series := families(t, scrape(t, s))
		return series[`seb_tls_failures_total{listener="riemann-web"}`] == "2"
	})
	must.Get(root.RemoveRules(t.Context(), client.RuleFilter{Principal: "dashboard"}))(t)
	for lines.Scan() { // until the end of the subscription
	}
	check.NoErrorf(t, lines.Err(), "the subscription ends with")
}

// TestRiemannSubscriptionsOfAToken: without certificates a subscriber has the rights of the listener's
// token.
func TestRiemannSubscriptionsOfAToken(t *testing.T) {
	t.Parallel()
	cfg := settings(t, "file:"+t.TempDir())
	s := start(t, cfg)
	token := must.Get(connect(t, s).CreateToken(t.Context(), client.TokenSpec{ID: "listener", Scopes: client.Scopes{Write: []string{"riemann"}}}))(t)
	must.NoError(t, s.Close(t.Context()))
	cfg.Riemann.WebListen, cfg.Riemann.Token = "127.0.0.1:0", secrets.Text(token.Secret)
	s = start(t, cfg)
	if _, resp := dial(t, subscribeURL(s, "true")); resp.StatusCode != 403 {
		t.Errorf("without the right to read: status %d", resp.StatusCode)
	}
	must.NoError(t, connect(t, s).AddRules(t.Context(), []client.Rule{{Principal: "listener", Resource: "topic", Pattern: "riemann", Operation: "read"}}))
	w, resp := dial(t, subscribeURL(s, "true"))
	must.Equalf(t, resp.StatusCode, 101, "with the right to read: status")
	must.NoError(t, connect(t, s).RevokeToken(t.Context(), "listener"))
	w.closes(1001)
}

// TestAnonymousRiemannListeners: the start warns of listeners that others reach without a certificate.
func TestAnonymousRiemannListeners(t *testing.T) {
	t.Parallel()
	s, log := startLogged(t, func(c *config.Config) {
		c.Riemann.Listen, c.Riemann.WebListen, c.Riemann.UDP, c.Riemann.AllowAnonymous = "0.0.0.0:0", "0.0.0.0:0", "127.0.0.1:0", true
	})
	defer s.Close(context.Background())
	for address, may := range map[string]string{s.RiemannAddress(): "writes", s.RiemannWebAddress(): "reads"} {
		if want := "everyone who reaches the listener " + may + " events (--riemann-allow-anonymous)\" address=" + address; !strings.Contains(log.String(), want) {
			t.Errorf("no %q in %s", want, log)
		}
	}
	check.Equalf(t, strings.Count(log.String(), "--riemann-allow-anonymous"), 2, "warnings, want 2: %s", log)
}
