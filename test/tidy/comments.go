package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
)

// plain are methods whose interface says all there is to say.
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
				Text: fmt.Sprintf("exported %s has no comment that says what it promises", name.name),
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
		Text: fmt.Sprintf("package %s has no comment that says what it is", first.ast.Name.Name),
	}}
}

// place is a name and where it is.
type place struct {
	name string
	pos  token.Pos
}

// undocumented is the exported names of a file without a comment: functions, methods of exported types, types, the
// methods of interfaces, constants and variables (a comment over a group is enough).
func undocumented(file *ast.File, line func(token.Pos) int) []place {
	var names []place
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			recv := receiver(d)
			hidden := recv != "" && (!ast.IsExported(recv) || plain[d.Name.Name])
			if d.Name.IsExported() && !hidden && d.Doc == nil {
				names = append(names, place{funcName(d), d.Pos()})
			}
		case *ast.GenDecl:
			names = append(names, undocumentedGroup(d, line)...)
		}
	}
	return names
}

// undocumentedGroup looks through a declaration. A comment over constants or variables goes for those on the lines
// right below as well.
func undocumentedGroup(d *ast.GenDecl, line func(token.Pos) int) []place {
	var names []place
	covered := -1 // line to which the comment above reaches
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

func undocumentedSpec(d *ast.GenDecl, spec ast.Spec) []place {
	var names []place
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if !s.Name.IsExported() {
			return nil
		}
		if s.Doc == nil && s.Comment == nil && (d.Doc == nil || d.Lparen.IsValid()) {
			names = append(names, place{s.Name.Name, s.Pos()})
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
				names = append(names, place{n.Name, n.Pos()})
			}
		}
	}
	return names
}

func undocumentedMethods(owner string, i *ast.InterfaceType) []place {
	var names []place
	for _, m := range i.Methods.List {
		for _, n := range m.Names {
			if n.IsExported() && m.Doc == nil && m.Comment == nil && !plain[n.Name] {
				names = append(names, place{owner + "." + n.Name, n.Pos()})
			}
		}
	}
	return names
}
