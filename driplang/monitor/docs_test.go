package monitor

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/test/driplangtest"
	"github.com/sebbroker/seb/test/must"
)

// docRow is an example in docs/reference/driplang.md: expression, events with their times in seconds or as a duration, value.
var docRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([A-Z]@.*) \\| (true|false|pending)\\b")

func TestExamplesOfDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/driplang.md")
	must.NoError(t, err)
	rows := docRow.FindAllStringSubmatch(string(text), -1)
	if len(rows) < 14 {
		t.Fatalf("only %d examples found", len(rows))
	}
	for _, row := range rows {
		e, err := driplang.Parse(row[1])
		if err != nil {
			t.Errorf("%s: %v", row[1], err)
			continue
		}
		p, err := Compile(e, Options{Pending: true})
		must.NoError(t, err)
		f := follower{m: New(p)}
		for event := range strings.FieldsSeq(row[2]) {
			name, at, _ := strings.Cut(event, "@")
			if !strings.HasSuffix(at, "m") {
				at += "s"
			}
			f.advance(millis(driplangtest.Instant(t, at)) - 1)
			f.step(testEvent{name: name, at: millis(driplangtest.Instant(t, at))})
		}
		if got := f.m.Value().String(); got != row[3] {
			t.Errorf("%s after %s is %s", row[0], row[2], got)
		}
	}
}

// TestExpressionsOfGuide: each expression in the first table of docs/guide/driplang.md compiles.
func TestExpressionsOfGuide(t *testing.T) {
	text, err := os.ReadFile("../../docs/guide/driplang.md")
	must.NoError(t, err)
	rows := regexp.MustCompile("(?m)^\\| [^|`]+ \\| `([^`]+)` \\|$").FindAllStringSubmatch(string(text), -1)
	if len(rows) < 12 {
		t.Fatalf("only %d expressions found", len(rows))
	}
	for _, row := range rows {
		e, err := driplang.Parse(row[1])
		if err == nil {
			_, err = Compile(e, Options{})
		}
		if err != nil {
			t.Errorf("%s: %v", row[1], err)
		}
	}
}
