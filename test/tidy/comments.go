package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
)

// plain are methods whose interface documents them completely.
var plain = map[string]bool{"Error": true, "String": true, "Is": true, "As": true, "Unwrap": true}

func checkComments(t *Tree) []Finding {
	var found []Finding
	for _, dir := range t.packages() {
		found = append(found, t.packageComment(dir)...)
	}
	for _, g := range t.gofiles {
		if g.test || g.generated() || g.ast.Name.Name == "main" {
			continue
		}
		for _, name := range undocumented(g.ast, t.line) {
			found = append(found, Finding{
				Rule: "comment", Path: g.path, Line: t.line(name.pos), Name: name.name,
				Text: fmt.Sprintf("exported %s has no comment with its contract", name.name),
			})
		}
	}
	return found
}

func (t *Tree) packageComment(dir string) []Finding {
	var first *goFile
	for _, g := range t.in(dir) {
		if g.test {
			continue
		}
		if g.ast.Doc != nil {
			return nil
		}
		if first == nil {
			first = g
		}
	}
	if first == nil {
		return nil
	}
	return []Finding{{
		Rule: "comment", Path: first.path, Name: "package",
		Text: fmt.Sprintf("package %s has no package comment", first.ast.Name.Name),
	}}
}

// declared is a name and its position.
type declared struct {
	name string
	pos  token.Pos
}

// undocumented returns the exported names of a file without a comment: functions, methods of
// exported types, types, methods of interfaces, constants and variables. A comment on a group of
// constants or variables is enough. A comment on one of them also covers the lines directly below.
func undocumented(file *ast.File, line func(token.Pos) int) (names []declared) {
	add := func(owner string, ids []*ast.Ident, comments ...*ast.CommentGroup) {
		for _, c := range comments {
			if c != nil {
				return
			}
		}
		for _, id := range ids {
			if id.IsExported() && (owner == "" || ast.IsExported(owner) && !plain[id.Name]) {
				names = append(names, declared{strings.TrimPrefix(owner+"."+id.Name, "."), id.Pos()})
			}
		}
	}
	for _, decl := range file.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok {
			add(receiver(fn), []*ast.Ident{fn.Name}, fn.Doc)
			continue
		}
		d := decl.(*ast.GenDecl)
		covered := -1 // last line that the comment above covers
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				if s.Doc != nil || line(s.Pos()) == covered+1 {
					covered = line(s.End())
				} else {
					add("", s.Names, s.Comment, d.Doc)
				}
			case *ast.TypeSpec:
				group := d.Doc
				if d.Lparen.IsValid() {
					group = nil
				}
				add("", []*ast.Ident{s.Name}, s.Doc, s.Comment, group)
				if i, ok := s.Type.(*ast.InterfaceType); ok {
					for _, m := range i.Methods.List {
						add(s.Name.Name, m.Names, m.Doc, m.Comment)
					}
				}
			}
		}
	}
	return names
}
