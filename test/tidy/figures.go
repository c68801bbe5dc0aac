package tidy

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// figure is a number in a document that repeats a constant of the code or the default of a flag.
type figure struct {
	document string // path without .md
	// text is a regular expression for one position in the document. Its group is the number with
	// its unit.
	text string
	// source is package.Name of a constant, or --flag for the default of seb serve in docs/reference/flags.md.
	source string
}

// checkFigures compares numbers in documents with constants in the code. A text that is not in its
// document also fails: update the entry together with the document.
func checkFigures(t *Tree) []Finding { return t.checkFigures(figures) }

func (t *Tree) checkFigures(figures []figure) []Finding {
	var found []Finding
	_, defaults, _ := strings.Cut(string(t.files["docs/reference/flags.md"]), "\n## seb serve\n")
	for _, f := range figures {
		document := f.document + ".md"
		fault := func(format string, a ...any) {
			found = append(found, Finding{Rule: "figure", Path: document, Name: f.source, Text: fmt.Sprintf(format, a...)})
		}
		m := regexp.MustCompile(strings.ReplaceAll(f.text, " ", `\s+`)).FindStringSubmatch(string(t.files[document]))
		if m == nil {
			fault("no text matches %q, which repeats %s", f.text, f.source)
			continue
		}
		var want float64
		var ok bool
		if flag, isFlag := strings.CutPrefix(f.source, "--"); isFlag {
			if d := regexp.MustCompile("`--" + flag + "`[^|]*\\| `([^`]+)`").FindStringSubmatch(defaults); d != nil {
				want, ok = number(d[1])
			}
		} else {
			var n int64
			n, ok = t.Constant(f.source)
			want = float64(n)
		}
		got, isNumber := number(strings.Join(strings.Fields(m[1]), " "))
		switch {
		case !ok:
			fault("%s does not exist", f.source)
		case !isNumber:
			fault("%q is not a number with a unit", m[1])
		case got != want:
			fault("%q is %v, but %s is %v", m[1], got, f.source, want)
		}
	}
	return found
}

// units are bytes, and times in nanoseconds as in package time.
var units = map[string]float64{
	"": 1, "bytes": 1, "%": 0.01, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
	"ms": 1e6, "s": 1e9, "second": 1e9, "seconds": 1e9, "min": 60e9, "minute": 60e9, "minutes": 60e9,
	"h": 3600e9, "hours": 3600e9, "day": 86400e9, "days": 86400e9,
}

var words = map[string]string{
	"a": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9", "ten": "10",
}

