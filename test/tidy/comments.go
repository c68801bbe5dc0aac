package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
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
// exported types, types, methods of interfaces, constants and variables (a comment on a group is
// enough).
func undocumented(file *ast.File, line func(token.Pos) int) []declared {
	var names []declared
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			recv := receiver(d)
			hidden := recv != "" && (!ast.IsExported(recv) || plain[d.Name.Name])
			if d.Name.IsExported() && !hidden && d.Doc == nil {
				names = append(names, declared{funcName(d), d.Pos()})
			}
		case *ast.GenDecl:
			names = append(names, undocumentedGroup(d, line)...)
		}
	}
	return names
}

// undocumentedGroup checks a declaration. A comment on constants or variables also covers the lines
// directly below.
func undocumentedGroup(d *ast.GenDecl, line func(token.Pos) int) []declared {
	var names []declared
	covered := -1 // last line that the comment above covers
	for _, spec := range d.Specs {
		v, isValue := spec.(*ast.ValueSpec)
		switch {
		case isValue && v.Doc != nil, isValue && line(v.Pos()) == covered+1:
			covered = line(v.End())
		default:
			names = append(names, undocumentedSpec(d, spec)...)
		}
	}
	return names
}

func undocumentedSpec(d *ast.GenDecl, spec ast.Spec) []declared {
	var names []declared
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if !s.Name.IsExported() {
			return nil
		}
		if s.Doc == nil && s.Comment == nil && (d.Doc == nil || d.Lparen.IsValid()) {
			names = append(names, declared{s.Name.Name, s.Pos()})
		}
		if i, ok := s.Type.(*ast.InterfaceType); ok {
			names = append(names, undocumentedMethods(s.Name.Name, i)...)
		}
	case *ast.ValueSpec:
		if s.Doc != nil || s.Comment != nil || d.Doc != nil {
			return nil
		}
		for _, n := range s.Names {
			if n.IsExported() {
				names = append(names, declared{n.Name, n.Pos()})
			}
		}
	}
	return names
}

func undocumentedMethods(owner string, i *ast.InterfaceType) []declared {
	var names []declared
	for _, m := range i.Methods.List {
		for _, n := range m.Names {
			if n.IsExported() && m.Doc == nil && m.Comment == nil && !plain[n.Name] {
				names = append(names, declared{owner + "." + n.Name, n.Pos()})
			}
		}
	}
	return names
}
