package auth

import (
	"cmp"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
)

// Mapping maps the names of certificates to principals, with the rules of Kafka's
// ssl.principal.mapping.rules. The first rule that matches a whole name decides:
//
//	rules = { "," | space } rule { "," rule }
//	rule  = "DEFAULT" | "RULE:" pattern "/" replacement "/" [ "L" | "U" ]
//
// The pattern is a regular expression of Go. In pattern and replacement a backslash keeps the next
// character, such as \/, from being special. In the replacement $1 is a group of the pattern; a $
// and a number beyond the groups is text, as in Kafka. L and U change the result to lower and upper
// case. DEFAULT keeps the name, which is never the ID of a principal, because it has a "=".
type Mapping struct{ rules []mappingRule }

// mappingRule is a rule; a nil pattern is that of DEFAULT.
type mappingRule struct {
	pattern     *regexp.Regexp
	replacement []replacementPart
	fold        func(string) string
}

// replacementPart is text, or the group of that number if text is "".
type replacementPart struct {
	text  string
	group int
}

// ErrMapping: the rules cannot map any certificate to a principal.
var ErrMapping = errors.New(`no rule with a pattern: principals cannot have the whole name of a certificate as their ID; want a rule such as RULE:^CN=([^,+]+).*$/$1/`)

// ParseMapping reads rules. An empty text and DEFAULT alone are ErrMapping.
func ParseMapping(text string) (*Mapping, error) {
	m, some := &Mapping{}, false
	const between = ", \t\r\n" // Kafka ignores empty rules
	for rest := strings.TrimLeft(text, between); rest != ""; rest = strings.TrimLeft(rest, between) {
		r, after, err := parseMappingRule(rest)
		after = strings.TrimLeft(after, " \t\r\n")
		if err == nil && after != "" && after[0] != ',' {
			err = fmt.Errorf("%.80q after its end", after)
		}
		if err != nil {
			return nil, fmt.Errorf("rule %d: %w", len(m.rules)+1, err)
		}
		m.rules, rest, some = append(m.rules, r), after, some || r.pattern != nil
	}
	if !some {
		return nil, ErrMapping
	}
	return m, nil
}

func parseMappingRule(text string) (r mappingRule, rest string, err error) {
	if rest, ok := strings.CutPrefix(text, "DEFAULT"); ok {
		return r, rest, nil
	}
	rest, isRule := strings.CutPrefix(text, "RULE:")
	pattern, rest, first := cutSlash(rest)
	replacement, rest, second := cutSlash(rest)
	if !isRule || !first || !second {
		return r, "", fmt.Errorf("%.80q: want RULE:pattern/replacement/, with L or U after it if wanted, or DEFAULT", text)
	}
	switch {
	case strings.HasPrefix(rest, "L"):
		r.fold, rest = strings.ToLower, rest[1:]
	case strings.HasPrefix(rest, "U"):
		r.fold, rest = strings.ToUpper, rest[1:]
	}
	if _, err := regexp.Compile(pattern); err != nil {
		return r, "", err // of the pattern as it was given
	}
	if r.pattern, err = regexp.Compile(`\A(?:` + pattern + `)\z`); err == nil {
		r.replacement, err = parseReplacement(replacement, r.pattern.NumSubexp())
	}
	return r, rest, err
}

// cutSlash cuts text at its first "/" without a backslash before it.
func cutSlash(text string) (before, after string, found bool) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '/':
			return text[:i], text[i+1:], true
		}
	}
	return text, "", false
}

// parseReplacement reads a replacement for a pattern with a number of groups. Of a number that is
// too large as many digits count as make a group, as in Java.
func parseReplacement(text string, groups int) (parts []replacementPart, err error) {
	add := func(s string) { parts = append(parts, replacementPart{text: s}) }
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
			add(text[i : i+1])
		case c != '$':
			add(text[i : i+1])
		case i+1 == len(text) || text[i+1] < '0' || text[i+1] > '9':
			return nil, fmt.Errorf(`replacement %.80q: want a number after $, or \$`, text)
		case groups == 0 && text[i+1] != '0':
			return nil, fmt.Errorf("replacement %.80q: the pattern has no group", text)
		default:
			end := i + 2
			for end < len(text) && text[end] >= '0' && text[end] <= '9' {
				if n, err := strconv.Atoi(text[i+1 : end+1]); err != nil || n > groups {
					break
				}
				end++
			}
			if n, _ := strconv.Atoi(text[i+1 : end]); n > groups {
				add(text[i:end])
			} else {
				parts = append(parts, replacementPart{group: n})
			}
			i = end - 1
		}
	}
	return parts, nil
}

