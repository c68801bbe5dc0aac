package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/sebbroker/seb/test/must"
)

// declared reads the Code constants from the source, so that a code without a table entry is found.
func declared(t *testing.T) []Code {
	t.Helper()
	file := must.Get(parser.ParseFile(token.NewFileSet(), "codes.go", nil, 0))(t)
	var codes []Code
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); !ok || name.Name != "Code" {
			return true
		}
		text := must.Get(strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value))(t)
		codes = append(codes, Code(text))
		return true
	})
	return codes
}

func TestEveryCodeHasAStatusAndATitle(t *testing.T) {
	codes := declared(t)
	if len(codes) < 20 {
		t.Fatalf("found only %d codes in the source", len(codes))
	}
	seen := map[Code]bool{}
	for _, c := range codes {
		if seen[c] {
			t.Errorf("%s is declared twice", c)
		}
		seen[c] = true
		if s := Statuses[c]; s < 400 || s > 599 {
			t.Errorf("%s: status %d", c, s)
		}
		if Titles[c] == "" {
			t.Errorf("%s: no title", c)
		}
	}
	if len(Statuses) != len(codes) || len(Titles) != len(codes) {
		t.Errorf("%d codes, %d statuses, %d titles", len(codes), len(Statuses), len(Titles))
	}
}
