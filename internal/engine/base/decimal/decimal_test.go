package decimal_test

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/base/decimal"
)

// ascending are numbers in ascending order; those of one line are equal.
var ascending = [][]string{
	{"-1e999999999999999999"},
	{"-1e401"},
	{"-12345678901234567891", "-1234567890123456789.1e1"},
	{"-12345678901234567890", "-1234567890123456789e1"},
	{"-1.0000000000000000000000001"},
	{"-1", "-1.0", "-10e-1", "-0.1E1"},
	{"-0.1"},
	{"-1e-999999999999999999"},
	{"0", "-0", "0.00", "-0e5", "0e-999999999999999999", "0e99999999999999999999999"},
	{"1e-400", "0.1e-399"},
	{"0.01", "1e-2", "0.010", "0.1E-1"},
	{"0.1", "0.10", "1e-1", "1e-0000000000000000000001", "100e-3"},
	{"0.10000000000000000000001"},
	{"0.11"},
	{"1", "1.000", "1e0", "1E+00"},
	{"1.1"},
	{"9.99999"},
	{"10", "1e1", "10.0"},
	{"10.01", "1001e-2"},
	{"100", "1e2"},
	{"9007199254740992"},
	{"9007199254740993", "9007199254740993.0", "9.007199254740993e15"},
	{"12345678901234567890", "12345678901234567890.000"},
	{"12345678901234567891", "12345678901234567891e0"},
	{"1e400"},
	{"1e401", "10e400", "0.1e402"},
	{"9e999999998"},
	{"1e999999999", "1000e999999996"},
}

func number(t testing.TB, text string) decimal.Number {
	t.Helper()
	n, ok := decimal.Parse([]byte(text))
	if !ok {
		t.Fatalf("%s is not a number", text)
	}
	return n
}

func TestCompare(t *testing.T) {
	for i, row := range ascending {
		for j, other := range ascending {
			for _, a := range row {
				for _, b := range other {
					want := 0
					if i != j {
						want = 1 - 2*btoi(i < j)
					}
					if got := number(t, a).Compare(number(t, b)); got != want {
						t.Errorf("%s compared with %s is %d, want %d", a, b, got, want)
					}
				}
			}
		}
	}
}

func btoi(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func TestAppend(t *testing.T) {
	for _, row := range ascending {
		want := string(number(t, row[0]).Append(nil))
		for _, text := range row {
			n := number(t, text)
			if got := string(n.Append(nil)); got != want || !json.Valid([]byte(got)) || number(t, got).Compare(n) != 0 {
				t.Errorf("%s is written as %s, want %s", text, got, want)
			}
		}
	}
	for text, want := range map[string]string{
		"-0": "0", "1e20": "100000000000000000000", "1e21": "1e+21", "12.30e2": "1230", "0.00012": "0.00012", "0.000012": "1.2e-5",
		"-123.456": "-123.456", "12345678901234567890": "12345678901234567890", "-1.5e400": "-1.5e+400",
	} {
		if got := string(number(t, text).Append(nil)); got != want {
			t.Errorf("%s is written as %s, want %s", text, got, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, text := range []string{
		"", "-", "+1", ".5", "1.", "01", "-01", "0x10", "1_0", "1e", "1e+", "e5", "1e5.5", "--1", "1 ", "NaN", "1.e5", "1..0", "1e1000000000000000000",
	} {
		if n, ok := decimal.Parse([]byte(text)); ok {
			t.Errorf("%q is read as %s", text, n.Append(nil))
		}
	}
}

func TestCompareDoesNotAllocate(t *testing.T) {
	a, b := []byte("12345678901234567890"), []byte("12345678901234567890.0001e-2")
	if n := testing.AllocsPerRun(100, func() {
		x, _ := decimal.Parse(a)
		y, _ := decimal.Parse(b)
		if x.Compare(y) != 1 {
			t.Error("wrong order")
		}
	}); n > 0 {
		t.Errorf("a comparison allocates %v times", n)
	}
}

func FuzzCompare(f *testing.F) {
	for _, row := range ascending {
		for _, text := range row {
			f.Add(text, "1.5e1")
		}
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, okX := decimal.Parse([]byte(a))
		y, okY := decimal.Parse([]byte(b))
		isNumber := json.Valid([]byte(a)) && strings.Trim(a, "-+.eE0123456789") == ""
		if okX && !isNumber || !okX && isNumber && len(a) < 18 {
			t.Fatalf("%q is a number: %v", a, okX)
		}
		if okX && number(t, string(x.Append(nil))).Compare(x) != 0 {
			t.Fatalf("%s is written as %s", a, x.Append(nil))
		}
		p, okP := rat(a)
		q, okQ := rat(b)
		if okX && okY && okP && okQ && x.Compare(y) != p.Cmp(q) {
			t.Fatalf("%s compared with %s is %d, want %d", a, b, x.Compare(y), p.Cmp(q))
		}
	})
}

// rat returns the value of a number whose exponent is not large.
func rat(text string) (*big.Rat, bool) {
	if i := strings.IndexAny(text, "eE"); i >= 0 && len(strings.TrimLeft(text[i+1:], "+-")) > 3 {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}
