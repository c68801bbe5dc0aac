package access_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/sebtest"
)

func rule(principal string, t access.ResourceType, pattern string, o access.Operation) access.Rule {
	name, prefix := strings.CutSuffix(pattern, "*")
	if name == "" {
		name, prefix = access.Any, false
	}
	return access.Rule{Principal: principal, Resource: t, Name: name, Prefix: prefix, Operation: o, Host: access.Any}
}

func deny(r access.Rule) access.Rule { r.Deny = true; return r }

func from(r access.Rule, host string) access.Rule { r.Host = host; return r }

func tableOf(rules ...access.Rule) *access.Table {
	t := &access.Table{}
	t.Apply(&access.Change{Put: []access.Principal{{ID: "ann", Secrets: []access.Secret{{ID: 1}}}}, PutRules: rules})
	return t
}

func TestRules(t *testing.T) {
	const topic, group = access.Topic, access.Group
	for _, c := range []struct {
		name    string
		rules   []access.Rule
		allowed []string // operation type/name
		refused []string
	}{
		{"nothing is allowed without a rule", nil, nil, []string{"read topic/a", "describe topic/a"}},
		{"an exact name", []access.Rule{rule("ann", topic, "a", access.Read)}, []string{"read topic/a", "describe topic/a"}, []string{"write topic/a", "read topic/ab", "read group/a"}},
		{"a prefix", []access.Rule{rule("ann", topic, "a.*", access.Write)}, []string{"write topic/a.", "write topic/a.b", "describe topic/a.b"}, []string{"write topic/a", "read topic/a.b"}},
		{"every name", []access.Rule{rule("ann", group, "*", access.Read)}, []string{"read group/x"}, []string{"read topic/x", "delete group/x"}},
		{"all operations", []access.Rule{rule("ann", topic, "a", access.All)}, []string{"read topic/a", "delete topic/a", "alter-configs topic/a"}, []string{"read topic/b"}},
		{"rules for every principal", []access.Rule{rule("*", topic, "a", access.Read)}, []string{"read topic/a"}, nil},
		{"rules for another principal", []access.Rule{rule("bob", topic, "a", access.Read)}, nil, []string{"read topic/a"}},
		{
			"a denial wins",
			[]access.Rule{rule("ann", topic, "*", access.All), deny(rule("ann", topic, "secret.*", access.Read))},
			[]string{"read topic/a", "write topic/secret.x", "describe topic/secret.x"},
			[]string{"read topic/secret.x"},
		},
		{
			"a denial for every principal wins",
			[]access.Rule{rule("ann", topic, "a", access.Read), deny(rule("*", topic, "*", access.All))},
			nil,
			[]string{"read topic/a", "describe topic/a"},
		},
		{
			"internal topics need their name",
			[]access.Rule{rule("ann", topic, "*", access.Read), rule("ann", topic, "fir*", access.Read)},
			[]string{"read topic/fir"},
			[]string{"read topic/firings"},
		},
		{"internal topics by name", []access.Rule{rule("ann", topic, "firings", access.Read)}, []string{"read topic/firings"}, nil},
		{"rules of another host", []access.Rule{from(rule("ann", topic, "a", access.Read), "192.0.2.9")}, nil, []string{"read topic/a"}},
		{"rules of the host", []access.Rule{from(rule("ann", topic, "a*", access.Read), "192.0.2.1")}, []string{"read topic/ab"}, nil},
		{
			"a denial of the host",
			[]access.Rule{rule("ann", topic, "a", access.Read), deny(from(rule("ann", topic, "a", access.Read), "192.0.2.1"))},
			nil,
			[]string{"read topic/a"},
		},
		{"implied configs", []access.Rule{rule("ann", topic, "a", access.AlterConfigs)}, []string{"describe-configs topic/a"}, []string{"describe topic/a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := tableOf(c.rules...)
			g := table.Compile("ann")
			for want, list := range map[bool][]string{true: c.allowed, false: c.refused} {
				for _, text := range list {
					q := request(t, text)
					check.Equalf(t, g.Allow(q, "192.0.2.1"), want, "%s: allowed", text)
				}
			}
		})
	}
}

func request(t *testing.T, text string) access.Request {
	op, resource, _ := strings.Cut(text, " ")
	typ, name, _ := strings.Cut(resource, "/")
	o, err := access.ParseOperation(op)
	r, err2 := access.ParseResourceType(typ)
	if err = errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return access.Request{Operation: o, Resource: r, Name: name, Internal: r == access.Topic && internal(name)}
}

func internal(topic string) bool { return topic == "firings" }

