package interop

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/protocols/tlsport"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// sqsProxy is a proxy with TLS in front of brokers, with the configuration of docs/guide/sqs.md.
type sqsProxy struct {
	t         *testing.T
	authority *testenv.Authority
	files     tlsport.Files
	ca        string // file of the authority
	host      string // host:port
}

func newSQSProxy(t *testing.T) *sqsProxy {
	p := &sqsProxy{t: t, authority: testenv.NewAuthority(t), host: "localhost:" + strconv.Itoa(testenv.PortForTest(t))}
	dir := t.TempDir()
	p.ca, p.files = p.authority.File(t, dir), p.authority.Files(t, dir, testenv.Leaf{Names: []string{"localhost"}})
	return p
}

func (p *sqsProxy) url() string { return "https://" + p.host }

// guide is a block of docs/guide/sqs.md, in which each pair of replaced occurs.
func (p *sqsProxy) guide(language string, replaced ...string) string {
	text := must.Get(os.ReadFile("../../docs/guide/sqs.md"))(p.t)
	m := regexp.MustCompile("(?ms)^```" + language + "\n(.*?)^```$").FindSubmatch(text)
	if m == nil {
		p.t.Fatalf("docs/guide/sqs.md has no block of %s", language)
	}
	for pair := range slices.Chunk(replaced, 2) {
		if !strings.Contains(string(m[1]), pair[0]) {
			p.t.Fatalf("the block of %s has no %q", language, pair[0])
		}
	}
	return strings.NewReplacer(replaced...).Replace(string(m[1]))
}

// nginx starts nginx in front of brokers, and returns its URL.
func (p *sqsProxy) nginx(addresses []string, scheme string) string {
	dir := p.t.TempDir()
	config := p.guide("nginx", "listen 443 ssl", "listen "+p.host+" ssl", "/etc/ssl/seb.example.com.pem", p.files.Cert, "/etc/ssl/seb.example.com.key", p.files.Key,
		"server 127.0.0.1:51313", "server "+strings.Join(addresses, "; server "), "http://seb", scheme+"://seb", "seb.example.com", "localhost")
	whole := fmt.Sprintf("daemon off; master_process off; pid %[1]s/pid; error_log stderr; events {}\nhttp {\naccess_log off;\n", dir)
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		whole += fmt.Sprintf("%s_temp_path %s/%s;\n", kind, dir, kind)
	}
	file := filepath.Join(dir, "nginx.conf")
	must.NoError(p.t, os.WriteFile(file, []byte(whole+config+"}\n"), 0o600))
	p.start("nginx", "usr/sbin/nginx", "-c", file, "-e", "stderr")
	return p.url()
}

// caddy starts Caddy in front of a broker.
func (p *sqsProxy) caddy(address string) {
	dir := p.t.TempDir()
	config := p.guide("caddy", "seb.example.com {", fmt.Sprintf("%s {\n    tls %s %s", p.host, p.files.Cert, p.files.Key), "127.0.0.1:51313", address)
	file := filepath.Join(dir, "Caddyfile")
	must.NoError(p.t, os.WriteFile(file, []byte("{\n    admin off\n    auto_https disable_redirects\n}\n"+config), 0o600))
	p.start("caddy", "usr/bin/caddy", "run", "--config", file, "--adapter", "caddyfile")
}

// start starts a program of Debian, until the end of the test, and waits until it answers.
func (p *sqsProxy) start(name, program string, args ...string) {
	dir := must.Get(testenv.Debian(p.t.Context(), name))(p.t)
	run := must.Get(testenv.StartProgram(filepath.Join(dir, program), []string{testenv.Libraries(dir), "HOME=" + p.t.TempDir()}, nil, args...))(p.t)
	p.t.Cleanup(func() {
		run.Stop()
		if p.t.Failed() {
			p.t.Logf("end of the output of %s:\n%s", name, run.Log())
		}
	})
	c := http.Client{Transport: &http.Transport{TLSClientConfig: p.authority.Trusted(), DisableKeepAlives: true}}
	sebtest.Eventually(p.t, name+" answers", func() bool {
		resp, err := c.Get(p.url() + "/healthz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return true
	})
}

// TestSQSProxies runs clients behind the proxies of docs/guide/sqs.md, whose brokers are killed twice.
func TestSQSProxies(t *testing.T) {
	testenv.InteropWanted(t)
	for _, c := range sqsClients {
		if c.name != "boto3" && c.name != "@aws-sdk/client-sqs" {
			continue
		}
		for _, name := range []string{"nginx", "caddy", "nginx, two brokers"} {
			t.Run(c.name+" behind "+name, func(t *testing.T) {
				command, env, err := c.install(t.Context())
				must.NoError(t, err)
				p := newSQSProxy(t)
				env = append(c.env(env), "AWS_CA_BUNDLE="+p.ca, "NODE_EXTRA_CA_CERTS="+p.ca)
				if name == "nginx, two brokers" {
					f := serveSQSFleet(t, func(addresses []string) string { return p.nginx(addresses, "https") }, p.authority.Trusted(),
						"--tls-cert", p.files.Cert, "--tls-key", p.files.Key, "--tls-listeners", "http")
					c.run(t, f.sqsBroker, command, env, "behind nginx, the leader killed twice")
					f.checkForwards()
					return
				}
				b := startSQS(t, secretsKey(t), "--advertise", p.url())
				address := strings.TrimPrefix(b.HTTP(), "http://")
				if name == "caddy" {
					p.caddy(address)
				} else {
					p.nginx([]string{address}, "http")
				}
				c.run(t, &sqsBroker{p.url(), sqsPair(t, sqsAdmin(t, b, nil)), func() { b.Restart(300 * time.Millisecond) }}, command, env, "behind "+name+", the broker killed twice")
			})
		}
	}
}
