package tidy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// levels assigns a level to every package. Imports point from a higher level to a lower one, never
// sideways. "" is the root package. A package that is neither here nor below support is a finding.
var levels = map[string]int{
	"cmd/seb": 8,

	"internal/operate/server":    7,
	"internal/operate/v1":        7,
	"internal/operate/benchmark": 7,
	"":                           7,
	"test/sim":                   7,
	"test/torture":               8,
	"test/pressure":              7,

	"internal/protocols/httpapi": 6,
	"internal/protocols/kafka":   6,
	"internal/protocols/riemann": 6,
	"client":                     6,

	"internal/triggers/delivery": 5,
	"internal/operate/node":      5,

	"internal/engine/group/coordinator": 5,

	"internal/engine/broker":  4,
	"internal/triggers/rules": 4,
	"internal/operate/fsck":   4,

	"internal/triggers/rules/explain": 3,
	"internal/engine/log":             3,
	"internal/engine/log/compact":     4,
	"internal/engine/cluster/link":    3,

	"internal/engine/views/keyindex":      2,
	"internal/engine/log/core":            2,
	"internal/engine/cluster":             2,
	"internal/engine/group":               2,
	"internal/protocols/httpapi/httpconn": 2,
	"internal/protocols/httpapi/forward":  3,
	"internal/protocols/framed":           2,
	"internal/protocols/kafka/wire":       0,
	"internal/triggers/delivery/webhook":  2,
	"internal/engine/views/snapshot":      2,
	"internal/protocols/riemann/query":    0,
	"internal/protocols/riemann/index":    3,
	"internal/triggers/rules/rule":        2,
	"internal/triggers/rules/store":       3,

	"internal/engine/log/state":           1,
	"internal/engine/objstore/cache":      1,
	"internal/engine/objstore/s3":         1,
	"internal/engine/objstore/anystore":   2,
	"internal/engine/views":               1,
	"internal/engine/stats":               1,
	"internal/engine/cost":                4,
	"internal/protocols/encoding":         1,
	"internal/triggers/delivery/template": 1,

	"driplang/monitor": 1,
	"driplang/story":   2,

	"api":                              -1,
	"internal/protocols/problem":       0,
	"record":                           0,
	"webhook":                          0,
	"internal/engine/objstore":         0,
	"internal/engine/objstore/journal": -1,
	"internal/operate/config":          0,
	"internal/engine/budget":           0,
	"internal/engine/access":           -1,
	"internal/engine/base/sorting":     -2,
	"internal/engine/audit":            1,
	"internal/triggers/secrets":        -1,
	"internal/protocols/auth":          5,
	"internal/operate/quiet":           0,
	"internal/protocols/console":       0,
	"internal/engine/base/machine":     0,
	"internal/operate/progress":        0,
	"internal/engine/base/sampled":     -1,

	"internal/engine/views/localdb": 0,
	"internal/protocols/tlsport":    0,

	"driplang": 0,

	"driplang/internal/form": -1,

	"internal/engine/base/codec":         -1,
	"internal/engine/base/decimal":       -1,
	"internal/engine/base/protobuf":      -1,
	"internal/engine/objstore/watermark": -2,
	"internal/engine/base/pause":         -2,
	"internal/engine/base/wake":          -2,
	"internal/engine/base/input":         -2,
	"internal/engine/base/failpoint":     -2, // not in the released program

	"packaging": 13, // a separate module

	// The latency bench, a separate module.
	"bench/cmd/seb-bench": 13,
	"bench/report":        11,
	"bench/campaign":      12,
	"bench/agent":         12,
	"bench/load":          11,
	"bench/result":        10,
	"bench/drivers":       9,
	"bench/workload":      9,
	"bench/peers":         8,
	"bench/machine":       1,
	"bench/sut":           0,
}

// support is code that only tests use, including everything below it. It may import any package,
// and production code must not import it. Packages of it with a level obey that level.
var support = []string{
	"test",
	"examples",
	"test/storetest",
	"test/tidy",
	"bench/cmd/bare",
	"bench/cmd/budget",
	"bench/cmd/kafkaperf",
	"bench/cmd/peers",
	"bench/cmd/peers-test",
	"bench/cmd/perf",
	"bench/cmd/riemann",
}

// onlyFrom restricts the importers of a package in addition to the levels.
var onlyFrom = map[string][]string{
	// The cache is a store that wraps a store; only node knows that it is used.
	"internal/engine/objstore/cache": {"internal/operate/node"},
	// A program that embeds a broker links no front end besides the HTTP API.
	"internal/protocols/httpapi":          {"internal/operate/server", "cmd/seb", ""},
	"internal/protocols/httpapi/httpconn": {"internal/protocols/httpapi", "internal/protocols/httpapi/forward"},
	"internal/protocols/httpapi/forward":  {"internal/protocols/httpapi"},
	"internal/protocols/problem":          {"internal/protocols/httpapi", "internal/protocols/encoding", "internal/protocols/httpapi/forward", "internal/protocols/httpapi/httpconn"},
	"internal/protocols/kafka":            {"internal/operate/server", "cmd/seb"},
	"internal/protocols/riemann":          {"internal/operate/server", "cmd/seb"},
	"internal/protocols/console":          {"internal/operate/server", ""},
	"internal/protocols/kafka/wire":       {"internal/protocols/kafka"},
}

// banned are imports that production code avoids: templates look up methods by name, which keeps
// the linker from removing unused ones. The bench may use them, because its binary is large anyway.
var banned = []string{"text/template", "html/template"}

func isSupport(dir string) bool {
	for _, s := range support {
		if dir == s || strings.HasPrefix(dir, s+"/") {
			return true
		}
	}
	return false
}

func checkImports(t *Tree) []Finding {
	var found []Finding
	for _, dir := range t.packages() {
		if _, ok := levels[dir]; !ok && !isSupport(dir) {
			found = append(found, Finding{
				Rule: "level", Path: t.in(dir)[0].path, Name: dir,
				Text: fmt.Sprintf("package %q has no level: add it to the table of test/tidy", dir),
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
	production := !g.test && !isSupport(g.dir)
	if production && slices.Contains(banned, imported) && !strings.HasPrefix(g.dir, "bench/") {
		return imported + " in production code keeps the linker from dropping unused methods"
	}
	to, ours := t.relative(imported)
	switch {
	case !ours || to == g.dir:
		return ""
	case isSupport(to):
		if production {
			return fmt.Sprintf("production code imports %s, which is for tests", to)
		}
		if _, placed := levels[to]; !placed || g.test {
			return ""
		}
	case production && onlyFrom[to] != nil && !slices.Contains(onlyFrom[to], g.dir):
		return fmt.Sprintf("%s is only for %s", to, strings.Join(onlyFrom[to], ", "))
	}
	return refuseLevel(g, to)
}

// refuseLevel compares levels. A test may also import sideways: a front end's test runs a real
// broker.
func refuseLevel(g *goFile, to string) string {
	fromLevel, known := levels[g.dir]
	toLevel, knownTo := levels[to]
	switch {
	case !known || !knownTo: // reported as a package without a level, or test support
		return ""
	case g.test && toLevel == fromLevel:
		return ""
	case toLevel == fromLevel:
		return fmt.Sprintf("import points sideways: %q and %q are both on level %d", g.dir, to, toLevel)
	case toLevel > fromLevel:
		return fmt.Sprintf("import points up: %q is on level %d, %q on level %d", g.dir, fromLevel, to, toLevel)
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
