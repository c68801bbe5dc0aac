package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
)

// secretNames are the names of secrets in this repository. Compare them only as digests with
// subtle.ConstantTimeCompare: an ordinary comparison ends at the first different byte, and its
// duration reveals the position.
var secretNames = map[string]bool{
	"APIKey": true, "apiKey": true, "SecretKey": true, "SessionToken": true, "RemoteKey": true, "Reveal": true,
	"secret": true, "password": true, "Password": true, "Authorization": true,
}

// comparers are functions that compare like ==.
var comparers = map[string]bool{
	"bytes.Equal": true, "bytes.Compare": true, "bytes.EqualFold": true, "strings.Compare": true, "strings.EqualFold": true,
	"cmp.Compare": true, "reflect.DeepEqual": true, "slices.Equal": true,
}

// checkSecrets finds comparisons of secrets with anything except "" and nil. Tests are exempt.
func checkSecrets(t *Tree) []Finding {
	var found []Finding
	for _, g := range t.gofiles {
		if g.test || isSupport(g.dir) {
			continue
		}
		ast.Inspect(g.ast, func(n ast.Node) bool {
			name := ""
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if (n.Op == token.EQL || n.Op == token.NEQ) && !isNothing(n.X) && !isNothing(n.Y) {
					name = secretName(n.X) + secretName(n.Y)
				}
			case *ast.CallExpr:
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && comparers[fmt.Sprint(sel.X, ".", sel.Sel)] {
					for _, arg := range n.Args {
						name += secretName(arg)
					}
				}
			}
			if name != "" {
				found = append(found, Finding{
					Rule: "secrets", Path: g.path, Line: t.line(n.Pos()), Name: name,
					Text: name + " is a secret: compare digests with subtle.ConstantTimeCompare",
				})
			}
			return true
		})
	}
	return found
}

// isNothing reports whether an expression is "" or nil, which a secret may be compared with.
func isNothing(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Value == `""`
	case *ast.Ident:
		return e.Name == "nil"
	}
	return false
}

// secretName returns the name of the secret in an expression: a name, a field, the value of a
// method or header, or part of one.
func secretName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		if secretNames[e.Name] {
			return e.Name
		}
	case *ast.SelectorExpr:
		return secretName(e.Sel)
	case *ast.StarExpr:
		return secretName(e.X)
	case *ast.ParenExpr:
		return secretName(e.X)
	case *ast.SliceExpr:
		return secretName(e.X)
	case *ast.IndexExpr:
		return secretName(e.X)
	case *ast.BasicLit:
		if e.Value == `"Authorization"` {
			return "Authorization"
		}
	case *ast.CallExpr: // a method, a conversion, a header
		switch fun := e.Fun.(type) {
		case *ast.SelectorExpr:
			if name := secretName(fun.Sel); name != "" || fun.Sel.Name != "Get" {
				return name
			}
		case *ast.Ident:
			if fun.Name == "len" {
				return ""
			}
		}
		for _, arg := range e.Args {
			if name := secretName(arg); name != "" {
				return name
			}
		}
	}
	return ""
}
