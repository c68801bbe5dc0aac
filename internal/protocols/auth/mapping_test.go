package auth_test

import (
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// attribute is an attribute of a name, with the tag of its value's type.
type attribute struct {
	oid   string
	tag   int
	value string
}

const (
	cn, ou, org, country = "2.5.4.3", "2.5.4.11", "2.5.4.10", "2.5.4.6"
	utf, printable       = asn1.TagUTF8String, asn1.TagPrintableString
)

// subject returns a certificate with a name. Each part is usually one attribute.
func subject(t *testing.T, parts ...[]attribute) *x509.Certificate {
	t.Helper()
	type value struct {
		Type  asn1.ObjectIdentifier
		Value asn1.RawValue
	}
	type valuesSET []value
	name := make([]valuesSET, len(parts))
	for i, part := range parts {
		for _, a := range part {
			var oid asn1.ObjectIdentifier
			for n := range strings.SplitSeq(a.oid, ".") {
				var number int
				must.Get(fmt.Sscan(n, &number))(t)
				oid = append(oid, number)
			}
			name[i] = append(name[i], value{oid, asn1.RawValue{Tag: a.tag, Bytes: []byte(a.value)}})
		}
	}
	der := must.Get(asn1.Marshal(name))(t)
	return &x509.Certificate{RawSubject: der, SerialNumber: big.NewInt(7)}
}

func one(oid string, tag int, value string) []attribute { return []attribute{{oid, tag, value}} }

// duke is a certificate of CN=Duke,OU=Service Users,O=Acme,C=US.
func duke(t *testing.T, cnValue string) *x509.Certificate {
	t.Helper()
	return subject(t, one(country, printable, "US"), one(org, utf, "Acme"), one(ou, utf, "Service Users"), one(cn, utf, cnValue))
}

// TestNamesOfCertificates: the texts are those of Java's X500Principal.getName (OpenJDK 17).
func TestNamesOfCertificates(t *testing.T) {
	m := must.Get(auth.ParseMapping("RULE:no such name/x/"))(t)
	for want, parts := range javaNames {
		_, err := m.Principal(subject(t, parts...))
		check.ErrorContainsf(t, err, fmt.Sprintf("certificate name %q ", want), "want %q in", want)
	}
	check.Error(t, check.Err(m.Principal(&x509.Certificate{RawSubject: []byte{1, 2}, SerialNumber: big.NewInt(7)})), "a malformed name is accepted")
}

var javaNames = map[string][][]attribute{
	"":                                     {},
	"CN=Duke,OU=Service Users,O=Acme,C=US": {one(country, printable, "US"), one(org, utf, "Acme"), one(ou, utf, "Service Users"), one(cn, utf, "Duke")},
	"CN=shop,DC=example,DC=com": {
		one("0.9.2342.19200300.100.1.25", asn1.TagIA5String, "com"), one("0.9.2342.19200300.100.1.25", asn1.TagIA5String, "example"), one(cn, printable, "shop"),
	},
	"CN=shop+UID=u1": {{{cn, utf, "shop"}, {"0.9.2342.19200300.100.1.1", utf, "u1"}}},
	"CN=two,CN=one":  {one(cn, utf, "one"), one(cn, utf, "two")},
	"CN=shop,1.2.840.113549.1.9.1=#16056140622e63": {one("1.2.840.113549.1.9.1", asn1.TagIA5String, "a@b.c"), one(cn, printable, "shop")},
	"L=L,ST=ZH,STREET=Street 1,2.5.4.17=#130438303030,2.5.4.5=#13023737": {
		one("2.5.4.5", printable, "77"), one("2.5.4.17", printable, "8000"), one("2.5.4.9", utf, "Street 1"), one("2.5.4.8", utf, "ZH"), one("2.5.4.7", utf, "L"),
	},
	"CN=#1203313233":   {one(cn, asn1.TagNumericString, "123")},
	"CN=gen":           {one(cn, asn1.TagGeneralString, "gen")},
	"CN=":              {one(cn, utf, "")},
	`CN=\ `:            {one(cn, utf, " ")},
	`CN=\ \ `:          {one(cn, utf, "  ")},
	`CN=\ lead`:        {one(cn, utf, " lead")},
	`CN=trail\ `:       {one(cn, utf, "trail ")},
	`CN=x  y`:          {one(cn, utf, "x  y")},
	`CN=a\,b\+c\=d\#e`: {one(cn, utf, "a,b+c=d#e")},
	`CN=\"\<\>\;\\`:    {one(cn, utf, `"<>;\`)},
	`CN=a\00b`:         {one(cn, utf, "a\x00b")},
	"CN=a\nb":          {one(cn, utf, "a\nb")},
	"CN=\\\rx\\\r":     {one(cn, utf, "\rx\r")},
	"CN=ü€/1":          {one(cn, utf, "ü€/1")},
}

func TestMapping(t *testing.T) {
	for _, c := range []struct{ rules, name, want string }{
		{"RULE:^CN=(.*?),OU=Service Users.*$/$1/L", "Duke", "duke"},
		{"RULE:^CN=(.*?),.*$/$1/U", "Duke", "DUKE"},
		{"RULE:^CN=(.*?),.*$/$1/", "Duke", "Duke"},
		{"DEFAULT, RULE:.*/x/", "Duke", ""}, // DEFAULT matches every name
		{"RULE:^O=.*$/other/ , ,, RULE:^CN=(.*?),OU=(\\w+) .*,C=(.*?)$/$1@$2.$3/L", "Duke", "duke@service.us"},
		{"RULE:^CN=(.*?),.*$/$1/,DEFAULT", "Duke", "Duke"},
		{"RULE:CN=([a-z]+),.*/$1/, RULE:.*,C=(U)(S)/$2$12$3-$0/", "Duke", ""}, // $0 is the whole name
		{"RULE:.*,C=(U)(S)/$2$12$3/", "Duke", "SU2$3"},
		{`RULE:^CN=(.*?),.*$/a\$1\/$1/`, "Duke", "a$1/Duke"},
		{`RULE:^CN=(.*?)\/prod,.*$/$1/`, "duke/prod", "duke"},
		{`RULE:CN=((\\, *|\w)+)(,.*|$)/$1/`, "Tkac, Adam", ""}, // the result has a space
		{"RULE:CN=Duke/$0/", "Duke", ""},                       // a rule matches whole names
		{"RULE:^CN=(.*?),.*$/$1/L", "SEB", ""},                 // the root key
		{"RULE:^CN=(.*?),.*$/$1/", "seb", ""},
		{"RULE:^CN=(.*?),.*$/$1/", "*", ""}, // any principal
		{"RULE:^CN=(.*?),.*$/$1/", "", ""},
		{"RULE:^CN=(.*?),.*$/$1/", strings.Repeat("a", 64), strings.Repeat("a", 64)},
		{"RULE:^CN=(.*?),.*$/$1/", strings.Repeat("a", 65), ""},
		{"RULE:^CN=(.*?),.*$/$1/L", "\u212Aate", ""}, // its lower case would be "kate"
		{"RULE:^CN=(.*?),.*$/$1/", "sh\x00op", ""},
		{"RULE:^CN=(.*?),.*$/$1/", "a\nb", ""},
	} {
		m, err := auth.ParseMapping(c.rules)
		if err != nil {
			t.Errorf("%s: %v", c.rules, err)
			continue
		}
		got, err := m.Principal(duke(t, c.name))
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s maps %q to %q, %v; want %q", c.rules, c.name, got, err, c.want)
		}
	}
}

// TestTheMissingRule: the error has a rule that is right for the certificate.
func TestTheMissingRule(t *testing.T) {
	m := must.Get(auth.ParseMapping("RULE:^CN=(.*?),O=Other$/$1/"))(t)
	for _, name := range []string{"Duke", "a/b", `a\b,"c"`, "(.*)"} {
		_, err := m.Principal(duke(t, name))
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Fatal(err)
		}
		_, rule, _ := strings.Cut(err.Error(), "such as ")
		rule, _, _ = strings.Cut(rule, " to --tls-principal-mapping")
		more, err := auth.ParseMapping(strings.Replace(rule, "PRINCIPAL", "duke-1", 1))
		must.NoErrorf(t, err, "%s", rule)
		if id, err := more.Principal(duke(t, name)); id != "duke-1" {
			t.Errorf("%s maps %q to %q, %v", rule, name, id, err)
		}
	}
}

func TestInvalidMappings(t *testing.T) {
	for rules, want := range map[string]string{
		"":                          "RULE:^CN=",
		" , ,":                      "RULE:^CN=",
		"DEFAULT":                   "RULE:^CN=",
		"default":                   "rule 1",
		"DEFAUL":                    "rule 1",
		"DEFAULT/L":                 `"/L" after its end`,
		"RULE:CN=(.*?),OU=S.*/$1":   "RULE:pattern/replacement/",
		"rule:^CN=(.*?),OU=S.*/$1/": "rule 1",
		"RULE:^CN=(.*?)$/$1/L/U":    `"/U" after its end`,
		"RULE:^CN=(.*?)$/L":         "RULE:pattern/replacement/",
		"RULE:^CN=(.*?)$/$1/LU":     `"U" after its end`,
		"RULE:a/b/ RULE:c/d/":       "after its end",
		"RULE:a/b/,RULE:(/x/":       "rule 2: error parsing regexp: missing closing ): `(`",
		"RULE:(?=a)/x/":             "rule 1: error parsing regexp",
		"RULE:CN=a/$1/":             "has no group",
		"RULE:CN=(a)/$/":            "number after $",
		"RULE:CN=(a)/${x}/":         "number after $",
	} {
		_, err := auth.ParseMapping(rules)
		check.ErrorContainsf(t, err, want, "%q", rules)
		if strings.TrimLeft(rules, " ,") == "" && !errors.Is(err, auth.ErrMapping) {
			t.Errorf("%q: %v", rules, err)
		}
	}
}

// FuzzMapping: no rules and no name make a principal with an ID that principals cannot have.
func FuzzMapping(f *testing.F) {
	f.Add("RULE:^CN=(.*?),.*$/$1/L, DEFAULT", "Duke")
	f.Add(`RULE:(.)(.)/$2\/$12$0/U`, "s/eb")
	f.Fuzz(func(t *testing.T, rules, name string) {
		m, err := auth.ParseMapping(rules)
		if err != nil {
			return
		}
		id, err := m.Principal(duke(t, name))
		if (err == nil) != (id != "") || id == "seb" || len(id) > 64 || strings.ContainsAny(id, " *,=:\"\\\n") {
			t.Errorf("%q maps %q to %q, %v", rules, name, id, err)
		}
	})
}
