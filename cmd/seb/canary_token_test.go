package main_test

import (
	"bytes"
	"crypto/sha256"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// canaryPassword is the password of two users.
const canaryPassword = "CANARY-password-91c3d7"

// keyring is a broker with tokens and users in every state.
type keyring struct {
	*leaks
	p                       *workDir
	b                       *running
	shop, second, report    string // valid: both tokens of a shop, and that of a report
	replaced, gone, expired string // invalid
}

// TestSecretsOfTokensAreNotShown: a broker with tokens and users with passwords is killed, and its
// data folder is lost. A second broker on the bucket has all tokens, users and rules, and a root key
// of its own. No secret is anywhere except in the answer that makes it. The bucket has the digests of
// tokens, which shows that the search reads them.
func TestSecretsOfTokensAreNotShown(t *testing.T) {
	sebtest.Long(t, "TestKeysOfFlagsAndFilesAreNotShown remains")
	k := &keyring{leaks: newLeaks(t), p: newWorkDir(t)}
	k.serve()
	first := k.key
	k.make()
	k.use()
	rules := k.show()
	k.files(k.p.dir)
	k.b.kill()
	k.none("stdout", []byte(k.b.out.String()))
	k.none("stderr", []byte(k.b.err.String()))
	must.NoError(t, os.RemoveAll(filepath.Join(k.p.dir, "seb-data")))

	k.serve()
	if k.key == first {
		t.Error("the new data folder has the root key of the lost one")
	}
	check.Equalf(t, k.ask(first, "GET", "/topics", ""), http.StatusUnauthorized, "the root key of the lost data folder")
	if got := k.show(); got != rules {
		t.Errorf("rules after the loss:\n%s\nbefore:\n%s", got, rules)
	}
	k.use()
	k.run(k.p, true, "", "token", "revoke", "shop")
	for _, token := range []string{k.shop, k.second} {
		check.Equalf(t, k.ask(token, "POST", "/records?topic-name=orders.new", "v"), http.StatusUnauthorized, "a revoked token")
	}
	k.run(k.p, true, "", "fsck", "--bucket", "./bucket")
	k.files(k.p.dir)
	k.digests()
	must.NoError(t, k.b.cmd.Process.Signal(syscall.SIGQUIT))
	k.b.wait()
	k.none("stdout", []byte(k.b.out.String()))
	k.none("stderr", []byte(k.b.err.String()))
	t.Logf("looked at %d bytes", k.looked.Load())
}

// serve starts a broker and learns its root key.
func (k *keyring) serve() {
	k.t.Helper()
	k.b = k.p.serve("--bucket", "./bucket", "--kafka-listen", "127.0.0.1:0", "--log-level", "debug", "--audit-topic", "audit")
	key := must.Get(os.ReadFile(filepath.Join(k.p.dir, "seb-data", "api-key")))(k.t)
	k.key = strings.TrimSpace(string(key))
	k.hide(k.key)
}

// hide adds secrets. Of a token the random part is one.
func (k *keyring) hide(secrets ...string) {
	for _, s := range secrets {
		if parts := strings.Split(s, "_"); len(parts) == 4 {
			s = parts[2]
		}
		k.secrets = append(k.secrets, s)
	}
}

// token runs a command that prints a token, which is a secret from then on.
func (k *keyring) token(args ...string) string {
	k.t.Helper()
	token := k.p.token(args...)
	k.hide(token)
	return token
}

// make makes tokens, users and rules.
func (k *keyring) make() {
	k.t.Helper()
	k.p.must("topic", "create", "orders.new")
	k.shop = k.token("create", "shop", "--write", "orders.*", "--expires", "30d")
	k.report = k.token("create", "report", "--read", "orders.*")
	k.replaced = k.token("create", "short", "--read", "orders.*")
	k.token("rotate", "short", "--overlap", "0")
	k.gone = k.token("create", "gone", "--read", "orders.*")
	k.run(k.p, true, "", "token", "revoke", "gone")
	k.expired = k.token("create", "brief", "--read", "orders.*", "--expires", "1s")
	k.second = k.token("rotate", "shop")
	k.run(k.p, true, "", "acl", "deny", "*", "delete", "topic", "orders.new")

	client := k.kafka(plain.Auth{User: access.RootID, Pass: k.key}.AsMechanism())
	defer client.Close()
	var users []kadm.UpsertSCRAM
	for user, m := range map[string]access.Mechanism{"ann": access.SCRAMSHA256, "bob": access.SCRAMSHA512} {
		salt := []byte("salt of " + user)
		salted := auth.Salted(m, canaryPassword, salt, access.IterationsMin)
		k.hide(string(salted)) // it is as good as the password
		users = append(users, kadm.UpsertSCRAM{User: user, Mechanism: kadm.ScramMechanism(m), Iterations: access.IterationsMin, Salt: salt, SaltedPassword: salted})
	}
	k.hide(canaryPassword)
	if got, err := kadm.NewClient(client).AlterUserSCRAMs(k.t.Context(), nil, users); err != nil || got.Error() != nil {
		k.t.Fatal(err, got.Error())
	}
	waitFor(k.t, func() bool {
		return k.ask(k.expired, "GET", "/topics", "") == http.StatusUnauthorized
	})
}

// ask sends a request with a key, and searches the answer.
func (k *keyring) ask(key, method, path, body string) (status int) {
	k.t.Helper()
	req := must.Get(http.NewRequest(method, k.b.address()+path, strings.NewReader(body)))(k.t)
	req.Header = http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"text/plain"}, "Accept": {"*/*"}}
	resp, _ := k.answer(req)
	return resp.StatusCode
}

