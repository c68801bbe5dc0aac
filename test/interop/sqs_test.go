package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/must"
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
	b := startSQS(t, secretsKey(t))
	pair := sqsPair(t, sqsAdmin(t, b, nil))
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
