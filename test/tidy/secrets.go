package tidy

import (
	"regexp"
	"strings"
)

var (
	// secret matches the end of an expression whose value is secret: a name of this repository's
	// secrets, or part of its value.
	secret = `(?:\bAPIKey|\bapiKey|\bSecretKey|\bSessionToken|\bRemoteKey|\bsecret|\b[Pp]assword|\bReveal\(\)|"Authorization"\))(?:\[[^\]]*\])?\)?`
	// An ordinary comparison ends at the first different byte, and its duration reveals the position.
	// Compare digests with subtle.ConstantTimeCompare.
	secretCompared = regexp.MustCompile(secret + ` [!=]= \S+|[^\s(]+ [!=]= [\w.\[\]]*` + secret + `|\b(?:bytes|strings|cmp|reflect|slices)\.(?:Equal|Compare|EqualFold|DeepEqual)\(.*` + secret)
	// Secrets may be compared with these, and numbers about them with numbers.
	comparedWithNothing = regexp.MustCompile(`(?:""|nil|\d+)\)*$|^(?:""|nil) `)
)

// checkSecrets finds comparisons of secrets with anything except "" and nil. Tests are exempt.
func checkSecrets(t *Tree) []Finding {
	var found []Finding
	for _, g := range t.gofiles {
		if g.test || isSupport(g.dir) {
			continue
		}
		for i, line := range strings.Split(string(t.files[g.path]), "\n") {
			line, _, _ = strings.Cut(line, "//")
			if !containsAny(line, "==", "!=", "Equal", "Compare") || !containsAny(line, "Key", "Token", "secret", "assword", "Reveal", "Auth") {
				continue
			}
			for _, compared := range secretCompared.FindAllString(line, -1) {
				if !comparedWithNothing.MatchString(strings.Trim(compared, " {")) {
					found = append(found, Finding{
						Rule: "secrets", Path: g.path, Line: i + 1, Name: compared,
						Text: compared + " compares a secret: compare digests with subtle.ConstantTimeCompare",
					})
				}
			}
		}
	}
	return found
}
