package examples

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestStatements compares docs/reference/statements.md with the marked blocks: the sentence before a
// block is the statement that it shows. -update writes the list.
func TestStatements(t *testing.T) {
	var list strings.Builder
	for _, path := range documents(t) {
		blocks := blocksOf(string(must.Get(os.ReadFile(path))(t)))
		if len(blocks) == 0 {
			continue
		}
		fmt.Fprintf(&list, "## %s\n\n| statement | shown by | checked |\n|---|---|---|\n", nameOf(path))
		before := ""
		for _, b := range blocks {
			if b.statement == "" {
				b.statement = before // the same in another language, or the next step
			}
			text, ends := strings.CutSuffix(b.statement, ":")
			if !ends {
				t.Errorf("%s: want a sentence that ends in a colon before the block, got %q\n%s", nameOf(path), b.statement, b.text)
			}
			before, b.statement = b.statement, text
			for _, s := range b.statements(nameOf(path)) {
				fmt.Fprintf(&list, "| %s | `` %s `` | %s |\n", cell(s.text), cell(s.command), s.checked)
			}
		}
		list.WriteString("\n")
	}
	sebtest.Generated(t, "../docs/reference/statements.md", "statements", list.String())
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// statement is a row of the list.
type statement struct{ text, command, checked string }

var (
	link     = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	sentence = regexp.MustCompile("[.?!][*_]* +[A-Z`*]")
	fenced   = regexp.MustCompile("(?ms)^```.*?^```$")
	comment  = regexp.MustCompile(`^(\S.*?) {2,}# (.+)$`)
)

// statements returns the statement of a block, and those of its lines with a comment.
func (b *block) statements(document string) []statement {
	checked := "exit code"
	switch {
	case b.output != "":
		checked = "output"
	case len(prints[document+" "+b.language]) > 0:
		checked = "exit code, words of the output"
	}
	switch {
	case strings.HasPrefix(b.mark, "run=compose"), strings.HasPrefix(b.mark, "run=deb"):
		checked += ", `test/cmd/release`"
	case b.mark == "run=kcat":
		checked += ", if kcat is installed"
	}
	first, _, _ := strings.Cut(b.text, "\n")
	list := []statement{{b.statement, first, checked}}
	for i, line := range strings.Split(b.text, "\n") {
		m := comment.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if i == 0 {
			list[0].command = m[1]
		}
		list = append(list, statement{m[2], m[1], checked})
	}
	return list
}

// statementBefore returns the last sentence of a text before a block, without marks and links. It is ""
// directly after another block.
func statementBefore(text string) string {
	paragraphs := strings.Split(strings.TrimSpace(fenced.ReplaceAllString(text, "```")), "\n\n")
	last := paragraphs[len(paragraphs)-1]
	if strings.HasSuffix(last, "```") {
		return ""
	}
	if i := strings.LastIndex(last, "\n- "); i >= 0 {
		last = last[i+1:]
	}
	last = strings.TrimPrefix(strings.Join(strings.Fields(last), " "), "- ")
	if at := sentence.FindAllStringIndex(last, -1); at != nil {
		last = last[at[len(at)-1][1]-1:]
	}
	return strings.TrimSpace(strings.ReplaceAll(link.ReplaceAllString(last, "$1"), "**", ""))
}
