package tidy

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the root of the repository, relative to this package.
const root = "../.."

func loadRepository(t *testing.T) *Tree {
	t.Helper()
	gomod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(gomod), "\n")
	tree, err := Load(root, strings.TrimSpace(strings.TrimPrefix(first, "module ")))
	if err != nil {
		t.Fatal(err)
	}
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
	for _, f := range Except(found, exceptions) {
		t.Error(f)
	}
	logSizes(t, tree)
}

// logSizes prints the packages of the main module by length.
func logSizes(t *testing.T, tree *Tree) {
	sizes := tree.PackageSizes()
	maps.DeleteFunc(sizes, func(dir string, lines int) bool { return lines == 0 || strings.HasPrefix(dir, "bench/") })
	dirs := slices.SortedFunc(maps.Keys(sizes), func(a, b string) int { return cmp.Compare(sizes[b], sizes[a]) })
	internal, total := 0, 0
	for _, dir := range dirs {
		total += sizes[dir]
		if strings.HasPrefix(dir, "internal/") {
			internal++
		}
	}
	t.Logf("%d packages, %d of them below internal/, %d lines", len(dirs), internal, total)
	for _, dir := range dirs {
		t.Logf("%6d %s", sizes[dir], cmp.Or(dir, "."))
	}
}

func TestContinuousIntegrationRunsTheTestCommand(t *testing.T) {
	tree := loadRepository(t)
	script := string(tree.files[".ci/run"])
	if !strings.HasSuffix(strings.TrimSpace(script), "\nexec make test") {
		t.Errorf(".ci/run does not end in make test:\n%s", script)
	}
	info, err := os.Stat(filepath.Join(root, ".ci/run"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode()&0o111 != 0o111 {
		t.Errorf(".ci/run has mode %v: not executable", info.Mode())
	}
}
