package mutants_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/mutants"
	"github.com/sebbroker/seb/test/testenv"
)

// TestDocumentsNameMutants: the table in docs/reports/verification.md has exactly the existing
// mutants, and docs/reports/bugs-of-others.md names only existing ones.
func TestDocumentsNameMutants(t *testing.T) {
	root := must.Get(testenv.Root())(t)
	all := must.Get(mutants.All())(t)
	var names []string
	for _, m := range all {
		names = append(names, m.Name)
	}
	for doc, pattern := range map[string]string{
		"verification.md":   `(?m)^\| ([a-z0-9-]+) \| [ADIQRW][0-9]+ \| `,
		"bugs-of-others.md": `"([a-z0-9]+-[a-z0-9-]+)"`,
	} {
		text := must.Get(os.ReadFile(filepath.Join(root, "docs", "reports", doc)))(t)
		var named []string
		for _, match := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
			named = append(named, string(match[1]))
			if name := string(match[1]); !slices.Contains(names, name) {
				t.Errorf("%s names mutant %s, which does not exist", doc, name)
			}
		}
		if len(named) == 0 {
			t.Errorf("%s names no mutant", doc)
		}
		if doc != "verification.md" {
			continue
		}
		for _, name := range names {
			if !slices.Contains(named, name) {
				t.Errorf("%s does not name %s", doc, name)
			}
		}
	}
}
