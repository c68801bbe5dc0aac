package secrets_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/triggers/secrets"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

var (
	place   = secrets.Place{Cluster: "0123", Trigger: "t"}
	deliver = []byte(`{"url":"https://x.example/h","secrets":["whsec_AAAA","whsec_BBBB"],"headers":{"Authorization":"Bearer CANARY","X-Key":"k<&"},"template":"{{.Entity}}"}`)
)

func ring(t *testing.T, keys ...*secrets.Key) *secrets.Ring {
	t.Helper()
	text := "# a comment\n\n"
	for _, k := range keys {
		text += "  " + k.Reveal() + "  # " + k.ID().String() + "\r\n"
	}
	r := must.Get(secrets.Parse(text))(t)
	return r
}

func sealed(t *testing.T, r *secrets.Ring) []byte {
	t.Helper()
	b := must.Get(r.Seal(place, deliver))(t)
	return b
}

func TestSealedValuesAreNotReadable(t *testing.T) {
	k := secrets.NewKey()
	r := ring(t, k)
	b := sealed(t, r)
	for _, value := range []string{"AAAA", "BBBB", "CANARY", "k<&", "k\\u003c"} {
		if bytes.Contains(b, []byte(value)) {
			t.Errorf("%q is in %s", value, b)
		}
	}
	for _, same := range []string{`"url":"https://x.example/h"`, `"template":"{{.Entity}}"`, `"Authorization"`} {
		if !bytes.Contains(b, []byte(same)) {
			t.Errorf("%s is not in %s", same, b)
		}
	}
	check.Equalf(t, secrets.Inspect(b), secrets.Status{Sealed: true, Key: k.ID()}, "status")
	check.Equalf(t, secrets.Inspect(deliver), secrets.Status{Readable: true}, "status of readable values")
	open, err := r.Open(place, b)
	if err != nil || !secrets.Same(open, deliver) || secrets.Inspect(open) != (secrets.Status{Readable: true}) {
		t.Errorf("opened: %s, %v", open, err)
	}
	if again := sealed(t, r); bytes.Equal(again, b) {
		t.Error("two encryptions are equal")
	}
	if len(b) > len(deliver)+secrets.GrowthMax {
		t.Errorf("%d bytes of %d", len(b), len(deliver))
	}
}

// TestDeliverWithoutValuesStays: sections without values have no encrypted form.
func TestDeliverWithoutValuesStays(t *testing.T) {
	for _, text := range []string{"", "null", `{"topic":"x"}`, `{"url":"https://x","secrets":[],"headers":{}}`, `[1]`, `{"secrets":"x"}`} {
		check.Equalf(t, secrets.Inspect([]byte(text)), secrets.Status{}, "%s", text)
		if b, err := (*secrets.Ring)(nil).Open(place, []byte(text)); err != nil || string(b) != text {
			t.Errorf("%s: opened as %s, %v", text, b, err)
		}
	}
}

// TestOddSpellings: encoding/json ignores the case of members and uses the last of several, so no
// spelling leaves a value readable, and the order of others stays.
func TestOddSpellings(t *testing.T) {
	r := ring(t, secrets.NewKey())
	text := []byte(`{"url":"https://a","SECRETS":["CANARY-1"],"secrets":["CANARY-2"],"Headers":{"A":"CANARY-3"},"headers":{"B":"CANARY-4"},"URL":"https://b","\u017fecrets":["CANARY-5"]}`)
	b, err := r.Seal(place, text)
	if err != nil || bytes.Contains(b, []byte("CANARY")) {
		t.Fatalf("%s, %v", b, err)
	}
	open, err := r.Open(place, b)
	if err != nil || !secrets.Same(open, text) {
		t.Errorf("opened as %s, %v", open, err)
	}
}

func TestEveryChangedByteIsNoticed(t *testing.T) {
	r := ring(t, secrets.NewKey())
	b := sealed(t, r)
	var members struct {
		Secrets []string          `json:"secrets"`
		Headers map[string]string `json:"headers"`
		Wrap    string            `json:"sealed_by"`
	}
	must.NoError(t, json.Unmarshal(b, &members))
	for _, value := range append(slices.Clone(members.Secrets), members.Wrap, members.Headers["X-Key"]) {
		for i := range value {
			for _, with := range []byte{value[i] ^ 1, value[i] ^ 0x20, 'A'} {
				changed := value[:i] + string(with) + value[i+1:]
				if changed == value || strings.ContainsAny(string(with), "\"\\\x7f") || with < ' ' {
					continue
				}
				open, err := r.Open(place, bytes.Replace(b, []byte(value), []byte(changed), 1))
				if !errors.Is(err, secrets.ErrDamaged) && !errors.Is(err, secrets.ErrNoKey) {
					t.Fatalf("%s: %s instead of %s: %s, %v", b, changed, value, open, err)
				}
				if strings.Contains(err.Error(), "CANARY") {
					t.Fatalf("value in the error: %v", err)
				}
			}
		}
		check.ErrorIsf(t, check.Err(r.Open(place, bytes.Replace(b, []byte(value), []byte(value[:len(value)-2]), 1))), secrets.ErrDamaged, "a cut value")
	}
}

