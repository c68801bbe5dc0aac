package httpconn

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
)

func TestParamsFaultNamesParameter(t *testing.T) {
	read := func(raw string) (string, *api.Problem) {
		q := ParseParams(raw)
		got := fmt.Sprint(q.Topic(), q.Offset(), q.Number(ParamMaxRecords, 10, math.MaxInt64), q.Duration(ParamTimeout, 10*time.Second, 5*time.Minute),
			q.Partition(), q.Latest())
		return got, q.Fault
	}
	for raw, want := range map[string]string{
		"topic-name=a&offset=5":                                 "a5 10 10s -1 false",
		"topic-name=a.B_-9&offset=0&max-records=0&timeout=0s":   "a.B_-9 0 0 0s -1 false",
		"topic-name=a&offset=9223372036854775807&timeout=1000h": "a9223372036854775807 10 5m0s -1 false",
		// Offsets from 2^63 on are beyond any end.
		"topic-name=a&offset=9223372036854775808":                "a9223372036854775807 10 10s -1 false",
		"topic-name=a&offset=18446744073709551615":               "a9223372036854775807 10 10s -1 false",
		"topic-name=a&offset=1&partition=2147483647&read=latest": "a1 10 10s 2147483647 true",
	} {
		got, fault := read(raw)
		if fault != nil || strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
			t.Errorf("%s: %s (%v), want %s", raw, got, fault, want)
		}
	}
	for raw, field := range map[string]string{
		"offset=5":                                      "topic-name",
		"topic-name=&offset=5":                          "topic-name",
		"topic-name=../../evil&offset=5":                "topic-name",
		"topic-name=..&offset=5":                        "topic-name",
		"topic-name=a%00b&offset=5":                     "topic-name",
		"topic-name=%2e%2e%2fevil&offset=5":             "topic-name",
		"topic-name=a&topic-name=a&offset=5":            "topic-name",
		"topic-name=" + strings.Repeat("a", 250):        "topic-name",
		"topic-name=a":                                  "offset",
		"topic-name=a&offset=":                          "offset",
		"topic-name=a&offset=-1":                        "offset",
		"topic-name=a&offset=1.5":                       "offset",
		"topic-name=a&offset=18446744073709551616":      "offset",
		"topic-name=a&offset=%2B1":                      "offset",
		"topic-name=a&offset=+1":                        "offset",
		"topic-name=a&offset=1&max-records=%2B1":        "max-records",
		"topic-name=a&offset=1&max-records=x":           "max-records",
		"topic-name=a&offset=1&max-records=-1":          "max-records",
		"topic-name=a&offset=1&timeout=10":              "timeout",
		"topic-name=a&offset=1&timeout=-1s":             "timeout",
		"topic-name=a&offset=1&partition=-1":            "partition",
		"topic-name=a&offset=1&partition=2147483648":    "partition",
		"topic-name=a&offset=1&partition=0&partition=0": "partition",
		"topic-name=a&offset=1&read=now":                "read",
		"topic-name=a&offset=%zz":                       "query",
		"topic-name=a;offset=1":                         "query",
	} {
		if _, fault := read(raw); fault == nil || fault.Field != field || fault.Code != api.BadRequest {
			t.Errorf("%s: %v (field %q), want a fault of %s", raw, fault, fieldOf(fault), field)
		}
	}
}

func TestKeysAreBytes(t *testing.T) {
	for raw, want := range map[string]string{
		"":                                   "nil",
		"key=":                               `""`,
		"key-base64=":                        `""`,
		"key=a%2Fb%20c":                      `"a/b c"`,
		"key=%FF%00":                         `"\xff\x00"`,
		"key=%C3%A9":                         `"é"`,
		"key-base64=/w%3D%3D":                `"\xff"`,
		"key-base64=_-8":                     `"\xff\xef"`,
		"key-base64=%2F%2B8%3D":              `"\xff\xef"`,
		"key=" + strings.Repeat("k", KeyMax): fmt.Sprintf("%q", strings.Repeat("k", KeyMax)),
	} {
		q := ParseParams(raw)
		got := "nil"
		if key := q.Key(ParamKey); key != nil {
			got = fmt.Sprintf("%q", key)
		}
		if q.Fault != nil || got != want {
			t.Errorf("%.50s: %.50s (%v), want %.50s", raw, got, q.Fault, want)
		}
	}
	for raw, field := range map[string]string{
		"key=a&key=b":                          "key",
		"key=a&key-base64=YQ":                  "key-base64",
		"key-base64=a":                         "key-base64",
		"key-base64=*":                         "key-base64",
		"key-base64=YQ&key-base64=YQ":          "key-base64",
		"key=" + strings.Repeat("k", KeyMax+1): "key",
	} {
		q := ParseParams(raw)
		if q.Key(ParamKey); fieldOf(q.Fault) != field {
			t.Errorf("%.50s: %v (field %q), want a fault of %s", raw, q.Fault, fieldOf(q.Fault), field)
		}
	}
}

// FuzzKey checks that a value is a key or a fault, and that both spellings of a key give the same
// key.
func FuzzKey(f *testing.F) {
	f.Add([]byte("a/b"), "key-base64=_-8=")
	f.Add([]byte{}, "key=%zz")
	f.Add([]byte{0xff}, "key=&key-base64=")
	f.Fuzz(func(t *testing.T, key []byte, raw string) {
		if q := ParseParams(raw); len(q.Key(ParamKey)) > KeyMax && q.Fault == nil {
			t.Errorf("%q accepted", raw)
		}
		if len(key) > KeyMax {
			return
		}
		for _, query := range []string{
			"key=" + url.QueryEscape(string(key)),
			"key-base64=" + url.QueryEscape(base64.StdEncoding.EncodeToString(key)),
			"key-base64=" + base64.RawURLEncoding.EncodeToString(key),
		} {
			q := ParseParams(query)
			if got := q.Key(ParamKey); q.Fault != nil || got == nil || !bytes.Equal(got, key) {
				t.Errorf("%s: %q (%v), want %q", query, got, q.Fault, key)
			}
		}
	})
}

func fieldOf(p *api.Problem) string {
	if p == nil {
		return ""
	}
	return p.Field
}
