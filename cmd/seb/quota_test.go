package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/must"
)

// TestQuotas: quotas survive a killed broker and a lost data folder, act on the commands of their
// principal, and go with its token.
func TestQuotas(t *testing.T) {
	p := newWorkDir(t)
	bucket := filepath.Join(t.TempDir(), "bucket")
	b := p.serve("--bucket", bucket)
	p.must("topic", "create", "orders")
	shop := p.token("create", "shop", "--write", "orders")
	p.must("quota", "set", "shop", "--produce", "1KiB", "--requests", "7")
	p.must("quota", "set", "shop", "--produce", "1KiB")
	p.must("quota", "set", "*", "--fetch", "10MiB", "--requests", "500")
	b.kill()
	must.NoError(t, os.RemoveAll(filepath.Join(p.dir, "seb-data")))
	p.serve("--bucket", bucket)
	want := "PRINCIPAL  PRODUCE/S  FETCH/S  REQUESTS/S\n*          -          10MiB    500\nshop       1KiB       -        -\n"
	if got := p.must("quota", "list"); got != want {
		t.Errorf("quotas\n%swant\n%s", got, want)
	}
	for range 2 { // the second one waits for the quota
		p.mustWith(strings.Repeat("x", 3000), as(shop, "produce", "orders")...)
	}
	p.must("quota", "remove", "shop")
	for want, args := range map[string][]string{
		"unknown quota":             {"quota", "remove", "shop"},
		"want at least one limit":   {"quota", "set", "shop"},
		"the root key has no quota": {"quota", "set", "seb", "--requests", "1"},
		"want a size":               {"quota", "set", "shop", "--produce", "fast"},
	} {
		if got := p.run(args...); got.code == 0 || !strings.Contains(got.err, want) {
			t.Errorf("seb %q: exit code %d, %s; want %q", args, got.code, got.err, want)
		}
	}
	p.must("quota", "set", "shop", "--requests", "9")
	p.must("token", "revoke", "shop")
	if got := p.must("quota", "list"); strings.Contains(got, "shop") {
		t.Errorf("quotas after the revocation:\n%s", got)
	}
}
