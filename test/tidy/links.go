package tidy

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"
	"unicode"
)

var (
	// [text](target "title"), also of images.
	inlineLink = regexp.MustCompile(`\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)`)
	// [name]: target
	namedLink = regexp.MustCompile(`^\s{0,3}\[[^\]]+\]:\s+<?(\S+?)>?(?:\s|$)`)
	codeSpan  = regexp.MustCompile("`+[^`]*`+")
	fence     = regexp.MustCompile("^\\s*(```|~~~)")
	heading   = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*\s*$`)
	anchorTag = regexp.MustCompile(`<a\s+(?:id|name)="([^"]+)"`)
)

func checkLinks(t *Tree) []Finding {
	var found []Finding
	for _, name := range t.names() {
		if path.Ext(name) != ".md" {
			continue
		}
		for i, line := range prose(t.files[name]) {
			for _, target := range targets(line) {
				if why := t.dead(name, target); why != "" {
					found = append(found, Finding{Rule: "link", Path: name, Line: i + 1, Name: target, Text: why})
				}
			}
		}
	}
	return found
}

// prose returns the lines of a document with empty code blocks, so that line numbers stay the same.
func prose(text []byte) []string {
	lines := strings.Split(string(text), "\n")
	inside := false
	for i, line := range lines {
		edge := containsAny(line, "```", "~~~") && fence.MatchString(line)
		if edge {
			inside = !inside
		}
		if inside || edge {
			lines[i] = ""
		}
	}
	return lines
}

func targets(line string) []string {
	if !containsAny(line, "](", "]:") {
		return nil
	}
	line = codeSpan.ReplaceAllString(line, "code")
	var all []string
	for _, m := range inlineLink.FindAllStringSubmatch(line, -1) {
		all = append(all, m[1])
	}
	if m := namedLink.FindStringSubmatch(line); m != nil {
		all = append(all, m[1])
	}
	return all
}

// dead returns why a link of a document is broken, or "". It ignores links to other sites.
func (t *Tree) dead(document, target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return fmt.Sprintf("link %q: invalid URL", target)
	}
	if u.Scheme != "" || u.Host != "" {
		return ""
	}
	file := document
	if u.Path != "" {
		file = path.Join(path.Dir(document), u.Path)
	}
	text, isFile := t.files[file]
	switch {
	case strings.HasPrefix(u.Path, "/") || file == ".." || strings.HasPrefix(file, "../"):
		return fmt.Sprintf("link %q points outside the repository", target)
	case !isFile && !t.folders[file] && file != ".":
		return fmt.Sprintf("link %q is broken: %s does not exist", target, file)
	case u.Fragment != "" && path.Ext(file) == ".md" && !anchors(text)[u.Fragment]:
		return fmt.Sprintf("link %q is broken: %s has no such heading", target, file)
	}
	return ""
}

// anchors returns the link names of a document's headings, as the usual renderers build them.
func anchors(text []byte) map[string]bool {
	names := make(map[string]bool)
	count := make(map[string]int)
	for _, line := range prose(text) {
		if containsAny(line, "<a") {
			for _, m := range anchorTag.FindAllStringSubmatch(line, -1) {
				names[m[1]] = true
			}
		}
		m := heading.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		s := slug(m[1])
		if n := count[s]; n > 0 {
			names[fmt.Sprintf("%s-%d", s, n)] = true
		} else {
			names[s] = true
		}
		count[s]++
	}
	return names
}

func slug(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, title)
}
