package interop

import (
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

var (
	motoCalls = flag.Int("moto-calls", 0, "number of random calls to moto's server of SQS and to Seb")
	motoSeed  = flag.Int64("moto-seed", 1, "seed of the calls")
)

// knownDifferences are the patterns of known.txt, with what is seen of each.
type knownDifference struct {
	pattern   string
	matches   *regexp.Regexp
	sometimes bool // with some seeds
	seen      bool
}

func knownDifferences(t *testing.T) (list []*knownDifference) {
	sometimes := false
	for line := range strings.Lines(string(must.Get(os.ReadFile("testdata/moto/known.txt"))(t))) {
		line = strings.TrimSuffix(line, "\n")
		switch reason, comment := strings.CutPrefix(line, "# "); {
		case comment:
			sometimes = strings.HasPrefix(reason, "sometimes: ")
		case line != "":
			pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(line), `\*`, ".*") + "$"
			list = append(list, &knownDifference{line, regexp.MustCompile(pattern), sometimes, false})
		}
	}
	return list
}

// TestMoto makes the same random calls to moto's server and to Seb, and compares the answers. Their differences are
// those of known.txt.
func TestMoto(t *testing.T) {
	if *motoCalls == 0 {
		t.Skip("runs with go run ./test/cmd/sqs")
	}
	python := must.Get(needs("python3", "moto runs in"))(t)
	list := must.Get(filepath.Abs("testdata/moto/requirements.txt"))(t)
	packages := must.Get(testenv.Pip(t.Context(), python, "moto-5.2.5-1-"+runtime.GOARCH, "moto", "-r", list))(t)
	_, port := must.Get2(net.SplitHostPort(must.Get(testenv.FreeAddress())(t)))(t)
	env := []string{"PYTHONPATH=" + packages, "PYTHONDONTWRITEBYTECODE=1"}
	moto := must.Get(testenv.StartProgram(python, env, func(string) {}, "-m", "moto.server", "-p", port))(t)
	t.Cleanup(moto.Kill)
	sebtest.Eventually(t, "moto's server listens", func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	begin := time.Now()
	c := exec.CommandContext(t.Context(), python, "testdata/moto/calls.py")
	c.Env = append(append(append(os.Environ(), env...), serveSQS(t).env()...),
		"MOTO=http://127.0.0.1:"+port, fmt.Sprint("CALLS=", *motoCalls), fmt.Sprint("SEED=", *motoSeed))
	c.Stderr = os.Stderr
	out := must.Get(c.Output())(t)
	known, kinds := knownDifferences(t), 0
	for line := range strings.Lines(string(out)) {
		kind, rest, _ := strings.Cut(line, "\t")
		kinds++
		found := false
		for _, k := range known {
			if k.matches.MatchString(kind) {
				k.seen, found = true, true
			}
		}
		if !found {
			t.Errorf("%s\n\t%s", kind, rest)
		}
	}
	report(t, "moto 5.2.5", "random calls of SQS", time.Since(begin), fmt.Sprintf("%d calls, %d kinds of differences", *motoCalls, kinds))
	for _, k := range known {
		if !k.seen && !k.sometimes && *motoCalls == 2000 && *motoSeed == 1 {
			t.Errorf("known.txt has %q, which is no difference", k.pattern)
		}
	}
}