// TestCoversIsWhatIsAllowed compares Covers with decisions about every name of a small alphabet: a
// rule is covered only if the principal may do everything that the rule alone allows.
func TestCoversIsWhatIsAllowed(t *testing.T) {
	const seed = 22
	r := rand.New(rand.NewPCG(seed, 0))
	names := []string{"a", "b", "aa", "ab", "ba", "bb", "aab", "firings"}
	patterns := append([]string{"*", "a*", "b*", "aa*", "fir*"}, names...)
	ops := []access.Operation{access.Read, access.Write, access.Describe, access.All}
	random := func(principal string) access.Rule {
		return rule(principal, access.Topic, patterns[r.IntN(len(patterns))], ops[r.IntN(len(ops))])
	}
	covered := 0
	n := sebtest.Runs(50_000, 10_000)
	for range n {
		var rules []access.Rule
		for range r.IntN(4) {
			rules = append(rules, random("ann"))
		}
		for range r.IntN(3) {
			d := deny(random("ann"))
			if r.IntN(4) == 0 {
				d.Host = "192.0.2.1"
			}
			rules = append(rules, d)
		}
		given := random("bob")
		ann, bob := tableOf(rules...).Compile("ann"), tableOf(given).Compile("bob")
		if !ann.Covers(&given, internal) {
			continue
		}
		covered++
		for _, name := range names {
			for _, o := range access.OperationsOf(access.Topic) {
				q := access.Request{Operation: o, Resource: access.Topic, Name: name, Internal: internal(name)}
				if bob.Allow(q, "192.0.2.1") && !ann.Allow(q, "192.0.2.1") {
					t.Fatalf("%s covers %s, but only the latter allows %s of %q (seed %d)", fmt.Sprint(rules), given, o, name, seed)
				}
			}
		}
	}
	if covered < n/50 {
		t.Errorf("only %d of the rules were covered: the test examines too little", covered)
	}
}

// TestAllowSomeIsWhatIsAllowed compares AllowSome with decisions about every name of a small
// alphabet. Rules do not use its last letter, so the prefixes of denials never exclude every
// continuation of a name.
func TestAllowSomeIsWhatIsAllowed(t *testing.T) {
	const seed, host = 23, "192.0.2.1"
	r := rand.New(rand.NewPCG(seed, 0))
	short := []string{"a", "b", "aa", "ab", "ba", "bb"}
	names := []string{"firings", "firc"}
	for _, name := range append([]string{""}, short...) {
		names = append(names, name+"a", name+"b", name+"c")
	}
	patterns := append([]string{"*", "a*", "b*", "aa*", "ab*", "fir*", "firings"}, short...)
	ops := []access.Operation{access.Read, access.Write, access.Describe, access.All}
	some := map[bool]int{}
	for range 20_000 {
		var rules []access.Rule
		for n := range 1 + r.IntN(5) {
			one := rule([]string{"ann", "*"}[r.IntN(2)], access.Topic, patterns[r.IntN(len(patterns))], ops[r.IntN(len(ops))])
			one.Deny = n > 0 && r.IntN(3) > 0
			one.Host = []string{"*", "*", host, "192.0.2.2"}[r.IntN(4)]
			rules = append(rules, one)
		}
		g := tableOf(rules...).Compile("ann")
		for _, o := range ops[:3] {
			want := slices.ContainsFunc(names, func(name string) bool {
				return g.Allow(access.Request{Operation: o, Resource: access.Topic, Name: name, Internal: internal(name)}, host)
			})
			if got := g.AllowSome(o, access.Topic, host, internal); got != want {
				t.Fatalf("%v: some topic for %s: %v, want %v (seed %d)", rules, o, got, want, seed)
			}
			some[want]++
		}
	}
	if some[true] < 5000 || some[false] < 5000 {
		t.Errorf("answers %v: the test examines too little", some)
	}
	if (*access.Grants)(nil).AllowSome(access.Read, access.Topic, host, internal) {
		t.Error("the nil Grants allow something")
	}
}

func TestChecksOfStoredRequests(t *testing.T) {
	q := access.Request{Operation: access.Write, Resource: access.Topic, Name: "a"}
	write := rule("ann", access.Topic, "a", access.Write)
	for _, c := range []struct {
		name        string
		change      access.Change
		want        bool
		certificate bool // without a secret only the rules count
	}{
		{"no change", access.Change{Used: []access.Use{{Principal: "ann", Secret: 1, Time: 5}}}, true, true},
		{"an unrelated rule", access.Change{PutRules: []access.Rule{rule("bob", access.Topic, "b", access.Read)}}, true, true},
		{"the principal is deleted", access.Change{Delete: []string{"ann"}}, false, true},
		{"the rule is deleted", access.Change{DeleteRules: []access.Rule{write}}, false, false},
		{"a denial", access.Change{PutRules: []access.Rule{deny(rule("*", access.Topic, "*", access.Write))}}, false, false},
		{"another secret", access.Change{Put: []access.Principal{{ID: "ann", Secrets: []access.Secret{{ID: 2}}}}}, false, true},
		{"a new principal of the same name", access.Change{Delete: []string{"ann"}, Put: []access.Principal{{ID: "ann", Secrets: []access.Secret{{ID: 3}}}}}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := tableOf(write)
			verify := &access.Check{Principal: "ann", Secret: 1, Version: table.Version, Host: "h", Request: q}
			committed := table.Share()
			table.Apply(&c.change)
			check.Equalf(t, table.Permits(verify), c.want, "permitted")
			if table.Permits(verify) != c.want || !table.Permits(nil) {
				t.Error("the second decision differs")
			}
			verify.Secret = 0
			if got := table.Permits(verify); got != c.certificate {
				t.Errorf("permitted %v with a certificate, want %v", got, c.certificate)
			}
			if !committed.Compile("ann").Allow(q, "h") {
				t.Error("the change reached a shared copy")
			}
		})
	}
}

