package webhook_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/triggers/delivery/webhook"
	"github.com/sebbroker/seb/internal/triggers/secrets"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	signed "github.com/sebbroker/seb/webhook"
)

func TestPolicy(t *testing.T) {
	public := []string{
		"1.1.1.1", "8.8.8.8", "93.184.216.34", "172.15.255.255", "172.32.0.0", "100.63.255.255", "100.128.0.0", "11.0.0.1",
		"2606:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8", "64:ff9b::808:808", "223.255.255.255",
	}
	inside := map[string]string{
		"127.0.0.1": "loopback", "127.255.255.254": "loopback", "::1": "loopback", "::ffff:127.0.0.1": "loopback", "64:ff9b::7f00:1": "loopback",
		"10.0.0.1": "private", "172.16.0.1": "private", "172.31.255.255": "private", "192.168.1.1": "private", "::ffff:10.0.0.1": "private",
		"64:ff9b::a00:1": "private", "fc00::1": "private", "fd12::1": "private", "100.64.0.1": "shared", "100.127.255.255": "shared",
		"169.254.1.1": "link-local", "fe80::1": "link-local", "fe80::1%eth0": "link-local",
		"0.0.0.0": "unspecified", "0.1.2.3": "unspecified", "::": "unspecified", "::ffff:0.0.0.0": "unspecified",
		"224.0.0.1": "multicast", "239.255.255.255": "multicast", "ff02::1": "multicast",
		"169.254.169.254": "metadata", "::ffff:169.254.169.254": "metadata", "64:ff9b::a9fe:a9fe": "metadata", "168.63.129.16": "metadata",
		"100.100.100.200": "metadata", "192.0.0.192": "metadata", "fd00:ec2::254": "metadata",
		"255.255.255.255": "reserved", "240.0.0.1": "reserved", "192.0.2.1": "reserved", "198.18.0.1": "reserved", "203.0.113.1": "reserved",
		"2001::1": "reserved", "2001:db8::1": "reserved", "2002:7f00:1::": "reserved", "3fff::1": "reserved", "64:ff9b:1::1": "reserved",
		"::127.0.0.1": "reserved", "::ffff:0:127.0.0.1": "reserved", "fec0::1": "reserved", "100::1": "reserved", "5f00::1": "reserved",
	}
	var none webhook.Policy
	all := policy(t, webhook.AllowAll)
	for _, text := range public {
		check.NoErrorf(t, none.Check(netip.MustParseAddr(text)), "%s", text)
	}
	for text, class := range inside {
		err := none.Check(netip.MustParseAddr(text))
		if refused, ok := errors.AsType[*webhook.RefusedError](err); !ok || !strings.Contains(refused.Class, class) {
			t.Errorf("%s: %v, want %s", text, err, class)
		}
		check.NoErrorf(t, all.Check(netip.MustParseAddr(text)), "%s with %s", text, webhook.AllowAll)
	}
	some := policy(t, "10.1.0.0/16", " 127.0.0.1 ", "fd00:1::/32", "::ffff:192.168.7.7")
	for text, want := range map[string]bool{
		"10.1.2.3": true, "10.2.0.1": false, "127.0.0.1": true, "127.0.0.2": false, "fd00:1::5": true, "fd00:2::5": false,
		"::ffff:10.1.2.3": true, "64:ff9b::a01:203": true, "192.168.7.7": true, "8.8.8.8": true,
	} {
		if err := some.Check(netip.MustParseAddr(text)); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, list := range [][]string{{"10.0.0.0/33"}, {"x"}, {""}, {"fe80::1%eth0"}, {"10.0.0.0-10.0.0.9"}, make([]string, 300)} {
		check.Error(t, check.Err(webhook.ParsePolicy(list)), "%.3q is accepted", list)
	}
}

func TestURLs(t *testing.T) {
	for _, tt := range []struct{ url, fault string }{
		{"https://example.com/hook", ""},
		{"http://example.com:8080/hook?a=b", ""},
		{"HTTPS://EXAMPLE.com", ""},
		{"https://8.8.8.8/", ""},
		{"https://[2606:4700::1111]:443/", ""},
		{"https://example.com/%20%23", ""},
		{"", "0 bytes, want 1 to 2048"},
		{"https://example.com/" + strings.Repeat("x", 2048), "2068 bytes"},
		{"ftp://example.com/", "want https:// or http://"},
		{"file:///etc/passwd", "want https:// or http://"},
		{"example.com/hook", "want https:// or http://"},
		{"//example.com/", "want https:// or http://"},
		{"https:example.com", "has no host"},
		{"https:///hook", "has no host"},
		{"https://:443/", "has no host"},
		{"https://user:pass@example.com/", "has a user"},
		{"https://user@example.com/", "has a user"},
		{"https://@example.com/", "has a user"},
		{"https://example.com/#x", "has a fragment"},
		{"https://example.com/#", "has a fragment"},
		{"https://example.com:/", "a colon without a port"},
		{"https://example.com:0/", "port: want 1 to 65535"},
		{"https://example.com:65536/", "port: want 1 to 65535"},
		{"https://example.com:http/", "cannot be parsed"},
		{"https://example.com/a b", "contains a space"},
		{"https://example.com/\r\nHost: x", "contains a space, a control character"},
		{"https://exämple.com/", "non-ASCII"},
		{"https://localhost/", "address class loopback"},
		{"https://LOCALHOST.:8080/", "address class loopback"},
		{"https://api.localhost/", "address class loopback"},
		{"https://127.0.0.1/", "address class loopback"},
		{"https://127.0.0.1./", "address class loopback"},
		{"https://[::1]/", "address class loopback"},
		{"https://[::ffff:10.0.0.1]/", "address class private"},
		{"https://[fe80::1%25eth0]/", "address class link-local"},
		{"http://169.254.169.254/latest/meta-data/", "address class a metadata service"},
	} {
		_, err := webhook.Parse(webhook.Config{URL: tt.url, Secrets: []signed.Secret{secret}}, webhook.Policy{}, nil)
		if tt.fault == "" && err != nil || tt.fault != "" && (err == nil || !strings.HasPrefix(err.Error(), "url: ") || !strings.Contains(err.Error(), tt.fault)) {
			t.Errorf("%.80q: %v, want %q", tt.url, err, tt.fault)
		}
		if err != nil && (strings.Contains(err.Error(), "pass@") || strings.Contains(err.Error(), "/hook")) {
			t.Errorf("the error quotes %.80q: %v", tt.url, err)
		}
	}
}

func TestHeaders(t *testing.T) {
	for _, tt := range []struct {
		headers map[string]secrets.Text
		fault   string
	}{
		{map[string]secrets.Text{"authorization": "Bearer x", "X-A": "", "User-Agent": "mine"}, ""},
		{map[string]secrets.Text{"Host": "x"}, "Host cannot be set"},
		{map[string]secrets.Text{"content-length": "1"}, "Content-Length cannot be set"},
		{map[string]secrets.Text{"Transfer-Encoding": "chunked"}, "Transfer-Encoding cannot be set"},
		{map[string]secrets.Text{"webhook-id": "x"}, "Webhook-Id cannot be set"},
		{map[string]secrets.Text{"Webhook-Extra": "x"}, "cannot be set"},
		{map[string]secrets.Text{"proxy-authorization": "x"}, "cannot be set"},
		{map[string]secrets.Text{"Content-Type": "x"}, "cannot be set"},
		{map[string]secrets.Text{"Connection": "x"}, "cannot be set"},
		{map[string]secrets.Text{"webhook_id": "x"}, "want 1 to 64 letters"},
		{map[string]secrets.Text{"X A": "x"}, "want 1 to 64 letters"},
		{map[string]secrets.Text{"": "x"}, "want 1 to 64 letters"},
		{map[string]secrets.Text{"X:": "x"}, "want 1 to 64 letters"},
		{map[string]secrets.Text{strings.Repeat("x", 65): "x"}, "want 1 to 64 letters"},
		{map[string]secrets.Text{"x-a": "1", "X-A": "2"}, "duplicate header X-A"},
		{map[string]secrets.Text{"X-A": "swordfish\r\nHost: x"}, "value of X-A: want at most 4096 printable"},
		{map[string]secrets.Text{"X-A": "swordfish é"}, "value of X-A"},
		{map[string]secrets.Text{"X-A": secrets.Text(strings.Repeat("x", 4097))}, "value of X-A"},
		{many(17), "17 headers, limit 16"},
	} {
		c := webhook.Config{URL: "https://example.com", Secrets: []signed.Secret{secret}, Headers: tt.headers}
		_, err := webhook.Parse(c, webhook.Policy{}, nil)
		if tt.fault == "" && err != nil || tt.fault != "" && (err == nil || !strings.HasPrefix(err.Error(), "headers: ") || !strings.Contains(err.Error(), tt.fault)) {
			t.Errorf("%v: %v, want %q", tt.headers, err, tt.fault)
		}
		if err != nil && strings.Contains(err.Error(), "swordfish") {
			t.Errorf("the error quotes a value: %v", err)
		}
	}
}

func many(n int) map[string]secrets.Text {
	headers := make(map[string]secrets.Text)
	for i := range n {
		headers[fmt.Sprint("X-", i)] = "x"
	}
	return headers
}

func TestContentTypes(t *testing.T) {
	for text, ok := range map[string]bool{
		"text/plain": true, "application/json": true, "text/html; charset=utf-8": true, "application/x-www-form-urlencoded": true,
		"text": false, "text/plain; charset=latin1": false, "text/plain\r\nX: y": false, "a/b; " + strings.Repeat("x", 200) + "=1": false,
	} {
		c := webhook.Config{URL: "https://example.com", Secrets: []signed.Secret{secret}, Template: "1", ContentType: text}
		if _, err := webhook.Parse(c, webhook.Policy{}, nil); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestEveryFaultIsReportedAtOnce(t *testing.T) {
	_, err := webhook.Parse(webhook.Config{
		URL: "x", Headers: map[string]secrets.Text{"Host": "x"}, Secrets: []signed.Secret{{}}, Template: "{{.Witness.x}}", ContentType: "x",
	}, webhook.Policy{}, []string{"signup"})
	for _, field := range []string{"url: ", "headers: ", "secrets: ", "content_type: ", "template: 1:3: event"} {
		if err == nil || !strings.Contains("\n"+err.Error(), "\n"+field) {
			t.Errorf("missing fault %q in:\n%v", field, err)
		}
	}
	_, err = webhook.Parse(webhook.Config{URL: "https://example.com", ContentType: "text/plain"}, webhook.Policy{}, nil)
	if err == nil || !strings.Contains(err.Error(), "content_type: requires a template") || !strings.Contains(err.Error(), "secrets: want 1 to 8") {
		t.Errorf("%v", err)
	}
}

// TestConfigIsNotShown: printing a configuration or an outcome shows neither secrets nor headers.
func TestConfigIsNotShown(t *testing.T) {
	c := webhook.Config{URL: "https://example.com", Secrets: []signed.Secret{secret}, Headers: map[string]secrets.Text{"Authorization": "swordfish"}}
	encoded := must.Get(json.Marshal(c))(t)
	shown := fmt.Sprintf("%v %+v %#v %s", c, c, c, c) + string(encoded)
	if strings.Contains(shown, "swordfish") || strings.Contains(shown, secret.Reveal()[6:]) {
		t.Errorf("shown: %s", shown)
	}
}

func TestOutcomesAreStored(t *testing.T) {
	want := webhook.Outcome{Kind: webhook.Retry, Status: 503, RetryAfter: 5, Reason: "x", Detail: "y", Took: 7}
	encoded := must.Get(json.Marshal(want))(t)
	var got webhook.Outcome
	if err := json.Unmarshal(encoded, &got); err != nil || got != want || !strings.Contains(string(encoded), `"kind":"retry"`) {
		t.Errorf("%s: %+v, %v", encoded, got, err)
	}
	check.Error(t, json.Unmarshal([]byte(`{"kind":"maybe"}`), &got), "an unknown kind is accepted")
}

// FuzzURL: an accepted URL has a scheme, a host that is not a private address, and no user.
func FuzzURL(f *testing.F) {
	for _, text := range []string{"https://example.com/a?b=c", "http://[::ffff:7f00:1]:80/", "http://0x7f.1/", "https://a@b/#c", "http://127.0.0.1.:1/", "http:\\\\x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := webhook.Parse(webhook.Config{URL: text, Secrets: []signed.Secret{secret}}, webhook.Policy{}, nil); err != nil {
			return
		}
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
			t.Fatalf("%q is accepted: %+v, %v", text, u, err)
		}
		if addr, err := netip.ParseAddr(u.Hostname()); err == nil && (webhook.Policy{}).Check(addr) != nil {
			t.Fatalf("%q is accepted", text)
		}
	})
}
