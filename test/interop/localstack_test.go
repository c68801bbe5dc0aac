package interop

import (
	"context"
	"encoding/xml"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

const (
	// localStackCommit is the last commit of LocalStack's repository, which is archived.
	localStackCommit = "8b9a79f05846835cf4dff63ab7eefdde9df83783"
	// localStackCases is the number of cases that LocalStack has validated against AWS, and
	// localStackExcluded the number of those that excluded.txt leaves out.
	localStackCases, localStackExcluded = 351, 12
)

var (
	localStack       = flag.String("localstack", "", "git repository of LocalStack, for its tests of SQS")
	localStackJudges = flag.String("localstack-judges", "", "URL of another server that LocalStack's tests judge, instead of Seb")
	localStackOnly   = flag.String("localstack-only", "", "run only the cases of LocalStack with this expression of pytest -k")
)

// localStackTests installs LocalStack's tests and what they need. The tests are in the folder tests, and in
// models is the SQS API in the Query protocol for botocore.
func localStackTests(ctx context.Context) (python, packages, dir string, err error) {
	if python, err = needs("python3", "LocalStack's tests run in"); err != nil {
		return "", "", "", err
	}
	list, err := filepath.Abs("testdata/localstack/requirements.txt")
	if err != nil {
		return "", "", "", err
	}
	packages, err = testenv.Pip(ctx, python, "localstack-1-"+runtime.GOARCH, "what LocalStack's tests need", "-r", list)
	if err != nil {
		return "", "", "", err
	}
	dir, err = testenv.Install("interop/localstack-"+localStackCommit[:9], "LocalStack's tests from "+*localStack, func(dir string) error {
		for _, args := range [][]string{
			{"init", "-q", "."},
			{"remote", "add", "origin", *localStack},
			{"fetch", "-q", "--depth=1", "--filter=blob:none", "origin", localStackCommit},
			{"checkout", "-q", "FETCH_HEAD", "--", "tests/aws/services/sqs", "localstack-core/localstack/aws/data/sqs-query"},
		} {
			if _, err := testenv.Command(ctx, dir, "git", args...); err != nil {
				return err
			}
		}
		return nil
	})
	return python, packages, dir, err
}

// verdict is how a case of LocalStack ended.
type verdict struct {
	name, difference string // "": it passed
}

// TestLocalStack runs LocalStack's tests of SQS with the answers of AWS that it has recorded. The cases of
// missed.txt fail, and no others.
func TestLocalStack(t *testing.T) {
	if *localStack == "" {
		t.Skip("runs with go run ./test/cmd/sqs: it needs LocalStack's repository")
	}
	python, packages, source, err := localStackTests(t.Context())
	must.NoError(t, err)
	dir := t.TempDir()
	must.NoError(t, os.CopyFS(filepath.Join(dir, "tests"), os.DirFS(filepath.Join(source, "tests"))))
	data := must.Get(filepath.Abs("testdata/localstack"))(t)
	env := append(os.Environ(), "PYTHONPATH="+packages+":"+data, "PYTHONDONTWRITEBYTECODE=1", "DATA="+filepath.Join(source, "localstack-core/localstack/aws/data"),
		"EXCLUDED="+filepath.Join(data, "excluded.txt"))
	if *localStackJudges != "" {
		env = append(env, "ENDPOINT="+*localStackJudges, "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b", "ACCOUNT=123456789012")
	} else {
		env = append(env, serveSQS(t).env()...)
	}
	begin := time.Now()
	c := exec.CommandContext(t.Context(), python, "-m", "pytest", "-p", "localstack_snapshot.pytest.snapshot", "-p", "judge", "-p", "no:cacheprovider",
		"--rootdir", dir, "--junitxml=results.xml", "-q", "--tb=short", "-n", "12", "--maxprocesses=12", "--maxschedchunk=1", "--timeout=600", "-k", *localStackOnly,
		"tests/aws/services/sqs/test_sqs.py", "tests/aws/services/sqs/test_sqs_move_task.py")
	c.Dir, c.Env = dir, env
	out, _ := c.CombinedOutput() // it fails with any of its tests
	verdicts, err := localStackVerdicts(filepath.Join(dir, "results.xml"))
	must.NoErrorf(t, err, "%s", out)
	passed := 0
	for _, v := range verdicts {
		if v.difference == "" {
			passed++
		}
	}
	report(t, "LocalStack", "its tests of SQS", time.Since(begin), fmt.Sprintf("%d cases, %d passed", len(verdicts), passed))
	if *localStackJudges != "" {
		for _, v := range verdicts {
			if v.difference != "" {
				t.Logf("%s\n%s", v.name, v.difference)
			}
		}
		return
	}
	judgeSeb(t, verdicts)
}

// localStackVerdicts reads the report of pytest, in the order of the names.
func localStackVerdicts(name string) ([]verdict, error) {
	var results struct {
		Cases []struct {
			Name    string `xml:"name,attr"`
			Failure string `xml:"failure"`
			Error   string `xml:"error"`
			Skipped *struct {
				Message string `xml:"message,attr"`
			} `xml:"skipped"`
		} `xml:"testsuite>testcase"`
	}
	text, err := os.ReadFile(name)
	if err == nil {
		err = xml.Unmarshal(text, &results)
	}
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, c := range results.Cases {
		difference := c.Failure + c.Error
		if c.Skipped != nil {
			difference += "skipped: " + c.Skipped.Message
		}
		all[c.Name] += terminalCodes.ReplaceAllString(difference, "")
	}
	var list []verdict
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, verdict{name, all[name]})
	}
	return list, nil
}

// terminalCodes are colours, as they are and as XML has them.
var terminalCodes = regexp.MustCompile(`(\x1b|#x1B)\[\d+m`)

// judgeSeb compares the misses with missed.txt, which names cases, or tests for all their cases.
func judgeSeb(t *testing.T, verdicts []verdict) {
	missed, used := map[string]string{}, map[string]bool{}
	for line := range strings.Lines(string(must.Get(os.ReadFile("testdata/localstack/missed.txt"))(t))) {
		if name, reason, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && !strings.HasPrefix(line, "#") {
			missed[name] = reason
		}
	}
	for _, v := range verdicts {
		name := v.name
		if missed[name] == "" {
			name, _, _ = strings.Cut(name, "[")
		}
		reason := missed[name]
		used[name] = true
		switch {
		case strings.HasPrefix(reason, "sometimes: "):
		case v.difference == "" && reason != "":
			t.Errorf("%s passes, but missed.txt has it", v.name)
		case v.difference != "" && reason == "":
			t.Errorf("%s fails:\n%s", v.name, v.difference)
		}
	}
	if *localStackOnly != "" {
		return
	}
	for name := range missed {
		if !used[name] {
			t.Errorf("missed.txt has %s, which is no case", name)
		}
	}
	if n := len(verdicts); n != localStackCases-localStackExcluded {
		t.Errorf("%d cases, want %d", n, localStackCases-localStackExcluded)
	}
}
