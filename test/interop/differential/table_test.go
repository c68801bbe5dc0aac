package differential

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestDocumentedDifferences: docs/reference/kafka.md lists the table of wanted differences with the
// same words.
func TestDocumentedDifferences(t *testing.T) {
	doc := must.Get(os.ReadFile("../../../docs/reference/kafka.md"))(t)
	_, section, found := strings.Cut(string(doc), "\n## Differences to Kafka\n")
	if !found {
		t.Fatal("docs/reference/kafka.md has no section on differences")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var rows []string
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "| ") {
			rows = append(rows, strings.TrimSpace(line))
		}
	}
	var want []string
	for _, w := range allWanted() {
		want = append(want, "| "+w.what+" | "+w.why+" |")
	}
	for _, row := range want {
		if !slices.Contains(rows, row) {
			t.Errorf("docs/reference/kafka.md needs the row\n%s", row)
		}
	}
	const head = 1
	check.Equalf(t, len(rows), len(want)+head, "docs/reference/kafka.md has %d rows, the table %d", len(rows)-head, len(want))
}