func TestTokens(t *testing.T) {
	secret := "abcdefghijklmnopqrstuvwxyz234567"
	token := access.FormatToken("orders-1.x", secret)
	if id, err := access.ParseToken(token); err != nil || id != "orders-1.x" {
		t.Fatalf("ParseToken(%q) = %q, %v", token, id, err)
	}
	for i := range len(token) { // a wrong character
		bad := token[:i] + "!" + token[i+1:]
		want := access.ErrMistyped
		if i < len(access.TokenPrefix) {
			want = access.ErrNotToken
		}
		check.ErrorIsf(t, check.Err(access.ParseToken(bad)), want, "%q", bad)
		if i >= len(access.TokenPrefix) { // cut off
			check.ErrorIsf(t, check.Err(access.ParseToken(token[:i])), access.ErrMistyped, "%q", token[:i])
		}
	}
	for _, bad := range []string{"", "seb_", "seb___", "key", token + "0", strings.Repeat("seb_a", 100)} {
		check.Error(t, check.Err(access.ParseToken(bad)), "%q is a token", bad)
	}
	for id, want := range map[string]bool{"seb": false, "": false, "a": true, "A": false, "a_b": false, strings.Repeat("a", 65): false} {
		check.Equalf(t, access.ValidTokenID(id), want, "ID %q: valid %v", id, !want)
	}
}

func TestLimits(t *testing.T) {
	table := &access.Table{}
	for i := range access.RulesMax {
		table.Apply(&access.Change{PutRules: []access.Rule{rule("ann", access.Topic, fmt.Sprint("t", i), access.Read)}})
	}
	more := access.Change{PutRules: []access.Rule{rule("ann", access.Topic, "more", access.Read)}}
	same := access.Change{PutRules: []access.Rule{rule("ann", access.Topic, "t0", access.Read)}}
	if table.Fits(&more) || !table.Fits(&same) {
		t.Errorf("%d rules: one more fits %v, a known one %v", access.RulesMax, table.Fits(&more), table.Fits(&same))
	}
	if principals, rules := table.Len(); principals != 0 || rules != access.RulesMax {
		t.Errorf("%d principals, %d rules", principals, rules)
	}
}

func TestQuotaFor(t *testing.T) {
	table := &access.Table{}
	table.Apply(&access.Change{PutQuotas: []access.Quota{{Principal: access.Any, Requests: 1}, {Principal: "ann", ProduceBytes: 2}}})
	before := table.Share()
	for principal, want := range map[string]access.Quota{"ann": {Principal: "ann", ProduceBytes: 2}, "bob": {Principal: access.Any, Requests: 1}} {
		check.Equalf(t, table.QuotaFor(principal), want, "quota of %s", principal)
	}
	table.Apply(&access.Change{DeleteQuotas: []string{access.Any, "unknown"}, PutQuotas: []access.Quota{{Principal: "ann", Requests: 3}}})
	if got := table.Quotas(); len(got) != 1 || got[0] != (access.Quota{Principal: "ann", Requests: 3}) || table.Memory() <= 0 {
		t.Errorf("quotas %+v", got)
	}
	if got := table.QuotaFor("bob"); got.Limits() {
		t.Errorf("quota of bob after the default was deleted: %+v", got)
	}
	if got := before.QuotaFor("ann"); got.ProduceBytes != 2 {
		t.Errorf("a shared table changed: %+v", got)
	}
	table.Apply(&access.Change{DeleteQuotas: []string{"ann"}})
	check.Equalf(t, table.Memory(), 0, "bytes without entries")
}

func TestQuotaCheck(t *testing.T) {
	for _, c := range []struct {
		q    access.Quota
		want string
	}{
		{access.Quota{Principal: "a/b", Requests: access.RateMax}, ""},
		{access.Quota{Principal: access.Any, FetchBytes: 1}, ""},
		{access.Quota{Principal: "seb", FetchBytes: 1}, "the root key has no quota"},
		{access.Quota{Principal: "", FetchBytes: 1}, "want an ID"},
		{access.Quota{Principal: "ann"}, "at least one limit"},
		{access.Quota{Principal: "ann", ProduceBytes: access.RateMax + 1}, "limit 1099511627777 per second: the highest is 1099511627776"},
	} {
		err := c.q.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.q, err, c.want)
		}
	}
}
