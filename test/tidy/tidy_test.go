package tidy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// root is the root of the repository, relative to this package.
const root = "../.."

func loadRepository(t *testing.T) *Tree {
	t.Helper()
	gomod := must.Get(os.ReadFile(filepath.Join(root, "go.mod")))(t)
	first, _, _ := strings.Cut(string(gomod), "\n")
	tree := must.Get(Load(root, strings.TrimSpace(strings.TrimPrefix(first, "module "))))(t)
	return tree
}

func TestRepository(t *testing.T) {
	tree := loadRepository(t)
	if len(tree.gofiles) == 0 {
		t.Fatal("no Go files found")
	}
	var found []Finding
	for _, rule := range Rules() {
		found = append(found, rule.Check(tree)...)
	}
	for _, f := range found {
		t.Error(f)
	}
}

func TestContinuousIntegrationRunsTheTestCommand(t *testing.T) {
	script := string(must.Get(os.ReadFile(filepath.Join(root, ".ci/run")))(t))
	if !strings.HasSuffix(strings.TrimSpace(script), "\nexec make test") {
		t.Errorf(".ci/run does not end in make test:\n%s", script)
	}
	info := must.Get(os.Stat(filepath.Join(root, ".ci/run")))(t)
	check.Equalf(t, info.Mode()&0o111, 0o111, ".ci/run has mode %v: not executable", info.Mode())
}
