package server

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/connlimit"
	"github.com/sebbroker/seb/internal/triggers/delivery"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/tidy"
)

// limitsPage renders docs/guide/limits.md from testdata/limits.tmpl and the constants of the code.
type limitsPage struct {
	t    *testing.T
	tree *tidy.Tree
}

// TestLimits compares the page of all limits with the code: the numbers, and that each error code
// exists and has its status.
func TestLimits(t *testing.T) {
	p := &limitsPage{t: t, tree: must.Get(tidy.Load("../../..", "github.com/sebbroker/seb"))(t)}
	funcs := template.FuncMap{"count": p.count, "bytes": p.bytes, "time": p.time, "memory": p.memory}
	page := must.Get(template.New("limits.tmpl").Funcs(funcs).ParseFiles("testdata/limits.tmpl"))(t)
	var out strings.Builder
	must.NoError(t, page.Execute(&out, nil))
	known := map[string]bool{}
	for code := range int16(200) {
		if err := kerr.TypedErrorForCode(code); err != nil {
			known[err.Message] = true
		}
	}
	for _, m := range regexp.MustCompile("(?:([0-9]{3}) )?`([a-z]+_[a-z_]+)`").FindAllStringSubmatch(out.String(), -1) {
		if status, known := api.Statuses[api.Code(m[2])]; known && m[1] != "" && m[1] != strconv.Itoa(status) {
			t.Errorf("%s has status %d", m[0], status)
		} else if !known && m[1] != "" {
			t.Errorf("%s is no error code", m[0])
		}
	}
	for _, name := range regexp.MustCompile(`\b[A-Z]+_[A-Z_]+\b`).FindAllString(out.String(), -1) {
		if !known[name] {
			t.Errorf("%s is no error of Kafka", name)
		}
	}
	sebtest.Generated(t, "../../../docs/guide/limits.md", "limits", out.String())
}

// constant returns a constant of the code. name is package.Name; the package is below internal, or a
// public one.
func (p *limitsPage) constant(name string) int64 {
	for _, prefix := range []string{"internal/", ""} {
		if n, ok := p.tree.Constant(prefix + name); ok {
			return n
		}
	}
	p.t.Errorf("%s does not exist", name)
	return 0
}

func (p *limitsPage) count(name string) string { return thousands(p.constant(name)) }
func (p *limitsPage) bytes(name string) string { return sizeText(p.constant(name)) }

