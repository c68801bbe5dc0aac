package kafka_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/test/must"
)

// TestDocumentedKeys: the table of docs/reference/kafka.md has every API key with its versions, in
// order, and a description.
func TestDocumentedKeys(t *testing.T) {
	doc := must.Get(os.ReadFile("../../../docs/reference/kafka.md"))(t)
	var rows []string
	for line := range strings.Lines(string(doc)) {
		if cells := strings.Split(line, "|"); len(cells) == 6 && strings.Trim(cells[1], " 0123456789") == "" && strings.TrimSpace(cells[1]) != "" {
			rows = append(rows, line)
		}
	}
	keys := start(t).keys
	for i, key := range slices.Sorted(maps.Keys(keys)) {
		want := fmt.Sprintf("| %d | %s | %d–%d | ", key, kmsg.NameForKey(key), keys[key].MinVersion, keys[key].MaxVersion)
		if i >= len(rows) || !strings.HasPrefix(rows[i], want) || len(rows[i]) < len(want)+10 {
			t.Errorf("docs/reference/kafka.md needs a row %q", want)
		}
	}
	if len(rows) > len(keys) {
		t.Errorf("docs/reference/kafka.md has %d rows, %d keys are served", len(rows), len(keys))
	}
}