// number returns the value of a text such as 1,024, 64 KiB, ten minutes or 1h30m.
func number(text string) (value float64, ok bool) {
	if d, err := time.ParseDuration(text); err == nil && text != "0" {
		return float64(d), true
	}
	digits := strings.TrimRight(text, " %ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
	if digits == "" {
		digits, _, _ = strings.Cut(text, " ")
	}
	unit, ok := units[strings.TrimSpace(strings.TrimPrefix(text, digits))]
	value, err := strconv.ParseFloat(strings.ReplaceAll(cmp.Or(words[digits], digits), ",", ""), 64)
	return value * unit, ok && err == nil
}

// Constant returns an integer of the code, named as package.Name. See constant.
func (t *Tree) Constant(source string) (value int64, ok bool) {
	dot := strings.LastIndex(source, ".")
	return constant.Int64Val(t.constant(source[:dot], source[dot+1:]))
}

// constant returns the value of a name in a package's code: of a constant, a variable, or a field's
// default as in o.Name = value, o.Name = cmp.Or(o.Name, value), Name: value and def(&o.Name, value).
// Test files do not count.
func (t *Tree) constant(dir, name string) constant.Value {
	definition := regexp.MustCompile(`(?:\b` + name + `(?: +[\w.]+)?(?: *=|:)|&\w+\.` + name + `,) *(?:cmp\.Or\([\w.]+, )?([^,\n}]+)`)
	for _, g := range t.in(dir) {
		if g.test || !bytes.Contains(t.files[g.path], []byte(name)) {
			continue
		}
		for _, m := range definition.FindAllSubmatch(t.files[g.path], -1) {
			code, _, _ := strings.Cut(string(m[1]), "//")
			e, err := parser.ParseExpr(code)
			if err != nil {
				e, err = parser.ParseExpr(strings.TrimSuffix(code, ")"))
			}
			if err != nil {
				continue
			}
			if v := t.eval(dir, e); v.Kind() == constant.Int {
				return v
			}
		}
	}
	return constant.MakeUnknown()
}

// eval evaluates an expression of integers, units of package time, and names of the package that
// constant finds.
func (t *Tree) eval(dir string, e ast.Expr) constant.Value {
	switch e := e.(type) {
	case *ast.BasicLit:
		return constant.ToInt(constant.MakeFromLiteral(e.Value, e.Kind, 0))
	case *ast.Ident:
		return t.constant(dir, e.Name)
	case *ast.SelectorExpr:
		if d, err := time.ParseDuration(map[string]string{"Millisecond": "1ms", "Second": "1s", "Minute": "1m", "Hour": "1h"}[e.Sel.Name]); err == nil {
			return constant.MakeInt64(int64(d))
		}
	case *ast.CallExpr: // a conversion
		if len(e.Args) == 1 {
			return t.eval(dir, e.Args[0])
		}
	case *ast.BinaryExpr:
		x, y := t.eval(dir, e.X), t.eval(dir, e.Y)
		n, isInt := constant.Uint64Val(y)
		switch {
		case x.Kind() != constant.Int || !isInt:
		case e.Op == token.SHL:
			return constant.Shift(x, e.Op, uint(n))
		default:
			return constant.BinaryOp(x, e.Op, y)
		}
	}
	return constant.MakeUnknown()
}

var figures = []figure{
	{"ARCHITECTURE", `server.go. has (\d+ seconds)`, "internal/operate/server.stopTime"},
	{"ARCHITECTURE", `enough bytes are there \((\d+ MiB) on S3`, "internal/operate/node.batchBytes"},
	{"ARCHITECTURE", `MiB on S3, (\d+ KiB) on local`, "internal/operate/node.batchBytesLocal"},
	{"ARCHITECTURE", `wait is over \((\d+ ms) on disk`, "internal/operate/node.batchWaitLocal"},

	{"docs/guide/configure", "`--memory-limit` \\| ([^|]+) \\|", "--memory-limit"},
	{"docs/guide/configure", "`--cache-size` \\| ([^|]+) \\|", "--cache-size"},
	{"docs/guide/costs", `records wait (\w+ ms)`, "internal/operate/node.batchWaitRemote"},
	{"docs/guide/configure", `at most (\w+ ms) on disk and in memory`, "internal/operate/node.batchWaitLocal"},
	{"docs/guide/configure", `happens every (\w+ minutes) or`, "--pack-age"},
	{"docs/guide/configure", `minutes or ([\d]+ MiB)\.`, "--pack-bytes"},

	{"README", `(\d+ MiB) by default`, "--memory-limit"},
	{"README", `and up to (\d+ ms) of waiting`, "internal/operate/node.batchWaitRemote"},

	{"docs/guide/kafka", `address again every (\d+ s)`, "internal/operate/server.kafkaRetry"},
	{"docs/guide/kafka", `up to (\d+ ms) on disk`, "internal/operate/node.batchWaitLocal"},
	{"docs/guide/kafka", `session timeout \| (\d+ s) to`, "internal/engine/group/coordinator.SessionMin"},
	{"docs/guide/kafka", `session timeout \| \d+ s to (\d+ min)`, "internal/engine/group/coordinator.SessionMax"},
	{"docs/guide/kafka", `min \| (\d+ s), heartbeat`, "internal/engine/group/coordinator.Session"},
	{"docs/guide/kafka", `heartbeat every (\d+ s)`, "internal/engine/group/coordinator.Beat"},
	{"docs/guide/kafka", `not authenticated for (\d+ ms)`, "internal/protocols/framed.unauthenticatedGrace"},
	{"docs/guide/kafka", `idle longest, if that is (\d+ s) or`, "internal/protocols/framed.EvictIdleAfter"},

	{"docs/guide/riemann", "`--riemann-patience` \\((\\d+ s)\\)", "internal/protocols/riemann.DefaultPatience"},
	{"docs/guide/riemann", `host over ([\d,]+) bytes`, "internal/protocols/encoding.EventEntityMax"},
	{"docs/guide/riemann", `service over (\d+)`, "internal/protocols/encoding.EventNameMax"},

	{"docs/guide/operate", `at most (\d+ MiB) \|`, "internal/engine/budget.requestMax"},
	{"docs/guide/operate", `its formats, for (\d+ minutes)`, "internal/engine/log/core.RaiseAfter"},
	{"docs/guide/operate", `waits at most (\d+ s) for it`, "internal/operate/server.storeTimeout"},
	{"docs/guide/operate", `nothing for (\d+ minutes)`, "internal/engine/log.leapWait"},
	{"docs/guide/operate", `idempotent producer in a partition \| (\d+ bytes)`, "internal/engine/log/state.producerMemory"},
	{"docs/guide/operate", `nothing for more than (\d+ minutes)`, "internal/engine/log/core.Young"},
	{"docs/guide/operate", `one object \| (\d+ bytes)`, "internal/engine/log/state.RangeMemory"},
	{"docs/guide/operate", `partition \| (\d+ bytes)`, "internal/engine/log/state.partitionMemory"},

	{"docs/guide/recover", `gap has ([\d,]+) offsets`, "internal/operate/fsck.unreadableSpan"},

	{"docs/guide/security", `with the request header \(HTTP\), and (\d+ KiB)`, "internal/protocols/tlsport.handshakeBytes"},
	{"docs/guide/security", `connection: (\d+ KiB) for HTTP`, "internal/protocols/httpapi/httpconn.IdleBytes"},
	{"docs/guide/security", `HTTP, (\d+ KiB) for Kafka`, "internal/protocols/framed.linkBytes"},
	{"docs/guide/security", `or (\d+ s) with the request header`, "internal/protocols/httpapi.HeaderTimeout"},

	{"docs/guide/http", "up to `timeout` \\((\\d+ s)\\)", "internal/protocols/httpapi.timeoutDefault"},
	{"docs/guide/http", "`max-records` \\((\\d+)\\)", "internal/protocols/httpapi.maxRecordsDefault"},
	{"docs/guide/http", "looks at (\\d+ MiB) \\(`max-scan-bytes`\\)", "internal/protocols/httpapi.scanDefault"},

	{"docs/guide/triggers", `An event has at most (\d+ KiB)`, "internal/protocols/encoding.EventMax"},
	{"docs/guide/triggers", `entity, 1 to ([\d,]+ bytes)`, "internal/protocols/encoding.EventEntityMax"},
	{"docs/guide/triggers", `name, 1 to ([\d,]+ bytes)`, "internal/protocols/encoding.EventNameMax"},
	{"docs/guide/triggers", `KiB and (\d+) levels`, "internal/protocols/encoding.EventDepthMax"},
	{"docs/guide/triggers", `second one within (\d+ hours)`, "internal/triggers/rules/explain.DuplicateWithin"},
	{"docs/guide/triggers", `ID has up to ([\d,]+) letters`, "internal/triggers/rules/rule.IDBytesMax"},
	{"docs/guide/triggers", `at most ([\d,]+) left sides`, "driplang/monitor.MaxInstances"},
	{"docs/guide/triggers", `after at most (\w+ minutes)`, "internal/protocols/httpapi.dryRunTime"},
	{"docs/guide/triggers", `keys together (\w+);`, "internal/protocols/httpapi.dryRunsMax"},
	{"docs/guide/triggers", `disconnects, within (\d+) records`, "internal/triggers/rules.dryPoll"},
	{"docs/guide/triggers", `After (\d+ ms) of work`, "internal/triggers/rules.dryFree"},
	{"docs/guide/triggers", "sixteenth of `--memory-limit`, at most (\\d+ MiB)", "internal/protocols/httpapi.dryRunBytes"},
	{"docs/guide/triggers", `above a lag of (\d+ s)`, "internal/triggers/rules.lagWarn"},
	{"docs/guide/triggers", `At most (\w+) triggers are late`, "internal/triggers/rules.lateMax"},
	{"docs/guide/triggers", `more than ([\d,]+) event IDs`, "internal/triggers/rules.lateSeenMax"},

	{"docs/guide/webhooks", `A body has at most (\d+ KiB)`, "internal/triggers/delivery/webhook.DeliveryBytesMax"},
	{"docs/guide/webhooks", `reads at most (\d+ MiB)`, "webhook.BodyBytesMax"},
	{"docs/guide/webhooks", `Answer within (\d+ seconds)`, "internal/triggers/delivery/webhook.wholeTimeout"},
	{"docs/guide/webhooks", "to (\\d+ bytes)\\. `seb trigger secret`", "webhook.SecretBytesMax"},
	{"docs/guide/webhooks", `ASCII, at most ([\d,]+ bytes)`, "internal/triggers/delivery/webhook.URLBytesMax"},
	{"docs/guide/webhooks", `Headers\*\*: at most (\d+)`, "internal/triggers/delivery/webhook.HeadersMax"},
	{"docs/guide/webhooks", `each at most (\w+ days)`, "internal/triggers/delivery/webhook.delayMax"},
	{"docs/guide/webhooks", `in flight, 1 to ([\d,]+)`, "internal/triggers/delivery/webhook.ConcurrencyMax"},
	{"docs/guide/webhooks", `begins with (\d+) messages`, "internal/triggers/delivery.concurrencyFirst"},
	{"docs/guide/webhooks", `most (\d+) while the median`, "internal/triggers/delivery.concurrencyMost"},
	{"docs/guide/webhooks", `together have at most ([\d,]+) messages in flight`, "internal/triggers/delivery/webhook.totalSlots"},
	{"docs/guide/webhooks", "span of `per` \\(up to (\\d+ days)\\)", "internal/triggers/delivery/webhook.CapPerMax"},
	{"docs/guide/webhooks", `Limits: (\d+ KiB) of template`, "internal/triggers/delivery/template.TemplateBytesMax"},
	{"docs/guide/webhooks", `([\d,]+) steps\.`, "internal/triggers/delivery/template.stepsMax"},

	{"docs/reference/kafka", `empty group waits (\d+ s)`, "internal/engine/group/coordinator.InitialDelay"},
	{"docs/reference/kafka", `invalid; the limit is ([\d,]+)`, "internal/engine/log/state.PartitionsMax"},
	{"docs/reference/kafka", `within (\d+ minutes) after the start`, "internal/engine/group.returnWithin"},
	{"docs/reference/kafka", `([\d,]+) partitions per page`, "internal/protocols/kafka.pagePartitions"},

	{"docs/reference/protocol", `K is (\d+), the window`, "internal/engine/log/core.Window"},
	{"docs/reference/protocol", `snapshot every ([\d,]+) slots`, "internal/engine/log/core.SnapshotSlots"},
	{"docs/reference/protocol", `every (\w+ minutes) while garbage`, "internal/engine/log/core.GarbageWait"},
	{"docs/reference/protocol", `nothing was committed for (a minute)`, "internal/engine/log/core.IdleCheck"},
	{"docs/reference/protocol", `newest (\d+) epochs`, "internal/engine/log/state.EpochsKept"},
	{"docs/reference/protocol", `differs by at most (\d+ s)`, "internal/engine/log.SkewMax"},
	{"docs/reference/protocol", `at most (\d+ days) ahead`, "internal/engine/log.LeapMax"},

	{"docs/reference/formats", `first write of a client (\d+ minutes)`, "internal/engine/log/core.RaiseAfter"},

	{"docs/reference/driplang", `text; JSON \| (\d+ KiB)`, "driplang.MaxText"},
	{"docs/reference/driplang", `canonical form; (\d+ KiB)`, "driplang.MaxJSON"},
	{"docs/reference/driplang", `nested filters \| (\d+);`, "driplang.MaxDepth"},
	{"docs/reference/driplang", `event names; names with different filters \| (\d+)`, "driplang.MaxNames"},
	{"docs/reference/driplang", `comparisons in a filter of records \| (\d+)`, "driplang.MaxComparisons"},
	{"docs/reference/driplang", `number in a count \| ([\d,]+)`, "driplang.MaxCount"},
	{"docs/reference/driplang", `at most ([\d,]+) anchors`, "driplang/monitor.MaxInstances"},
	{"docs/reference/driplang", `entity, or (\d+) if a`, "driplang/monitor.MaxNonMonotonic"},

	{"docs/reference/compatibility", `0\.1\.0 \| 1 to (\d+)`, "internal/engine/log/state.LevelMax"},
	{"docs/reference/compatibility", `\| 1 to \d+ \| (\d+)`, "internal/engine/log/state.LevelMax"},
}
