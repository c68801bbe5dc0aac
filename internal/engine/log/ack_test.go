package log_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestOneFunctionMakesAcknowledgements checks that only ack sets outcomeAcked, that only commit
// leads to ack, and that only the handling of EffCommit calls commit. Code that makes
// acknowledgements elsewhere fails this test.
func TestOneFunctionMakesAcknowledgements(t *testing.T) {
	users := map[string][]string{} // identifier -> functions that use it
	files := must.Get(os.ReadDir("."))(t)
	fset := token.NewFileSet()
	commitCase := ""
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file := must.Get(parser.ParseFile(fset, f.Name(), nil, parser.SkipObjectResolution))(t)
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := fn.Name.Name
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Ident:
					use(users, n.Name, name)
				case *ast.CaseClause:
					if len(n.List) == 1 && calls(n, "commit") {
						commitCase = text(n.List[0])
					}
				}
				return true
			})
		}
	}
	want := map[string][]string{
		"outcomeAcked": {"Err", "ack"}, // Err reads it
		"ack":          {"settleAppend", "settleOp"},
		"commit":       {"perform"},
	}
	for name, in := range want {
		check.EqualSlicesf(t, users[name], in, "%s is used in", name)
	}
	check.Equalf(t, commitCase, "core.EffCommit", "commit is called for")
}

func use(users map[string][]string, name, in string) {
	if !slices.Contains(users[name], in) {
		users[name] = append(users[name], in)
		slices.Sort(users[name])
	}
}

func calls(n ast.Node, name string) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == name {
			found = true
		}
		return true
	})
	return found
}

func text(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		return s.X.(*ast.Ident).Name + "." + s.Sel.Name
	}
	return ""
}
