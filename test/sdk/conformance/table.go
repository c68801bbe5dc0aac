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

const reportHead = `# The SDKs give the same answers

`
