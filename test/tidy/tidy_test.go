package tidy

import (
	"os"
	"path/filepath"
	"slices"
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

// TestBuildFlagsAreOneSet: with trimmed paths the go command compiles all 450 packages again that go run
// and go test have in the cache. Releases have it, and builds of other versions in folders of their own.
func TestBuildFlagsAreOneSet(t *testing.T) {
	flag, released := "-trim"+"path", []string{"packaging/", "test/cmd/release/", "test/cmd/upgrade/"}
	for name, text := range loadRepository(t).files {
		if filepath.Ext(name) != ".go" && filepath.Base(name) != "Makefile" || !strings.Contains(string(text), flag) {
			continue
		}
		if !slices.ContainsFunc(released, func(dir string) bool { return strings.HasPrefix(name, dir) }) {
			t.Errorf("%s builds with %s", name, flag)
		}
	}
}