func TestValuesAreBoundToTheirPlace(t *testing.T) {
	r := ring(t, secrets.NewKey())
	b := sealed(t, r)
	moved := func(name string, p secrets.Place, text []byte) {
		t.Helper()
		check.ErrorIsf(t, check.Err(r.Open(p, text)), secrets.ErrDamaged, "%s", name)
	}
	moved("another bucket", secrets.Place{Cluster: "0124", Trigger: "t"}, b)
	moved("another trigger", secrets.Place{Cluster: "0123", Trigger: "u"}, b)
	moved("shifted names", secrets.Place{Cluster: "0123t", Trigger: ""}, b)
	moved("another URL", place, bytes.Replace(b, []byte("x.example"), []byte("y.example"), 1))
	moved("another header", place, bytes.Replace(b, []byte("Authorization"), []byte("Authorisation"), 1))
	var m map[string]any
	must.NoError(t, json.Unmarshal(b, &m))
	list := m["secrets"].([]any)
	list[0], list[1] = list[1], list[0]
	swapped, _ := json.Marshal(m)
	moved("exchanged secrets", place, swapped)
	list[0], list[1] = list[1], "whsec_AAAA"
	mixed, _ := json.Marshal(m)
	moved("a readable value among encrypted ones", place, mixed)
	if s := secrets.Inspect(mixed); !s.Readable || !s.Sealed {
		t.Errorf("mixed: %+v", s)
	}
}

func TestRewrap(t *testing.T) {
	oldKey, newKey := secrets.NewKey(), secrets.NewKey()
	b := sealed(t, ring(t, oldKey))
	if _, err := ring(t, newKey).Open(place, b); !errors.Is(err, secrets.ErrNoKey) || !strings.Contains(err.Error(), oldKey.ID().String()) {
		t.Errorf("with another key: %v", err)
	}
	both := ring(t, newKey, oldKey)
	again := must.Get(both.Rewrap(place, b))(t)
	check.Equalf(t, secrets.Inspect(again).Key, newKey.ID(), "key")
	open, err := ring(t, newKey).Open(place, again)
	if err != nil || !secrets.Same(open, deliver) {
		t.Errorf("%s, %v", open, err)
	}
	check.ErrorIsf(t, check.Err(ring(t, newKey).Rewrap(place, b)), secrets.ErrNoKey, "rewrap without the old key")
	if !secrets.Same(b, again) {
		t.Error("the values changed")
	}
}

func TestPrintedKeysAreMasked(t *testing.T) {
	k := secrets.NewKey()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d"} {
		for _, v := range []any{k, *k, ring(t, k)} {
			if text := fmt.Sprintf(verb, v); strings.Contains(text, k.Reveal()[11:40]) {
				t.Errorf("%s of %T: %s", verb, v, text)
			}
		}
	}
}

func TestKeysThatAreRefused(t *testing.T) {
	k := secrets.NewKey().Reveal()
	other := "0"
	if k[20] == '0' {
		other = "1"
	}
	for name, text := range map[string]string{
		"empty": "", "comment": "# " + k, "cut": k[:len(k)-1], "typing error": k[:20] + other + k[21:], "prefix": k[1:],
		"upper case": strings.ToUpper(k), "two in a line": k + " " + k, "too many": manyKeys(17),
	} {
		if _, err := secrets.Parse(text); err == nil {
			t.Errorf("%s: accepted", name)
		} else if strings.Contains(err.Error(), k[11:40]) {
			t.Errorf("%s: key in the error %v", name, err)
		}
	}
	check.Equalf(t, len(ringOf(t, k+"\n"+k).IDs()), 1, "a repeated key counts as")
}

func manyKeys(n int) (text string) {
	for range n {
		text += secrets.NewKey().Reveal() + "\n"
	}
	return text
}

func ringOf(t *testing.T, text string) *secrets.Ring {
	t.Helper()
	r := must.Get(secrets.Parse(text))(t)
	return r
}

// FuzzOpen: no stored section panics, and none that is not the original opens to other values.
func FuzzOpen(f *testing.F) {
	r := must.Get(secrets.Parse(secrets.NewKey().Reveal()))(f)
	b := must.Get(r.Seal(place, deliver))(f)
	for _, text := range []string{string(b), string(deliver), "", "{}", `{"sealed_by":"sebkey1:0000000000000000:"}`, `{"sealed_by":"","secrets":["sebsealed1:"]}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s := secrets.Inspect(text)
		open, err := r.Open(place, text)
		if err == nil && s.Sealed && secrets.Inspect(open).Readable && !secrets.Same(open, deliver) {
			t.Errorf("%q opened as %q", text, open)
		}
		if s.Readable && !s.Sealed {
			sealed, err := r.Seal(place, text)
			must.NoErrorf(t, err, "%q", text)
			if back, err := r.Open(place, sealed); err != nil || !secrets.Same(back, text) {
				t.Errorf("%q: back as %q, %v", text, back, err)
			}
		}
	})
}
