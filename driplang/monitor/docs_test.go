package monitor

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/driplangtest"
	"github.com/sebbroker/seb/test/must"
)

// docRow is an example in docs/reference/driplang.md: expression, events with their times in seconds or as a duration, value.
var docRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([A-Z]@.*) \\| (true|false|pending)\\b")

func TestExamplesOfDocs(t *testing.T) {
	text := must.Get(os.ReadFile("../../docs/reference/driplang.md"))(t)
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
		p := must.Get(Compile(e, Options{Pending: true}))(t)
		f := follower{m: New(p)}
		for event := range strings.FieldsSeq(row[2]) {
			name, at, _ := strings.Cut(event, "@")
			if !strings.HasSuffix(at, "m") {
				at += "s"
			}
			f.advance(millis(driplangtest.Instant(t, at)) - 1)
			f.step(testEvent{name: name, at: millis(driplangtest.Instant(t, at))})
		}
		check.Equalf(t, f.m.Value().String(), row[3], "%s after %s", row[0], row[2])
	}
}

// TestExpressionsOfGuide: each expression in the first table of docs/guide/driplang.md compiles.
func TestExpressionsOfGuide(t *testing.T) {
	text := must.Get(os.ReadFile("../../docs/guide/driplang.md"))(t)
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
