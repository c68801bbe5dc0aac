package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
)

// pure are the packages without side effects. Given the same events they must return the same
// effects, so that the simulator can repeat a run from its seed.
var pure = []string{"internal/engine/log/core", "internal/engine/group"}

// impure are imports, including everything below them, that introduce a clock, randomness, the
// machine or goroutines.
var impure = []string{"time", "math/rand", "crypto/rand", "os", "net", "sync", "io/ioutil", "runtime"}

// unordered, next to a range over a map or on the line above, gives the reason why order is
// irrelevant: //tidy:unordered <reason>
const unordered = "//tidy:unordered "

func checkPure(t *Tree) []Finding {
	var found []Finding
	for _, dir := range pure {
		files := productionFiles(t, dir)
		if len(files) == 0 {
			found = append(found, Finding{
				Rule: "pure", Path: dir, Name: "package",
				Text: "the package does not exist: update the list of pure packages in test/tidy",
			})
			continue
		}
		for _, g := range files {
			found = append(found, t.impureImports(g)...)
			found = append(found, t.goroutines(g)...)
		}
		found = append(found, t.mapRanges(dir, files)...)
	}
	return append(found, t.planning()...)
}

// plans are the files that decide what to merge and to compact, without I/O: the simulator runs them.
const plans = "internal/engine/log/compact/plan"

func (t *Tree) planning() []Finding {
	var found []Finding
	for _, g := range t.gofiles {
		if g.test || !strings.HasPrefix(g.path, plans) {
			continue
		}
		for _, f := range t.impureImports(g) {
			if f.Name != "time" { // of a duration; the caller passes the time
				found = append(found, f)
			}
		}
	}
	return found
}

// productionFiles returns the files of a package without its tests, regardless of build
// constraints.
func productionFiles(t *Tree, dir string) []*goFile {
	var files []*goFile
	for _, g := range t.in(dir) {
		if !g.test {
			files = append(files, g)
		}
	}
	return files
}

// built reports whether a file is part of a plain build on this machine.
func built(g *goFile) bool {
	for _, group := range g.ast.Comments {
		for _, c := range group.List {
			if c.Pos() > g.ast.Package || !constraint.IsGoBuild(c.Text) {
				continue
			}
			expr, err := constraint.Parse(c.Text)
			if err == nil && !expr.Eval(func(tag string) bool { return tag == runtime.GOOS || tag == runtime.GOARCH || tag == "unix" }) {
				return false
			}
		}
	}
	return true
}

func (t *Tree) impureImports(g *goFile) []Finding {
	var found []Finding
	for _, spec := range g.ast.Imports {
		name, _ := strconv.Unquote(spec.Path.Value)
		for _, bad := range impure {
			if name == bad || strings.HasPrefix(name, bad+"/") {
				found = append(found, Finding{
					Rule: "pure", Path: g.path, Line: t.line(spec.Pos()), Name: name,
					Text: fmt.Sprintf("%s imports %s: a pure package gets its time, chance and answers as events", g.dir, name),
				})
			}
		}
	}
	return found
}

func (t *Tree) goroutines(g *goFile) []Finding {
	var found []Finding
	ast.Inspect(g.ast, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.GoStmt, *ast.SelectStmt:
			found = append(found, Finding{
				Rule: "pure", Path: g.path, Line: t.line(n.Pos()), Name: "goroutine",
				Text: "a pure package must not start a goroutine or wait for one",
			})
		}
		return true
	})
	return found
}

// mapRanges finds loops over maps, whose order differs between runs. It needs types, so it checks
// the package against the compiled form of its imports.
func (t *Tree) mapRanges(dir string, all []*goFile) []Finding {
	var files []*goFile
	for _, g := range all {
		if built(g) {
			files = append(files, g)
		}
	}
	trees := make([]*ast.File, 0, len(files))
	for _, g := range files {
		trees = append(trees, g.ast)
	}
	info := &types.Info{Types: make(map[ast.Expr]types.TypeAndValue), Uses: make(map[*ast.Ident]types.Object)}
	exports, err := t.exports(files)
	if err != nil {
		return []Finding{{Rule: "pure", Path: dir, Name: "types", Text: err.Error()}}
	}
	var found []Finding
	conf := types.Config{Importer: importer.ForCompiler(t.fset, "gc", exports), Error: func(err error) {
		found = append(found, Finding{Rule: "pure", Path: dir, Name: "types", Text: err.Error()})
	}}
	_, _ = conf.Check(t.Module+"/"+dir, t.fset, trees, info) // all errors went to conf.Error
	for _, g := range files {
		found = append(found, t.loops(g, info)...)
	}
	return found
}

