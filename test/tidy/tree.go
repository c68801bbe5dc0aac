package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
)

// Tree is the text of a repository, parsed once.
type Tree struct {
	Module string // module path of the root go.mod
	Dir    string // folder on disk, for the go command; "" for a tree in memory

	files   map[string][]byte // text files by slash-separated path
	folders map[string]bool   // folders that contain a file
	fset    *token.FileSet
	gofiles []*goFile // ordered by path
	errs    []Finding // files that do not parse
}

// goFile is one parsed Go file.
type goFile struct {
	path string // relative, slash-separated
	dir  string // its folder; "" for the root
	test bool   // name ends in _test.go
	ast  *ast.File
	size int // lines
}

// generated reports whether a tool wrote the file: rules on sizes and comments do not apply to it.
func (g *goFile) generated() bool { return ast.IsGenerated(g.ast) }

// skipped are folders without sources: build results, caches, measurements and the data of a
// broker.
var skipped = map[string]bool{"bin": true, "dist": true, "seb-data": true, "seb-bucket": true, "node_modules": true, "raw": true}

// fileMax bounds the checked files; larger ones are data.
const fileMax = 1 << 20

// Load reads the tree below dir. It skips folders whose names begin with a dot, except .ci and
// .github, and the file .git of a worktree.
func Load(dir, module string) (*Tree, error) {
	files := make(map[string][]byte)
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			hidden := strings.HasPrefix(name, ".") && rel != "." && rel != ".ci" && rel != ".github"
			if hidden || skipped[name] {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil || rel == ".git" || !info.Mode().IsRegular() || info.Size() > fileMax {
			return err
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(rel)] = text
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the tree: %w", err)
	}
	t := New(module, files)
	t.Dir = dir
	return t, nil
}

// New returns a tree of files given by slash-separated path. It skips binary files.
func New(module string, files map[string][]byte) *Tree {
	t := &Tree{Module: module, files: make(map[string][]byte), folders: make(map[string]bool), fset: token.NewFileSet()}
	for name, text := range files {
		for d := path.Dir(name); d != "."; d = path.Dir(d) {
			t.folders[d] = true
		}
		if bytes.IndexByte(text, 0) < 0 {
			t.files[name] = text
		}
	}
	for _, name := range t.names() {
		if strings.HasSuffix(name, ".go") && !strings.Contains("/"+name, "/testdata/") {
			t.parse(name)
		}
	}
	return t
}

// names returns every file in order.
func (t *Tree) names() []string {
	names := make([]string, 0, len(t.files))
	for name := range t.files {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

func (t *Tree) parse(name string) {
	text := t.files[name]
	file, err := parser.ParseFile(t.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.errs = append(t.errs, Finding{Rule: "parse", Path: name, Text: err.Error()})
		return
	}
	dir := path.Dir(name)
	if dir == "." {
		dir = ""
	}
	t.gofiles = append(t.gofiles, &goFile{
		path: name, dir: dir, test: strings.HasSuffix(name, "_test.go"), ast: file, size: bytes.Count(text, []byte("\n")),
	})
}

func (t *Tree) line(pos token.Pos) int { return t.fset.Position(pos).Line }

// packages returns the folders that contain Go files, in order.
func (t *Tree) packages() []string {
	var dirs []string
	seen := make(map[string]bool)
	for _, g := range t.gofiles {
		if !seen[g.dir] {
			seen[g.dir] = true
			dirs = append(dirs, g.dir)
		}
	}
	sort.Strings(dirs)
	return dirs
}

// in returns the Go files of one folder.
func (t *Tree) in(dir string) []*goFile {
	var files []*goFile
	for _, g := range t.gofiles {
		if g.dir == dir {
			files = append(files, g)
		}
	}
	return files
}

func checkParse(t *Tree) []Finding { return t.errs }
