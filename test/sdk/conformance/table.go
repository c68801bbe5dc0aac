package conformance

import (
	_ "embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// differences lists the cells in which languages may differ, with reasons.
//
//go:embed differences.txt
var differences string

// table has a row for each call with each fault.
type table []row

// row has the outcome of each language.
type row struct {
	call, fault string
	outcomes    []outcome
}

// judge returns what is wrong: answers that contradict the broker, and differences between languages. The
// first language is the model.
func (t table) judge(languages []string) (wrong []string) {
	for i := range t {
		r := &t[i]
		for l := range r.outcomes {
			o, model := &r.outcomes[l], &r.outcomes[0]
			name := fmt.Sprintf("%s: %s / %s", languages[l], r.call, r.fault)
			if o.err != nil {
				wrong = append(wrong, fmt.Sprintf("%s: %s: %v", name, o.class, o.err))
			}
			if o.whole != model.whole && !accepted(languages[l], r.call, r.fault) {
				wrong = append(wrong, fmt.Sprintf("%s differs from %s: %s; %.300q, %.300q", name, languages[0], different(o.whole, model.whole), o.says, model.says))
			}
		}
	}
	return wrong
}

// accepted reports whether a difference has a reason. A line of the list has patterns of language, call and
// fault, and the reason: JavaScript | read | TLS* | why.
func accepted(language, call, fault string) bool {
	for line := range strings.Lines(differences) {
		f := strings.SplitN(line, "|", 4)
		if len(f) != 4 || strings.HasPrefix(line, "#") {
			continue
		}
		matches := true
		for i, name := range []string{language, call, fault} {
			ok, err := path.Match(strings.TrimSpace(f[i]), strings.ReplaceAll(name, "/", " "))
			matches = matches && ok && err == nil
		}
		if matches {
			return true
		}
	}
	return false
}

// slow returns the calls that took longest.
func (t table) slow(languages []string) (list []string) {
	for i := range t {
		for l := range t[i].outcomes {
			if took := t[i].outcomes[l].took; took > slowTime {
				list = append(list, fmt.Sprintf("%5.1f s  %s: %s / %s", took.Seconds(), languages[l], t[i].call, t[i].fault))
			}
		}
	}
	slices.Sort(list)
	return list
}

// slowTime is the time from which a call is listed as slow.
const slowTime = 5 * time.Second

// markdown returns the table. Faults of a call with the same outcomes share a row.
func (t table) markdown(languages []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| call | fault | %s |\n|---|---|%s\n", strings.Join(languages, " | "), strings.Repeat("---|", len(languages)))
	for i := 0; i < len(t); {
		end := i
		for end < len(t) && t[end].call == t[i].call {
			end++
		}
		t[i:end].group(&b)
		i = end
	}
	return b.String()
}

// group writes the rows of one call.
func (t table) group(b *strings.Builder) {
	var order []string
	byOutcome := map[string][]string{}
	for i := range t {
		var cells []string
		for _, o := range t[i].outcomes {
			if o.err != nil {
				o.class = "**" + o.class + "**"
			}
			cells = append(cells, o.class)
		}
		line := strings.Join(cells, " | ")
		if byOutcome[line] == nil {
			order = append(order, line)
		}
		byOutcome[line] = append(byOutcome[line], t[i].fault)
	}
	for i, line := range order {
		name := ""
		if i == 0 {
			name = t[0].call
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", name, strings.Join(byOutcome[line], "; "), line)
	}
}

// document returns the report: the table, and the differences that it accepts.
func (t table) document(languages []string, cells int) string {
	var b strings.Builder
	fmt.Fprintf(&b, reportHead, time.Now().Format(time.DateOnly), cells*len(languages))
	b.WriteString(t.markdown(languages) + "\n## Accepted differences\n\n| language | call | fault | reason |\n|---|---|---|---|\n")
	for line := range strings.Lines(differences) {
		if f := strings.SplitN(line, "|", 4); len(f) == 4 && !strings.HasPrefix(line, "#") {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", strings.TrimSpace(f[0]), strings.TrimSpace(f[1]), strings.TrimSpace(f[2]), strings.TrimSpace(f[3]))
		}
	}
	return b.String()
}

const reportHead = `# What the SDKs say when something breaks

Package client and the SDKs for other languages get the same calls with the same faults, on real brokers. Each
answer is compared with what the broker has: nothing that was acknowledged is missing, nothing that may be
repeated is there twice, and nothing that was rejected is there. All languages must give the same answer: the
outcome, the code, the status, and the words of the broker; times, receipts and IDs are masked.

    go run ./test/cmd/sdk -report docs/reports/sdk.md

Of %s, %d cells. A fault meets one request of the call, and then the broker answers again, except where the
client is refused each time: wrong keys and certificates, clock_wrong, 403, an older broker.

| answer | meaning |
|---|---|
| ok | the result is right |
| repeated | the client sent the request again by itself |
| rejected | nothing is stored, and nothing can appear later |
| unknown | it is stored once, or not at all |
| error | of a call that writes nothing |

After the answer comes the code of the broker, or the HTTP status if it had no code. "Stored" in a fault means that
the broker carried out the request before the answer was lost.

`