// time formats a duration with the largest unit that divides it.
func (p *limitsPage) time(name string) string {
	d := time.Duration(p.constant(name))
	if d == time.Hour {
		return "1 hour"
	}
	for _, u := range []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "days"}, {time.Hour, "hours"}, {time.Minute, "minutes"}, {time.Second, "s"}} {
		if d >= 2*u.of && d%u.of == 0 {
			return fmt.Sprintf("%d %s", d/u.of, u.name)
		}
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

// memory returns the cells of a limit that depends on --memory-limit: at 64 MiB, 256 MiB and 1 GiB.
func (p *limitsPage) memory(name string) string {
	var cells []string
	for _, limit := range []int64{64 << 20, 256 << 20, 1 << 30} {
		b := budget.New(limit)
		of := func(k budget.Kind) int64 { return b.Class(k).Limit() }
		// items is the number of things that fit into the state, each with some parts.
		items := func(parts ...string) string {
			each := int64(0)
			for _, part := range parts {
				each += p.constant("engine/log/state." + part)
			}
			return rounded(of(budget.State) / each)
		}
		var cell string
		switch name {
		case "request":
			cell = sizeText(b.RequestMax())
		case "kafka request":
			cell = sizeText(b.RequestMax() / 8 * 9)
		case "topics":
			cell = items("topicMemory", "partitionMemory", "writtenMemory")
		case "partitions":
			cell = items("partitionMemory", "writtenMemory")
		case "consumer groups":
			cell = items("groupMemory", "offsetMemory")
		case "ranges":
			cell = items("RangeMemory")
		case "producers":
			cell = rounded(int64(state.ProducersWithin(of(budget.State))))
		case "http", "polls", "streams":
			waiting := map[string]string{"polls": "PollBytes", "streams": "StreamBytes"}[name]
			cell = thousands(p.open(limit, "protocols/httpapi/httpconn.", "IdleBytes", waiting))
		case "kafka":
			cell = thousands(p.open(limit, "protocols/framed.", "linkBytes", ""))
		case "fetches":
			cell = thousands(p.open(limit, "protocols/framed.", "linkBytes", "linkBytes"))
		case "member":
			cell = sizeText(of(budget.Groups) / p.constant("engine/group/coordinator.memberShare"))
		case "triggers":
			cell = rounded((of(budget.Triggers) - of(budget.Triggers)/p.constant("triggers/rules.rulesShare")) / 820)
		case "keys":
			cell = rounded(p.constant("engine/log/compact.recordsMax"))
		case "dry runs":
			cell = sizeText(min(p.constant("protocols/httpapi.dryRunBytes"), limit/16))
		case "deliveries":
			cell = thousands(min(p.constant("triggers/delivery/webhook.totalSlots"), int64(delivery.BytesWithin(limit))/p.constant("triggers/delivery/webhook.slotBytes")))
		case "matches":
			cell = sizeText(min(p.constant("operate/node.riemannAnswer"), limit/64))
		case "subscriber":
			cell = sizeText(min(p.constant("operate/node.riemannQueue"), limit/512))
		case "cache":
			cell = sizeText(of(budget.CacheIndex) / p.constant("engine/objstore/cache.entryBytes") * p.constant("engine/objstore/cache.blockBytes"))
		case "subscriptions":
			cell = thousands(min(subscriptionsMax, max(4, of(budget.Fetch)/subscriptionBytes)))
		default:
			for _, k := range budget.Kinds() {
				if k.String() == name {
					cell = sizeText(of(k))
				}
			}
		}
		if cell == "" {
			p.t.Fatalf("unknown limit %q", name)
		}
		cells = append(cells, cell)
	}
	return strings.Join(cells, " | ")
}

// open returns how many connections of one listener fit, or of readers if waiting is not "". Both are
// constants of a package: the memory of a connection, and of one that waits.
func (p *limitsPage) open(limit int64, pkg, idle, waiting string) (n int64) {
	never := func(time.Time) bool { return false }
	l := connlimit.New(connlimit.Options{Bytes: connectionsMemory(budget.New(limit))})
	listener := l.Listen(connlimit.ListenerOptions{Name: "test", Bytes: p.constant(pkg + idle), Evict: never})
	var reader int64
	if waiting != "" {
		reader = p.constant(pkg + waiting)
	}
	for {
		s := listener.Take()
		if s == nil || reader > 0 && !s.Read(reader) {
			return n
		}
		n++
	}
}

// sizeText formats bytes: exactly if a unit divides them or they are few, else rounded down.
func sizeText(n int64) string {
	for _, u := range []struct {
		of   int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		switch {
		case n >= u.of && n%u.of == 0:
			return fmt.Sprintf("%d %s", n/u.of, u.name)
		case n >= 10*u.of && u.of >= 1<<20:
			return fmt.Sprintf("%d %s", n/u.of, u.name)
		case n >= u.of && u.of >= 1<<20:
			return fmt.Sprintf("%d.%d %s", n/u.of, n%u.of*10/u.of, u.name)
		case n >= 10<<10 && u.of == 1<<10:
			return fmt.Sprintf("%d %s", n/u.of, u.name)
		}
	}
	return thousands(n) + " bytes"
}

// rounded rounds an estimate down to two digits.
func rounded(n int64) string {
	unit := int64(1)
	for n/unit >= 100 {
		unit *= 10
	}
	return thousands(n / unit * unit)
}

func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
