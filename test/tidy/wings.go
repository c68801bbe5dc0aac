package tidy

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// wing is a part of the tree: its name and its folders, with everything below them. "" is the root
// package alone.
type wing struct {
	name    string
	folders []string
}

// wings are the four parts of the tree. A package imports packages of its own wing and of the wings
// before it; a test may import any, because it runs a real broker.
var wings = []wing{
	{"engine", []string{"internal/engine", "record"}},
	{"triggers", []string{"internal/triggers", "driplang", "webhook"}},
	{"protocols", []string{"internal/protocols", "api", "client"}},
	{"operate", []string{"internal/operate", "cmd/seb", ""}},
}

// base has the packages of the engine that know nothing of Seb: the only ones below internal that a
// public package imports, because its users link what it imports.
const base = "internal/engine/base"

// support is code that is not in the program, including everything below it: tests, examples and other
// modules. It may import any package, and production code must not import it.
var support = []string{"test", "examples", "bench", "migrate", "packaging", "tools"}

// onlyFrom restricts the importers of a package further.
var onlyFrom = map[string][]string{
	// The cache is a store that wraps a store; only node knows that it is used.
	"internal/engine/objstore/cache": {"internal/operate/node"},
	// A program that embeds a broker links no front end besides the HTTP API.
	"internal/protocols/httpapi":          {"internal/operate/server", "cmd/seb", ""},
	"internal/protocols/problem":          {"internal/protocols/httpapi", "internal/protocols/httpapi/forward", "internal/protocols/httpapi/httpconn", "internal/protocols/encoding"},
	"internal/protocols/httpapi/httpconn": {"internal/protocols/httpapi", "internal/protocols/httpapi/forward"},
	"internal/protocols/httpapi/forward":  {"internal/protocols/httpapi"},
	"internal/protocols/kafka":            {"internal/operate/server", "cmd/seb"},
	"internal/protocols/kafka/wire":       {"internal/protocols/kafka"},
	"internal/protocols/riemann":          {"internal/operate/server", "cmd/seb"},
	"internal/protocols/console":          {"internal/operate/server", ""},
}

// banned are imports that production code avoids: templates look up methods by name, which keeps
// the linker from removing unused ones.
var banned = []string{"text/template", "html/template"}

// wingOf returns the position of a folder's wing, or -1.
func wingOf(dir string) int {
	return slices.IndexFunc(wings, func(w wing) bool {
		return slices.ContainsFunc(w.folders, func(f string) bool { return within(dir, f) })
	})
}

// isPublic reports whether a folder has a public package other than the root, which opens a broker.
func isPublic(dir string) bool {
	at := wingOf(dir)
	return at >= 0 && dir != "" && !within(dir, "internal") && !within(dir, "cmd")
}

// within reports whether a folder is another or below it. Nothing else is in the root package.
func within(dir, of string) bool { return dir == of || of != "" && strings.HasPrefix(dir, of+"/") }

func isSupport(dir string) bool {
	return slices.ContainsFunc(support, func(s string) bool { return within(dir, s) })
}

func checkImports(t *Tree) []Finding {
	var found []Finding
	for _, dir := range t.packages() {
		if wingOf(dir) < 0 && !isSupport(dir) {
			found = append(found, Finding{
				Rule: "wing", Path: t.in(dir)[0].path, Name: dir,
				Text: fmt.Sprintf("package %q is in no wing: see test/tidy/wings.go", dir),
			})
		}
	}
	for _, g := range t.gofiles {
		for _, spec := range g.ast.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				continue
			}
			if why := t.refuse(g, imported); why != "" {
				found = append(found, Finding{
					Rule: "import", Path: g.path, Line: t.line(spec.Pos()), Name: imported, Text: why,
				})
			}
		}
	}
	return found
}

// refuse returns why file g must not import a package, or "".
func (t *Tree) refuse(g *goFile, imported string) string {
	to, ours := t.relative(imported)
	switch {
	case isSupport(g.dir):
		return ""
	case !g.test && slices.Contains(banned, imported):
		return imported + " in production code keeps the linker from dropping unused methods"
	case !ours || to == g.dir:
		return ""
	case isSupport(to) && !g.test:
		return fmt.Sprintf("production code imports %s, which is for tests", to)
	case !g.test && onlyFrom[to] != nil && !slices.Contains(onlyFrom[to], g.dir):
		return fmt.Sprintf("%s is only for %s", to, strings.Join(onlyFrom[to], ", "))
	}
	if !g.test && isPublic(g.dir) && within(to, "internal") && !within(to, base) {
		return fmt.Sprintf("a public package imports nothing below internal but %s", base)
	}
	if from, target := wingOf(g.dir), wingOf(to); !g.test && from >= 0 && target > from {
		return fmt.Sprintf("the %s wing must not import the %s wing, which comes after it", wings[from].name, wings[target].name)
	}
	return ""
}

// relative returns an import path without the module's, and whether it belongs to the module.
func (t *Tree) relative(imported string) (dir string, ours bool) {
	if imported == t.Module {
		return "", true
	}
	dir, ours = strings.CutPrefix(imported, t.Module+"/")
	return dir, ours
}

// wingRow is a row of the table of wings: the name and the lines.
var wingRow = regexp.MustCompile(`(?m)^\| \*\*(\w+)\*\* \| ([\d,]+) \|`)

// wingSlack is how many lines the table of wings may be off, so that two changes which are true alone
// are true together.
const wingSlack = 150

// checkWings compares the table of wings in ARCHITECTURE.md with the lines of production code, so that a
// review sees which part grows.
func checkWings(t *Tree) []Finding {
	const document = "ARCHITECTURE.md"
	sizes := make([]int, len(wings))
	for _, g := range t.gofiles {
		if at := wingOf(g.dir); at >= 0 && !g.test {
			sizes[at] += bytes.Count(t.files[g.path], []byte("\n"))
		}
	}
	said := map[string]int{}
	for _, m := range wingRow.FindAllStringSubmatch(string(t.files[document]), -1) {
		said[m[1]], _ = strconv.Atoi(strings.ReplaceAll(m[2], ",", ""))
	}
	var found []Finding
	report := func(name, format string, args ...any) {
		found = append(found, Finding{Rule: "wings", Path: document, Name: name, Text: fmt.Sprintf(format, args...)})
	}
	for i, w := range wings {
		if n := said[w.name]; n%100 != 0 || max(n-sizes[i], sizes[i]-n) > wingSlack {
			report(w.name, "the %s wing has %d lines of production code, the table of wings says %d", w.name, (sizes[i]+50)/100*100, n)
		}
	}
	if len(said) != len(wings) {
		report("wings", "the table of wings has %d rows, want %d", len(said), len(wings))
	}
	return found
}