// Principal returns the ID of the principal that has a certificate. The error is one sentence that
// names the certificate and the rule that is missing.
func (m *Mapping) Principal(cert *x509.Certificate) (id string, err error) {
	name, err := nameOfCertificate(cert)
	if err != nil {
		return "", fmt.Errorf("certificate %X: %w", cert.SerialNumber, err)
	}
	rule := 0
	for ; rule < len(m.rules); rule++ {
		if mapped, ok := m.rules[rule].apply(name); ok {
			id = mapped
			break
		}
	}
	if access.ValidID(id) {
		return id, nil
	}
	why := "no rule matches"
	if rule < len(m.rules) {
		why = fmt.Sprintf("rule %d gives %.80q, which is not the ID of a principal", rule+1, id)
	}
	// The rule can be copied: it is right for this certificate, whatever is in its name.
	missing := "RULE:^" + strings.ReplaceAll(regexp.QuoteMeta(name), "/", `\/`) + "$/PRINCIPAL/"
	return "", fmt.Errorf("certificate name %.300q has no principal (%s): add a rule such as %.400s to --tls-principal-mapping", name, why, missing)
}

func (r *mappingRule) apply(name string) (string, bool) {
	if r.pattern == nil {
		return name, true
	}
	found := r.pattern.FindStringSubmatch(name)
	if found == nil {
		return "", false
	}
	var b strings.Builder
	for _, p := range r.replacement {
		b.WriteString(p.text)
		if p.text == "" {
			b.WriteString(found[p.group])
		}
	}
	id := b.String()
	// Letters outside of ASCII may become ASCII when the case changes, such as the Kelvin sign.
	if r.fold != nil && strings.IndexFunc(id, func(c rune) bool { return c > '~' }) < 0 {
		id = r.fold(id)
	}
	return id, true
}

// attributeSET is a part of a name: usually one attribute. The suffix of the type's name means a SET
// to package asn1.
type attributeSET []struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

// keywords are the attributes that RFC 2253 names. The others are numbers.
var keywords = map[string]string{
	"2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.9": "STREET", "2.5.4.10": "O", "2.5.4.11": "OU",
	"0.9.2342.19200300.100.1.1": "UID", "0.9.2342.19200300.100.1.25": "DC",
}

// nameOfCertificate returns the name of a certificate's subject as RFC 2253 writes it, the last part
// first: CN=shop,OU=services,O=Example. It is the text of Java's X500Principal.getName, to which
// Kafka applies its rules.
func nameOfCertificate(cert *x509.Certificate) (string, error) {
	var name []attributeSET
	if rest, err := asn1.Unmarshal(cert.RawSubject, &name); err != nil || len(rest) > 0 {
		return "", errors.New("subject is malformed")
	}
	var b strings.Builder
	for i, part := range slices.Backward(name) {
		if i < len(name)-1 {
			b.WriteByte(',')
		}
		for j, a := range part {
			if j > 0 {
				b.WriteByte('+')
			}
			keyword, value := keywords[a.Type.String()], ""
			text, isText := textOf(&a.Value)
			if keyword != "" && isText {
				value = escaped(text)
			} else {
				value = fmt.Sprintf("#%x", a.Value.FullBytes)
			}
			keyword = cmp.Or(keyword, a.Type.String())
			b.WriteString(keyword + "=" + value)
		}
	}
	return b.String(), nil
}

// textOf returns the text of a value, if it is of a type for texts. The rare types of other encodings
// count as bytes.
func textOf(v *asn1.RawValue) (string, bool) {
	switch v.Tag {
	case asn1.TagUTF8String, asn1.TagPrintableString, asn1.TagIA5String, asn1.TagGeneralString, asn1.TagT61String:
		return string(v.Bytes), utf8.Valid(v.Bytes)
	}
	return "", false
}

