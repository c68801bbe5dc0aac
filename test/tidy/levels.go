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

	"internal/server":    7,
	"internal/v1":        7,
	"internal/benchmark": 7,
	"":                   7,
	"test/sim":           7,
	"test/torture":       8,
	"test/pressure":      7,

	"internal/httpapi": 6,
	"internal/kafka":   6,
	"internal/riemann": 6,
	"client":           6,

	"internal/delivery": 5,
	"internal/node":     5,

	"internal/group/coordinator": 5,

	"internal/broker":  4,
	"internal/trigger": 4,
	"internal/fsck":    4,

	"internal/trigger/explain": 3,
	"internal/log":             3,
	"internal/log/compact":     4,
	"internal/cluster/link":    3,

	"internal/keyindex":         2,
	"internal/log/core":         2,
	"internal/cluster":          2,
	"internal/group":            2,
	"internal/httpapi/httpconn": 2,
	"internal/httpapi/forward":  3,
	"internal/framed":           2,
	"internal/kafka/wire":       0,
	"internal/delivery/webhook": 2,
	"internal/views/snapshot":   2,
	"internal/riemann/query":    0,
	"internal/riemann/index":    3,
	"internal/trigger/rule":     2,
	"internal/trigger/store":    3,

	"internal/log/state":         1,
	"internal/objstore/cache":    1,
	"internal/objstore/s3":       1,
	"internal/objstore/anystore": 2,
	"internal/views":             1,
	"internal/stats":             1,
	"internal/cost":              4,
	"internal/httpapi/encoding":  1,
	"internal/delivery/template": 1,

	"driplang/monitor": 1,
	"driplang/story":   2,

	"api":                       -1,
	"internal/httpapi/problem":  0,
	"record":                    0,
	"webhook":                   0,
	"internal/objstore":         0,
	"internal/objstore/journal": -1,
	"internal/config":           0,
	"internal/budget":           0,
	"internal/access":           -1,
	"internal/sorting":          -2,
	"internal/audit":            1,
	"internal/secrets":          -1,
	"internal/auth":             5,
	"internal/quiet":            0,
	"internal/console":          0,
	"internal/machine":          0,
	"internal/progress":         0,
	"internal/sampled":          -1,

	"internal/views/localdb": 0,
	"internal/tlsport":       0,

	"driplang": 0,

	"driplang/internal/form": -1,

	"internal/codec":              -1,
	"internal/decimal":            -1,
	"internal/protobuf":           -1,
	"internal/objstore/watermark": -2,
	"internal/pause":              -2,
	"internal/wake":               -2,
	"internal/input":              -2,
	"internal/failpoint":          -2, // not in the released program

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
	"internal/objstore/cache": {"internal/node"},
	// A program that embeds a broker links no front end besides the HTTP API.
	"internal/httpapi":          {"internal/server", "cmd/seb", ""},
	"internal/httpapi/httpconn": {"internal/httpapi", "internal/httpapi/forward"},
	"internal/httpapi/forward":  {"internal/httpapi"},
	"internal/httpapi/problem":  {"internal/httpapi", "internal/httpapi/encoding", "internal/httpapi/forward", "internal/httpapi/httpconn"},
	"internal/kafka":            {"internal/server", "cmd/seb"},
	"internal/riemann":          {"internal/server", "cmd/seb"},
	"internal/console":          {"internal/server", ""},
	"internal/kafka/wire":       {"internal/kafka"},
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
