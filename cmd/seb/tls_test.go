package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// TestCommandsOverTLS: commands trust the local broker by its certificate file, whatever its names,
// and other brokers by the system's authorities or those of a file.
func TestCommandsOverTLS(t *testing.T) {
	p := newWorkDir(t)
	authority := testenv.NewAuthority(t)
	files := authority.Files(t, p.dir, testenv.Leaf{})
	own := authority.File(t, p.dir)
	b := p.serve("--tls-cert", "cert.pem", "--tls-key", "key.pem", "--kafka-listen", "127.0.0.1:0")
	address := b.address()
	if !strings.HasPrefix(address, "https://") {
		t.Fatal(address)
	}
	p.mustWith("one\n", "produce", "demo")
	p.mustWith("two\n", "produce", "demo", "--address", address, "--ca-file", own)
	check.Equal(t, p.must("consume", "demo", "--address", address), "one\ntwo\n")

	key := must.Get(os.ReadFile(filepath.Join(p.dir, "seb-data", "api-key")))(t)
	far := newWorkDir(t)
	far.env = []string{"SEB_API_KEY=" + strings.TrimSpace(string(key)), "SEB_ADDRESS=" + address}
	far.refused(1, "unknown authority", "topic", "list")
	far.refused(1, "unknown authority", "topic", "list", "--ca-file", testenv.NewAuthority(t).File(t, far.dir))
	far.refused(2, "--ca-file: open missing", "topic", "list", "--ca-file", "missing")
	far.refused(2, ": no certificate", "topic", "list", "--ca-file", files.Key)
	far.refused(1, "This port speaks TLS", "topic", "list", "--address", strings.Replace(address, "https", "http", 1))
	far.env = append(far.env, "SEB_CA_FILE="+own)
	check.Equal(t, far.must("consume", "demo"), "one\ntwo\n")

	// Another broker at the local broker's address is not trusted.
	other := newWorkDir(t)
	theirs := testenv.NewAuthority(t).Files(t, other.dir, testenv.Leaf{})
	must.NoError(t, os.Rename(theirs.Cert, files.Cert))
	p.refused(1, "not the certificate of the local broker", "topic", "list")
	authority.MustBeSecret(t, b.out.String()+b.err.String(), files)
}

// TestCommandsWithACertificate: commands need no key, get the rights of their principal, and do not use
// the key of the local broker.
func TestCommandsWithACertificate(t *testing.T) {
	p := newWorkDir(t)
	authority := testenv.NewAuthority(t)
	authority.Files(t, p.dir, testenv.Leaf{})
	own := authority.File(t, p.dir)
	crl := filepath.Join(p.dir, "crl.pem")
	authority.Revocations(t, crl, time.Hour)
	shop := authority.Client(t, testenv.Client{Name: "Shop"})
	files := testenv.WriteClient(t, p.dir, shop)
	b := p.serve("--tls-cert", "cert.pem", "--tls-key", "key.pem", "--kafka-listen", "", "--tls-client-ca", "authority.pem", "--tls-client-crl", "crl.pem",
		"--tls-principal-mapping", `RULE:^CN=([^,+]+).*$/$1/L`)
	p.mustWith("one\n", "produce", "demo") // with the key of the local broker
	certificate := []string{"--client-cert", files.Cert, "--client-key", files.Key}
	with := func(args ...string) []string { return append(args, certificate...) }
	p.refused(1, "forbidden", with("consume", "demo")...)
	p.must("acl", "allow", "shop", "read", "topic", "demo")
	check.Equal(t, p.must(with("consume", "demo")...), "one\n")
	p.refused(1, "forbidden", with("produce", "demo")...)

	far := newWorkDir(t)
	far.env = []string{"SEB_ADDRESS=" + b.address(), "SEB_CA_FILE=" + own}
	far.refused(1, "unauthorized", "consume", "demo")
	far.refused(2, "--client-cert and --client-key: want both or none", "consume", "demo", "--client-cert", files.Cert)
	far.refused(2, "--client-cert "+files.Cert, "consume", "demo", "--client-cert", files.Cert, "--client-key", filepath.Join(p.dir, "key.pem"))
	far.refused(2, "want a broker at https://", with("consume", "demo", "--address", "http://127.0.0.1:1")...)
	far.env = append(far.env, "SEB_CLIENT_CERT="+files.Cert, "SEB_CLIENT_KEY="+files.Key)
	check.Equal(t, far.must("consume", "demo"), "one\n")
	authority.Revocations(t, crl, time.Hour, shop)
	waitFor(t, func() bool { return strings.Contains(b.err.String(), "revoked=1") })
	far.refused(1, "remote error: tls: bad certificate", "consume", "demo")
	authority.MustBeSecret(t, b.out.String()+b.err.String(), files)
}

func TestServeNamesFilesOfTLS(t *testing.T) {
	p := newWorkDir(t)
	p.refused(2, "--tls-key: required with --tls-cert", "serve", "--tls-cert", "c")
	p.refused(2, "--tls-client-ca: requires --tls-cert", "serve", "--tls-client-ca", "a")
	p.refused(2, "--tls-client-auth: require requires --tls-client-ca", "serve", "--tls-client-auth", "require")
	p.refused(2, `--tls-listeners: "webhooks"`, "serve", "--tls-cert", "c", "--tls-key", "k", "--tls-listeners", "http,webhooks")
	r := p.run("serve", "--tls-cert", "c", "--tls-key", "k")
	if r.code != 2 || !strings.Contains(r.err, "--tls-cert: open c: no such file") {
		t.Errorf("%d %s", r.code, r.err)
	}
}
