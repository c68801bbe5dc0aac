package interop

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// examples are the programs of docs/guide/kafka.md in order, and their output. TestStreamsExactlyOnce
// runs the one of Kafka Streams.
var examples = []struct{ folder, class, prints string }{
	{"examples", "Produce", "stored at plants-0@1"},
	{"examples", "Consume", "rose is red at 0\nlily is white at 1"},
	{"streams", "WordCount", ""},
}

// TestExamplesInDocs: the programs of docs/guide/kafka.md are the files that TestExamples runs.
func TestExamplesInDocs(t *testing.T) {
	doc := must.Get(os.ReadFile("../../docs/guide/kafka.md"))(t)
	blocks := strings.Split(string(doc), "\n```java\n")[1:]
	for i := range blocks {
		blocks[i], _, _ = strings.Cut(blocks[i], "```\n")
	}
	var want []string
	for _, e := range examples {
		text := must.Get(os.ReadFile(filepath.Join("testdata/java", e.folder, e.class+".java")))(t)
		want = append(want, string(text))
	}
	if !slices.Equal(blocks, want) {
		t.Errorf("docs/guide/kafka.md has the programs\n%s\nwant those in testdata/java\n%s", strings.Join(blocks, "\n"), strings.Join(want, "\n"))
	}
}

// TestExamples runs the programs of docs/guide/kafka.md.
func TestExamples(t *testing.T) {
	testenv.InteropWanted(t)
	b := testenv.ServeInterop(t)
	t.Setenv("BROKER", b.Address)
	t.Setenv("KEY", testenv.InteropKey)
	for _, e := range examples {
		if e.folder != "examples" {
			continue
		}
		begin := time.Now()
		p := start(t, classes(t), nil, e.class)
		p.wait(time.Minute)
		if !strings.Contains(p.Log(), e.prints) {
			t.Errorf("%s does not print %q:\n%s", e.class, e.prints, p.Log())
		}
		testenv.Report("docs/guide/kafka.md", e.class+".java", time.Since(begin))
	}
}
