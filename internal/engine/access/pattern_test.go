package access_test

import (
	"errors"
	"testing"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/test/check"
)

func TestPatterns(t *testing.T) {
	for text, want := range map[string]access.Rule{
		"orders":   {Name: "orders"},
		"orders.*": {Name: "orders.", Prefix: true},
		"*":        {Name: access.Any},
		`a\*`:      {Name: "a*"},
		`a\\*`:     {Name: `a\`, Prefix: true},
		`\**`:      {Name: "*", Prefix: true}, // refused as a rule
		"":         {},
	} {
		name, prefix, err := access.ParsePattern(text)
		if err != nil || name != want.Name || prefix != want.Prefix {
			t.Errorf("%q: name %q, prefix %v, %v", text, name, prefix, err)
		}
		check.Equalf(t, want.Pattern(), text, "%+v: pattern", want)
	}
	for _, text := range []string{"**", "a*b", "*a", `a\`, `a\b`} {
		if name, prefix, err := access.ParsePattern(text); !errors.Is(err, access.ErrPattern) {
			t.Errorf("%q: name %q, prefix %v, %v", text, name, prefix, err)
		}
	}
}
