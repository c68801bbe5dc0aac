package query_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/protocols/riemann/query"
	"github.com/sebbroker/seb/test/must"
)

func TestDeepestQuery(t *testing.T) {
	parentheses := strings.Repeat("(", 64) + "a = 1" + strings.Repeat(")", 64)
	flat := strings.Repeat("a and ", 682) + "b" // 4,093 bytes
	for _, text := range []string{parentheses, strings.Repeat("not ", 64) + "a = 1", flat} {
		q, err := query.Parse(text)
		must.NoErrorf(t, err, "%.100s", text)
		if e := with(fields{"a": 1, "b": 1})[0]; !q.Match(e) {
			t.Errorf("%.100s does not match %v", text, e.fields)
		}
	}
}

func TestKey(t *testing.T) {
	for _, c := range []struct {
		text, host, service string
		ok                  bool
	}{
		{`host = "a" and service = "b"`, "a", "b", true},
		{`metric > 1 and "b" = service and "a" = host`, "a", "b", true},
		{`(host = "a") and (service = "b")`, "a", "b", true},
		{`host = "a" and service = ""`, "a", "", true},
		{`host = "a"`, "", "", false},
		{`host = "a" or service = "b"`, "", "", false},
		{`host = "a" and service != "b"`, "", "", false},
		{`host = "a" and not service = "b"`, "", "", false},
		{`host = "a" and service = nil`, "", "", false},
		{`host = service and service = "b"`, "", "", false},
		{`true`, "", "", false},
	} {
		q := must.Get(query.Parse(c.text))(t)
		if host, service, ok := q.Key(); ok != c.ok || ok && (host != c.host || service != c.service) {
			t.Errorf("Key of %s is %q, %q, %v, want %q, %q, %v", c.text, host, service, ok, c.host, c.service, c.ok)
		}
	}
}

func TestNumber(t *testing.T) {
	for _, text := range []string{
		"0", "12", "-12", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "1.5", "-0.1", "123456789012.345",
		"0.00000000000001", "1e3", "1.5E-7", "12345678901234567.25", "3.4028235e38", "12345678901234567890", "1e999", "-1e999", "1e-999",
	} {
		got, ok := query.Number([]byte(text))
		want, _ := strconv.ParseFloat(text, 64)
		exact := strconv.FormatInt(got.Int, 10) == text
		if !ok || got.Kind == query.Float && got.Float != want || got.Kind == query.Integer && !exact {
			t.Errorf("Number(%s) is %+v, %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "-", "a", "01.5", "--1", "NaN", "1e1000000000000000000"} {
		if got, ok := query.Number([]byte(text)); ok {
			t.Errorf("Number(%q) is %+v, want none", text, got)
		}
	}
}

// stored has its values as bytes, as an event in the index does.
type stored struct{ host, state, metric []byte }

func (s *stored) Field(name string) query.Value {
	switch name {
	case "host":
		return query.Value{Kind: query.Text, Text: s.host}
	case "state":
		return query.Value{Kind: query.Text, Text: s.state}
	case "metric":
		v, _ := query.Number(s.metric)
		return v
	}
	return query.Value{}
}

func (s *stored) Tagged(tag string) bool { return tag == "cat" }

func TestComparisonsDoNotAllocate(t *testing.T) {
	q, err := query.Parse(`host =~ "api %" and state = "ok" and not (metric <= 0.25 or metric = nil) and tagged "cat" and state != host`)
	must.NoError(t, err)
	e := &stored{[]byte("api 1"), []byte("ok"), []byte("1.2500000000000000000001")}
	if n := testing.AllocsPerRun(100, func() {
		if !q.Match(e) {
			t.Fatal("no match")
		}
	}); n != 0 {
		t.Errorf("Match allocates %v times, want 0", n)
	}
}

// nested is an expression whose time is exponential with backtracking, and a text of 64 KiB.
func nested(t testing.TB) (*query.Query, query.Event) {
	q := must.Get(query.Parse(`host ~= "(a+)+$"`))(t)
	return q, with(fields{"host": strings.Repeat("a", 64<<10) + "!"})[0]
}

// TestNestedQuantifiers: the time is linear. The bound is far above that, and far below an
// exponential one.
func TestNestedQuantifiers(t *testing.T) {
	q, e := nested(t)
	start := time.Now()
	if q.Match(e) {
		t.Error("it matches")
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("64 KiB took %v", took)
	}
}
