package client_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sebbroker/seb/client"
)

func TestParseExpression(t *testing.T) {
	c, ctx := triggerBroker(t), t.Context()
	e, err := c.ParseExpression(ctx, ` {"then":[{"event":"a"},{"not":{"event":"c"}}]}`, "a then (not\tb)")
	if err != nil || e.Text != "a then (not\tc)" || e.Sentence == "" || len(e.Spans) != 4 || len(e.Names) != 2 ||
		len(e.Warnings) != 1 || e.Warnings[0].Kind != "fires-at-once" || e.Warnings[0].Pointer != "/then/1" {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err = c.ParseExpression(ctx, "a then b", ""); err != nil || e.Text != "a then b" || string(e.Expr) != `{"then":[{"event":"a"},{"event":"b"}]}` {
		t.Errorf("%+v, %v", e, err)
	}
	for _, given := range [][2]string{{"a then", ""}, {`{"event":"a"}`, "a then"}} {
		_, err := c.ParseExpression(ctx, given[0], given[1])
		fault, _ := errors.AsType[*client.Error](err)
		if fault == nil || fault.Line != 1 || fault.Column != 7 || strings.HasPrefix(fault.Detail, "source: ") != (given[1] != "") {
			t.Errorf("%q: %v", given, err)
		}
	}
	if _, err = c.ParseExpression(ctx, `{"event"`, ""); err == nil {
		t.Error("an unfinished document was parsed")
	}
}
