package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/protocols/tlsport"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// TestCertificates: librdkafka and Kafka's console tools with security.protocol=SSL and no SASL are
// the principal to which Kafka's mapping rules map their certificate.
func TestCertificates(t *testing.T) {
	testenv.InteropWanted(t)
	dir, authority := t.TempDir(), testenv.NewAuthority(t)
	own, lists := authority.File(t, dir), filepath.Join(dir, "crl.pem")
	server := authority.Files(t, dir, testenv.Leaf{})
	authority.Revocations(t, lists, time.Hour)
	b := testenv.ServeInterop(t, "--tls-cert", server.Cert, "--tls-key", server.Key, "--tls-listeners", "kafka", "--tls-client-ca", own,
		"--tls-client-crl", lists, "--tls-client-auth", "require", "--tls-principal-mapping", "RULE:^CN=(.*?),OU=services,O=Test$/$1/L, DEFAULT")
	createTopic(t, b, "orders", 1)
	createTopic(t, b, "secret", 1)
	c := must.Get(client.New(b.HTTP(), client.Options{APIKey: testenv.InteropKey}))(t)
	defer c.Close()
	rule := client.Rule{Principal: "shop", Resource: "topic", Pattern: "orders", Operation: "all"}
	group := client.Rule{Principal: "shop", Resource: "group", Pattern: "console", Operation: "read"}
	must.NoError(t, c.AddRules(t.Context(), []client.Rule{rule, group}))
	shop := authority.Client(t, testenv.Client{Name: "Shop"})
	files := testenv.WriteClient(t, dir, shop)

	begin := time.Now()
	k := newKcat(t, b, "PLAIN")
	k.options = []string{"-b", b.Address, "-X", "security.protocol=SSL", "-X", "ssl.ca.location=" + own}
	anonymous := *k
	k.options = append(k.options, "-X", "ssl.certificate.location="+files.Cert, "-X", "ssl.key.location="+files.Key)
	k.run(strings.NewReader("one\n"), "-P", "-t", "orders")
	check.Equalf(t, k.run(nil, "-C", "-t", "orders", "-o", "beginning", "-e", "-q"), "one\n", "kcat reads")
	if _, said, err := k.try(strings.NewReader("x\n"), "-P", "-t", "secret"); err == nil || !strings.Contains(said, "authorization failed") {
		t.Errorf("kcat writes to a topic without rules: %v: %s", err, said)
	}
	if _, said, err := anonymous.try(nil, "-L", "-m", "5"); err == nil || !strings.Contains(strings.ToLower(said), "certificate required") {
		t.Errorf("kcat without a certificate: %v: %s", err, said)
	}
	testenv.Report("certificates, kcat", "SSL without SASL: rights, and refusal without a certificate", time.Since(begin))

	begin = time.Now()
	config := sslSettings(t, dir, own, files)
	console := func(class string, args ...string) string {
		all := append(append(JavaFlags(classes(t)), class, "--bootstrap-server", b.Address, "--command-config", config), args...)
		out := must.Get(testenv.Command(t.Context(), ".", "sh", append([]string{"-c", `echo two | java "$@" 2>&1; true`, "sh"}, all...)...))(t)
		return out
	}
	if out := console(producerTool, "--topic", "orders"); strings.Contains(out, "Exception") {
		t.Error(out)
	}
	check.Contains(t, console(producerTool, "--topic", "secret"), "TOPIC_AUTHORIZATION_FAILED")
	out := console(consumerTool, "--topic", "orders", "--group", "console", "--from-beginning", "--max-messages", "2", "--timeout-ms", "30000")
	says(t, out, "one\ntwo\n")
	testenv.Report("certificates, console tools "+JavaVersion, "SSL without SASL: rights", time.Since(begin))

	authority.Revocations(t, lists, time.Hour, shop)
	sebtest.Eventually(t, "the list is read", func() bool { return strings.Contains(b.Log(), "revoked=1") })
	if _, said, err := k.try(nil, "-L", "-m", "5"); err == nil || !strings.Contains(said, "bad certificate") {
		t.Errorf("kcat after the revocation: %v: %s", err, said)
	}
	check.Containsf(t, console(producerTool, "--topic", "orders", "--timeout", "5000"), "SslAuthenticationException", "console producer after the revocation")
}

// sslSettings writes a settings file of Java clients with a certificate and without SASL.
func sslSettings(t *testing.T, dir, authorities string, files tlsport.Files) string {
	t.Helper()
	store, config := filepath.Join(dir, "keystore.pem"), filepath.Join(dir, "ssl.properties")
	var pem []byte
	for _, name := range []string{files.Key, files.Cert} {
		text := must.Get(os.ReadFile(name))(t)
		pem = append(pem, text...)
	}
	text := fmt.Sprintf("security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=%s\nssl.keystore.type=PEM\nssl.keystore.location=%s\n", authorities, store)
	for name, content := range map[string][]byte{store: pem, config: []byte(text)} {
		must.NoError(t, os.WriteFile(name, content, 0o600))
	}
	return config
}
