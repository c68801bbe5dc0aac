package mutants

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// PlantedVariable is the environment variable that names the mutant of a process that several were
// built into.
const PlantedVariable = "SEB_MUTANT"

// Together is the overlay of a build with several mutants. A build takes longer than most runs, so
// mutants that change only bodies of functions are built together: in the overlay, a function begins
// with its body in each mutant, which runs in the processes of that mutant.
//
//	func (c *Core) frees() bool {
//		if planted == "no-dedup" {
//			// the body in the mutant
//		}
//		// the body in the production code
//	}
type Together struct {
	root    string
	texts   map[string]string         // production code, by file
	planted map[string]map[int]string // what is inserted, by file and offset
	members map[string]bool           // names of mutants
}

// NewTogether returns the overlay of the mutants of all that can be built together.
func NewTogether(root string, all []*Mutant) (*Together, error) {
	t := &Together{root: root, texts: map[string]string{}, planted: map[string]map[int]string{}, members: map[string]bool{}}
	for _, m := range all {
		if err := t.add(m); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Has reports whether the build has a mutant. The others are built alone.
func (t *Together) Has(m *Mutant) bool { return t.members[m.Name] }

func (t *Together) add(m *Mutant) error {
	files, err := m.Apply(t.root)
	if err != nil {
		return err
	}
	changed := map[string]map[int]string{}
	for name, text := range files {
		before, err := os.ReadFile(filepath.Join(t.root, name))
		if err != nil {
			return err
		}
		t.texts[name] = string(before)
		bodies, err := changedBodies(string(before), text)
		if err != nil {
			return fmt.Errorf("%s.patch: %s: %w", m.Name, name, err)
		}
		if bodies == nil {
			return nil
		}
		changed[name] = bodies
	}
	t.members[m.Name] = true
	for name, bodies := range changed {
		if t.planted[name] == nil {
			t.planted[name] = map[int]string{}
		}
		for at, body := range bodies {
			t.planted[name][at] += fmt.Sprintf("\nif planted == %q {%s\n}\n", m.Name, body)
		}
	}
	return nil
}

// changedBodies returns the bodies of the functions that differ, by the offset of the body in before.
// They are nil if anything else differs.
func changedBodies(before, after string) (map[int]string, error) {
	old, err := parser.ParseFile(token.NewFileSet(), "", before, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	changed, err := parser.ParseFile(token.NewFileSet(), "", after, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if len(old.Decls) != len(changed.Decls) {
		return nil, nil
	}
	// A position of a file that is alone in its set is its offset, from 1.
	cut := func(text string, from, to token.Pos) string { return text[from-1 : to-1] }
	bodies := map[int]string{}
	for i, d := range old.Decls {
		e := changed.Decls[i]
		if cut(before, d.Pos(), d.End()) == cut(after, e.Pos(), e.End()) {
			continue
		}
		f, isFunc := d.(*ast.FuncDecl)
		g, isStill := e.(*ast.FuncDecl)
		if !isFunc || !isStill || cut(before, f.Pos(), f.Body.Pos()) != cut(after, g.Pos(), g.Body.Pos()) || labeled(g) {
			return nil, nil
		}
		end := "\nreturn"
		if f.Type.Results != nil {
			end = "\npanic(\"a mutant without a return\")"
		}
		bodies[int(f.Body.Lbrace)] = cut(after, g.Body.Lbrace+1, g.Body.Rbrace) + end
	}
	return bodies, nil
}

// labeled reports whether a function has labels, which are unique in a function.
func labeled(f *ast.FuncDecl) (found bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		_, is := n.(*ast.LabeledStmt)
		found = found || is
		return true
	})
	return found
}

// Overlay writes the files for `go build -overlay` into dir. It returns the path of the overlay.
func (t *Together) Overlay(dir string) (string, error) {
	files := map[string]string{}
	for name, planted := range t.planted {
		text := t.texts[name]
		for _, at := range slices.Backward(slices.Sorted(maps.Keys(planted))) {
			text = text[:at] + planted[at] + text[at:]
		}
		files[name] = text
		_, rest, _ := strings.Cut("\n"+text, "\npackage ")
		in, _, _ := strings.Cut(rest, "\n")
		files[path.Join(path.Dir(name), "planted.go")] = fmt.Sprintf("package %s\n\nimport \"os\"\n\nvar planted = os.Getenv(%q)\n", in, PlantedVariable)
	}
	return writeOverlay(t.root, dir, "together", files)
}
