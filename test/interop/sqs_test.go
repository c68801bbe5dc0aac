package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// TestBoto3 runs boto3 against the SQS API. Unlike other tests here it also runs in make test, if there are
// Python and PyPI.
func TestBoto3(t *testing.T) {
	for protocol, list := range boto3Packages {
		t.Run(protocol, func(t *testing.T) { runBoto3(t, list) })
	}
}

func runBoto3(t *testing.T, list []string) {
	if testing.Short() {
		t.Skip("-short: it installs boto3")
	}
	python, packages, err := boto3(t.Context(), list)
	if err != nil && os.Getenv("SEB_INTEROP") == "" {
		t.Skipf("boto3 cannot be installed: %v", err)
	}
	must.NoError(t, err)
	key := filepath.Join(t.TempDir(), "secrets-key")
	must.Get(testenv.Command(t.Context(), ".", testenv.Program(t), "secrets", "init", key))(t)
	b := testenv.ServeInterop(t, "--secrets-key-file", key)
	c := must.Get(client.New(b.HTTP(), client.Options{APIKey: testenv.InteropKey}))(t)
	all := []string{"*"}
	must.Get(c.CreateToken(t.Context(), client.TokenSpec{ID: "boto3", Scopes: client.Scopes{Read: all, Write: all, Admin: all, Groups: all}}))(t)
	pair := must.Get(c.SigningPair(t.Context(), "boto3"))(t)
	run := exec.CommandContext(t.Context(), python, must.Get(filepath.Abs("testdata/python/sqs.py"))(t))
	run.Env = append(os.Environ(), "PYTHONPATH="+packages, "PYTHONDONTWRITEBYTECODE=1", "ENDPOINT="+b.HTTP(), "ACCESS_KEY="+pair.AccessKeyID, "SECRET="+pair.SecretAccessKey)
	out, err := run.CombinedOutput()
	must.NoErrorf(t, err, "%s", out)
	if n := strings.Count(string(out), `"check"`); n != 5 {
		t.Errorf("%d checks, want 5:\n%s", n, out)
	}
	if strings.Contains(b.Log(), pair.SecretAccessKey) {
		t.Error("the secret is in the log")
	}
}