// escaped writes a backslash before special characters, and before spaces at both ends.
func escaped(text string) string {
	inner := strings.Trim(text, " \r")
	lead := len(text) - len(strings.TrimLeft(text, " \r"))
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case c == 0:
			b.WriteString(`\00`)
			continue
		case strings.IndexByte(`,=+<>#;"\`, c) >= 0, i < lead, i >= lead+len(inner):
			b.WriteByte('\\')
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// adminOperations are those of the scope admin on topics.
var adminOperations = []access.Operation{
	access.Create, access.Delete, access.Alter, access.Describe, access.DescribeConfigs, access.AlterConfigs,
}

// ScopeRules returns the rules of scopes, without a principal. The error is a *state.InvalidError.
func ScopeRules(s *api.Scopes) (rules []access.Rule, err error) {
	for _, scope := range []struct {
		field      string
		resource   access.ResourceType
		patterns   []string
		operations []access.Operation
	}{
		{"read", access.Topic, s.Read, []access.Operation{access.Read}},
		{"write", access.Topic, s.Write, []access.Operation{access.Write}},
		{"admin", access.Topic, s.Admin, adminOperations},
		{"groups", access.Group, s.Groups, []access.Operation{access.Read, access.Delete}},
		{"triggers", access.Trigger, s.Triggers, []access.Operation{access.All}},
		{"metrics", access.Metrics, onlyIf(s.Metrics, access.MetricsName), []access.Operation{access.Describe}},
		{"cluster", access.Cluster, onlyIf(s.Cluster, access.ClusterName), []access.Operation{access.All}},
	} {
		for _, text := range scope.patterns {
			name, prefix, err := access.ParsePattern(text)
			if err != nil {
				return nil, invalid(scope.field, "pattern %.80q: %v", text, err)
			}
			for _, o := range scope.operations {
				rules = append(rules, access.Rule{Resource: scope.resource, Name: name, Prefix: prefix, Operation: o, Host: access.Any})
			}
		}
	}
	return rules, nil
}

// The presets of tokens: for a person who looks, and for one who runs what is on the broker. Neither
// may see or change tokens, rules and quotas.
const (
	Viewer   = "viewer"
	Operator = "operator"
)

// OwnTopics are the topics of Seb itself that presets cover. The topic of triggers is none of them,
// because it can hold secrets of webhooks, nor is that of audit records.
type OwnTopics struct{ Events, Firings string }

// PresetRules returns the rules of a preset, without a principal; "" has none. The error is a
// *state.InvalidError.
func PresetRules(preset string, own OwnTopics) ([]access.Rule, error) {
	var rules []access.Rule
	allow := func(t access.ResourceType, name string, operations ...access.Operation) {
		for _, o := range operations {
			rules = append(rules, access.Rule{Resource: t, Name: name, Operation: o, Host: access.Any})
		}
	}
	switch preset {
	case "":
		return nil, nil
	case Viewer:
		for _, topic := range []string{access.Any, own.Events, own.Firings} {
			allow(access.Topic, topic, access.Read, access.DescribeConfigs)
		}
		allow(access.Group, access.Any, access.Describe)
		allow(access.TransactionalID, access.Any, access.Describe)
		allow(access.Trigger, access.Any, access.Read)
	case Operator:
		allow(access.Topic, access.Any, access.All)
		allow(access.Topic, own.Events, access.All)
		allow(access.Topic, own.Firings, access.Read, access.DescribeConfigs)
		allow(access.Group, access.Any, access.All)
		allow(access.TransactionalID, access.Any, access.All)
		allow(access.Trigger, access.Any, access.All)
	default:
		return nil, invalid("preset", "%.40q: want %s or %s", preset, Viewer, Operator)
	}
	allow(access.Metrics, access.MetricsName, access.Describe)
	return rules, nil
}

func onlyIf(given bool, name string) []string {
	if given {
		return []string{name}
	}
	return nil
}

// ParseRule returns a rule of the API. It does not check whether the rule can match something. The
// error is a *state.InvalidError.
func ParseRule(r *api.Rule) (out access.Rule, err error) {
	out = access.Rule{Principal: r.Principal, Deny: r.Deny, Host: r.Host}
	out.Host = cmp.Or(out.Host, access.Any)
	if out.Resource, err = access.ParseResourceType(r.Resource); err != nil {
		return out, invalid("resource", "%v", err)
	}
	if out.Operation, err = access.ParseOperation(r.Operation); err != nil {
		return out, invalid("operation", "%v", err)
	}
	if out.Name, out.Prefix, err = access.ParsePattern(r.Pattern); err != nil {
		return out, invalid("pattern", "%.80q: %v", r.Pattern, err)
	}
	return out, nil
}

// ParseRules is ParseRule for a list. An error names the index of the invalid rule.
func ParseRules(list []api.Rule) ([]access.Rule, error) {
	out := make([]access.Rule, len(list))
	for i := range list {
		var err error
		if out[i], err = ParseRule(&list[i]); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i, err)
		}
	}
	return out, nil
}

// WireRules returns rules in the form of the API.
func WireRules(list []access.Rule) []api.Rule {
	out := make([]api.Rule, len(list))
	for i := range list {
		r := &list[i]
		out[i] = api.Rule{Principal: r.Principal, Resource: r.Resource.String(), Pattern: r.Pattern(), Operation: r.Operation.String(), Deny: r.Deny}
		if r.Host != access.Any {
			out[i].Host = r.Host
		}
	}
	return out
}