var kafkaLine = regexp.MustCompile(`kafka"?[=:]"?(127\.0\.0\.1:\d+)`)

// kafka returns a client that does not repeat requests.
func (k *keyring) kafka(m sasl.Mechanism) *kgo.Client {
	k.t.Helper()
	at := kafkaLine.FindStringSubmatch(k.b.err.String())
	if at == nil {
		k.t.Fatalf("no Kafka address in: %s", k.b.err.String())
	}
	client := must.Get(kgo.NewClient(kgo.SeedBrokers(at[1]), kgo.SASL(m), kgo.RequestRetries(0)))(k.t)
	return client
}

// use uses every secret over HTTP and Kafka.
func (k *keyring) use() {
	k.t.Helper()
	mistyped := k.report[:len(k.report)-1] + "!"
	for _, c := range []struct {
		name, key, method, path string
		want                    int
	}{
		{"the first token of a shop", k.shop, "POST", "/records?topic-name=orders.new", http.StatusCreated},
		{"its second token", k.second, "POST", "/records?topic-name=orders.new", http.StatusCreated},
		{"a token without the right", k.report, "POST", "/records?topic-name=orders.new", http.StatusForbidden},
		{"a report", k.report, "GET", "/records?topic-name=orders.new&offset=0&max-records=1", http.StatusOK},
		{"a mistyped token", mistyped, "GET", "/topics", http.StatusUnauthorized},
		{"a replaced token", k.replaced, "GET", "/topics", http.StatusUnauthorized},
		{"a revoked token", k.gone, "GET", "/topics", http.StatusUnauthorized},
		{"an expired token", k.expired, "GET", "/topics", http.StatusUnauthorized},
		{"the root key", k.key, "GET", "/topics", http.StatusOK},
	} {
		check.Equalf(k.t, k.ask(c.key, c.method, c.path, "v"), c.want, "%s", c.name)
	}
	for _, c := range []struct {
		name string
		sasl sasl.Mechanism
		good bool
	}{
		{"the first token of a shop, PLAIN", plain.Auth{User: "shop", Pass: k.shop}.AsMechanism(), true},
		{"its second token, SCRAM-SHA-256", scram.Auth{User: "shop", Pass: k.second}.AsSha256Mechanism(), true},
		{"ann, SCRAM-SHA-256", scram.Auth{User: "ann", Pass: canaryPassword}.AsSha256Mechanism(), true},
		{"ann, PLAIN", plain.Auth{User: "ann", Pass: canaryPassword}.AsMechanism(), true},
		{"bob, SCRAM-SHA-512", scram.Auth{User: "bob", Pass: canaryPassword}.AsSha512Mechanism(), true},
		{"a revoked token, PLAIN", plain.Auth{User: "gone", Pass: k.gone}.AsMechanism(), false},
		{"the password of a user who has none, SCRAM-SHA-256", scram.Auth{User: "bob", Pass: canaryPassword}.AsSha256Mechanism(), false},
	} {
		client := k.kafka(c.sasl)
		err := client.Ping(k.t.Context())
		client.Close()
		check.Equalf(k.t, err == nil, c.good, "%s: %v", c.name, err)
		if err != nil {
			k.none(c.name, []byte(err.Error()))
		}
	}
}

// show reads everything that shows tokens, and returns the list of rules.
func (k *keyring) show() (rules string) {
	k.t.Helper()
	for _, path := range []string{"/tokens", "/tokens/shop", "/tokens/ann", "/acls", "/metrics", "/status", "/topics"} {
		check.Equalf(k.t, k.ask(k.key, "GET", path, ""), http.StatusOK, "%s", path)
	}
	k.ask(k.shop, "GET", "/tokens", "")
	k.run(k.p, true, "", "token", "list")
	if got := k.run(k.p, true, "", "token", "show", "shop").out; strings.Count(got, "\ntoken ") != 2 {
		k.t.Errorf("the shop has not two tokens:\n%s", got)
	}
	k.run(k.p, false, "", "token", "show", k.gone)
	check.Containsf(k.t, k.run(k.p, true, "", "audit", "--since", "1h").out, "shop", "the audit does not name the shop")
	return k.run(k.p, true, "", "acl", "list").out
}

// digests expects the digest of a valid token in the bucket. It shows that the search for secrets
// reads the objects that could have them.
func (k *keyring) digests() {
	k.t.Helper()
	digest, found := sha256.Sum256([]byte(k.report)), false
	err := filepath.WalkDir(filepath.Join(k.p.dir, "bucket"), func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		found = found || bytes.Contains(b, digest[:])
		return err
	})
	if err != nil || !found {
		k.t.Errorf("the bucket has no digest of a token: %v", err)
	}
}