// loops finds the loops over maps of one file, and the iterators of package maps that are not
// sorted.
func (t *Tree) loops(g *goFile, info *types.Info) []Finding {
	excused := make(map[int]bool) // lines with a reason, and the lines after them
	for _, group := range g.ast.Comments {
		for _, c := range group.List {
			if reason, ok := strings.CutPrefix(c.Text, unordered); ok && strings.TrimSpace(reason) != "" {
				excused[t.line(c.Pos())], excused[t.line(c.Pos())+1] = true, true
			}
		}
	}
	var found []Finding
	report := func(pos token.Pos, what string) {
		if line := t.line(pos); !excused[line] {
			found = append(found, Finding{
				Rule: "pure", Path: g.path, Line: line, Name: "map order",
				Text: what + " has no order: sort the keys, or write " + unordered + "and the reason on the line above",
			})
		}
	}
	sorted := make(map[ast.Expr]bool)
	ast.Inspect(g.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.RangeStmt:
			if isMap(info.TypeOf(n.X)) {
				report(n.Pos(), "a range over a map")
			}
		case *ast.CallExpr:
			name := callee(n, info)
			for _, arg := range n.Args {
				sorted[arg] = strings.HasPrefix(name, "slices.Sorted")
			}
			if strings.HasPrefix(name, "maps.") && iterators[name] && !sorted[n] {
				report(n.Pos(), name)
			}
		}
		return true
	})
	return found
}

var iterators = map[string]bool{"maps.Keys": true, "maps.Values": true, "maps.All": true}

// isMap also recognizes type parameters whose types are all maps.
func isMap(typ types.Type) bool {
	if typ == nil {
		return false
	}
	switch u := typ.Underlying().(type) {
	case *types.Map:
		return true
	case *types.Interface: // of a type parameter
		if u.NumEmbeddeds() != 1 {
			return false
		}
		if union, ok := u.EmbeddedType(0).(*types.Union); ok {
			return union.Len() > 0 && isMap(union.Term(0).Type())
		}
		return isMap(u.EmbeddedType(0))
	}
	return false
}

// callee returns package.Function of a call of a package's function, "" for other calls.
func callee(call *ast.CallExpr, info *types.Info) string {
	fun := call.Fun
	if index, ok := fun.(*ast.IndexExpr); ok {
		fun = index.X
	}
	sel, ok := fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	id, ok := sel.X.(*ast.Ident)
	if !ok {
		return ""
	}
	pkg, ok := info.Uses[id].(*types.PkgName)
	if !ok {
		return ""
	}
	return pkg.Imported().Path() + "." + sel.Sel.Name
}

// exports returns the compiled form of the imports of files, direct and indirect, from the build
// cache.
func (t *Tree) exports(files []*goFile) (importer.Lookup, error) {
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}"}
	imports := 0
	for _, g := range files {
		for _, spec := range g.ast.Imports {
			if name, _ := strconv.Unquote(spec.Path.Value); name != "unsafe" {
				args = append(args, name)
				imports++
			}
		}
	}
	places := make(map[string]string)
	if imports > 0 {
		cmd := exec.Command("go", args...)
		cmd.Dir = t.Dir
		var errout bytes.Buffer
		cmd.Stderr = &errout
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("list the imports: %w: %s", err, errout.String())
		}
		for line := range strings.Lines(string(out)) {
			name, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
			places[name] = file
		}
	}
	return func(name string) (io.ReadCloser, error) {
		if places[name] == "" {
			return nil, fmt.Errorf("no compiled form of %s", name)
		}
		return os.Open(places[name])
	}, nil
}
