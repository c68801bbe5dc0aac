package answers

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// mask replaces a text that differs between runs.
type mask struct {
	pattern *regexp.Regexp
	by      func(match string) string
}

// remember sets a variable, whose value is replaced by its name in all later answers.
func (r *run) remember(name, value string) {
	r.vars[name] = value
	if value != "" {
		r.maskText(name, value)
	}
}

func (r *run) maskText(name, value string) {
	pattern := regexp.QuoteMeta(value)
	if isWord(value[0]) {
		pattern = `\b` + pattern
	}
	if isWord(value[len(value)-1]) {
		pattern += `\b`
	}
	r.masks = append(r.masks, mask{regexp.MustCompile(pattern), func(string) string { return "<" + name + ">" }})
}

func isWord(b byte) bool { return b == '_' || b >= '0' && b <= '9' || b|0x20 >= 'a' && b|0x20 <= 'z' }

// maskMachine adds the masks of this run's folder, machine and program.
func (r *run) maskMachine() error {
	r.maskText("dir", r.dir)
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	r.maskText("host", host)
	program, err := filepath.EvalSymlinks(r.program)
	if err != nil {
		return err
	}
	r.maskText("programs", filepath.Dir(program))
	out, err := exec.Command(r.program, "version", "--json").Output()
	if err != nil {
		return fmt.Errorf("%s version: %w", filepath.Base(r.program), err)
	}
	var v struct{ Version, Commit, Go string }
	if err := json.Unmarshal(out, &v); err != nil {
		return err
	}
	for name, value := range map[string]string{"version": v.Version, "commit": v.Commit, "go": v.Go} {
		if value != "unknown" { // a word of many answers
			r.maskText(name, value)
		}
	}
	return nil
}

// rules hold for all answers. Times far from now stay, so that what the calls give is compared.
var rules = []mask{
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( ?Z| ?UTC| ?[+-]\d\d:?\d\d)?`), func(s string) string {
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 UTC", time.DateTime} {
			if t, err := time.Parse(layout, s); err == nil {
				return near("time", t, s)
			}
		}
		return s
	}},
	{regexp.MustCompile(`\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT`), func(s string) string {
		t, err := time.Parse("Mon, 02 Jan 2006 15:04:05 GMT", s)
		if err != nil {
			return s
		}
		return near("date", t, s)
	}},
	{regexp.MustCompile(`\b1[5-9]\d{8}(\d{3}){0,3}\b`), func(s string) string {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return s
		}
		units := map[int]time.Duration{10: time.Second, 13: time.Millisecond, 16: time.Microsecond, 19: time.Nanosecond}
		unit := units[len(s)]
		return near(unit.String(), time.Unix(0, n*int64(unit)), s)
	}},
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), func(string) string { return "<uuid>" }},
	// IDs of runs, topics and firings, and digests.
	{regexp.MustCompile(`\b[0-9a-f]{16}([0-9a-f]{16})?([0-9a-f]{32})?\b`), func(s string) string { return fmt.Sprintf("<%d hex>", len(s)) }},
	// Positions of the log: the engine of triggers and registrations of brokers write to it at any time.
	{regexp.MustCompile(`\b0:\d+:\d{1,6}\b`), func(s string) string { return s[:strings.LastIndexByte(s, ':')] + ":<slot>" }},
	{regexp.MustCompile(`\bseb_([a-z0-9.-]+)_[a-z2-7]{32}_[0-9a-f]{8}\b`), func(string) string { return "<token>" }},
	{regexp.MustCompile(`\b(in|took) +\d+(\.\d+)?(ns|µs|ms|s)\b`), func(string) string { return "in <duration>" }},
	// Signatures of webhooks.
	{regexp.MustCompile(`\bv1,[A-Za-z0-9+/]{43}=`), func(string) string { return "v1,<signature>" }},
}

// nearDays bounds the difference of a time to now. Examples in texts must be farther away.
const nearDays = 20

// near returns a placeholder with the difference to now in hours, if that is small.
func near(name string, t time.Time, s string) string {
	hours := int(time.Until(t).Round(time.Hour) / time.Hour)
	switch {
	case hours < -nearDays*24 || hours > nearDays*24:
		return s
	case hours == 0:
		return "<" + name + ">"
	}
	return fmt.Sprintf("<%s%+dh>", name, hours)
}

var contentLength = regexp.MustCompile(`(?m)^Content-Length: .*`)

// mask applies the rules, and the options of the call, to an answer.
func (r *run) mask(c *call, text string) string {
	masked, figures := text, c.shape
	if c.shape {
		masked, figures = shape(masked)
	}
	for _, re := range c.hides {
		masked = hide(re, masked)
	}
	for _, m := range slices.Backward(r.masks) { // the last run of a broker first
		masked = m.pattern.ReplaceAllStringFunc(masked, m.by)
	}
	for _, m := range rules {
		masked = m.pattern.ReplaceAllStringFunc(masked, m.by)
	}
	if figures {
		masked = number.ReplaceAllString(masked, "#")
	}
	if figures || c.verb == "$" && strings.Contains(masked, "<time") { // columns are as wide as their texts
		masked = spaces.ReplaceAllString(masked, " ")
	}
	if c.sort {
		lines := strings.SplitAfter(masked, "\n")
		slices.Sort(lines)
		masked = strings.Join(lines, "")
	}
	// The length of a body with placeholders may differ.
	head, body, _ := strings.Cut(masked, "\n\n")
	if _, was, ok := strings.Cut(text, "\n\n"); ok && was != body {
		masked = contentLength.ReplaceAllString(head, "Content-Length: <length>") + "\n\n" + body
	}
	return masked
}

func hide(re *regexp.Regexp, text string) string {
	var b strings.Builder
	end := 0
	for _, m := range re.FindAllStringSubmatchIndex(text, -1) {
		from, to := m[0], m[1]
		if len(m) > 2 {
			from, to = m[2], m[3]
		}
		if from < end {
			continue
		}
		b.WriteString(text[end:from] + "<hidden>")
		end = to
	}
	return b.String() + text[end:]
}

var (
	number = regexp.MustCompile(`\d+(\.\d+)?(ns|µs|ms|s|KiB|MiB)?`)
	spaces = regexp.MustCompile(` +`)
	sample = regexp.MustCompile(`(?m)^([a-z_]+(?:\{[^}]*\})?) \S+$`)
)

// shape keeps names and types of JSON, and names and labels of metrics, sorted. Of other texts all
// figures must be replaced.
func shape(text string) (shaped string, figures bool) {
	end := "\n\n"
	if strings.HasPrefix(text, "exit code ") {
		end = "\n"
	}
	head, body, _ := strings.Cut(text, end)
	var lines []string
	var v any
	if json.Unmarshal([]byte(body), &v) == nil {
		seen := map[string]bool{}
		members(seen, "", v)
		lines = slices.Collect(maps.Keys(seen))
	} else {
		for _, m := range sample.FindAllStringSubmatch(body, -1) {
			lines = append(lines, m[1])
		}
	}
	if lines == nil {
		return text, true
	}
	slices.Sort(lines)
	return head + "\n\n" + strings.Join(slices.Compact(lines), "\n") + "\n", false
}

func members(seen map[string]bool, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			members(seen, path+"."+name, value)
		}
	case []any:
		for _, value := range v {
			members(seen, path+"[]", value)
		}
	case nil, float64: // a figure that is not known yet is null
		seen[path+": number or null"] = true
	default:
		seen[fmt.Sprintf("%s: %T", path, v)] = true
	}
}
