package tidy

import (
	"fmt"
	"go/ast"
)

// Above these sizes code is hard to understand as a whole. The aim is about half of each.
const (
	funcMax    = 70   // lines of a function, including signature and closing brace
	fileLines  = 500  // lines of a file
	testLines  = 1000 // lines of a test file
	sizeAdvice = "split it by what it does"
)

func checkSizes(t *Tree) []Finding {
	var found []Finding
	for _, g := range t.gofiles {
		if g.generated() {
			continue
		}
		limit := fileLines
		if g.test {
			limit = testLines
		}
		if g.size > limit {
			found = append(found, tooLong("file-size", g.path, "", [2]int{g.size, limit}))
		}
		found = append(found, t.longFuncs(g)...)
	}
	return found
}

func (t *Tree) longFuncs(g *goFile) []Finding {
	var found []Finding
	for _, decl := range g.ast.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		start := t.line(fn.Pos())
		if lines := t.line(fn.End()) - start + 1; lines > funcMax {
			f := tooLong("func-size", g.path, funcName(fn), [2]int{lines, funcMax})
			f.Line = start
			found = append(found, f)
		}
	}
	return found
}

// tooLong returns a finding about a size. measured is the size and its limit.
func tooLong(rule, path, name string, measured [2]int) Finding {
	what := name
	if what == "" {
		what = path
	}
	return Finding{
		Rule: rule, Path: path, Name: name,
		Text: fmt.Sprintf("%s has %d lines, the limit is %d: %s", what, measured[0], measured[1], sizeAdvice),
	}
}

// funcName returns Func, or Type.Method for a method.
func funcName(fn *ast.FuncDecl) string {
	if recv := receiver(fn); recv != "" {
		return recv + "." + fn.Name.Name
	}
	return fn.Name.Name
}

// receiver returns the name of a method's type, "" for a function.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return ""
	}
	expr := fn.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}
