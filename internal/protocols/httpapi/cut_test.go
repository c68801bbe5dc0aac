package httpapi

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
)

func TestLongValuesAreCut(t *testing.T) {
	s := start(t)
	binary := "ab\xffdef"
	s.mustPost("topic-name=t", api.NDJSON, `{"key":"long key","value":"h\u00e9llo"}
{"value":null}
{"value":""}
{"value":"hi"}
{"value_base64":"`+base64.StdEncoding.EncodeToString([]byte(binary))+`"}`)
	line := func(offset int, key, rest string) string {
		return fmt.Sprintf(`{"offset":%d,"timestamp":T,"key":%s,%s}`, offset, key, rest)
	}
	for most, want := range map[int][]string{
		// A binary value stays in base64, even if its beginning is text.
		2: {`"value":"h","value_bytes":6`, `"value":"hi"`, `"value_base64":"YWI=","value_bytes":6`},
		3: {`"value":"hé","value_bytes":6`, `"value":"hi"`, `"value_base64":"YWL/","value_bytes":6`},
		6: {`"value":"héllo"`, `"value":"hi"`, `"value_base64":"YWL/ZGVm"`},
		0: {`"value":"héllo"`, `"value":"hi"`, `"value_base64":"YWL/ZGVm"`},
	} {
		lines := []string{
			line(0, `"long key"`, want[0]), line(1, "null", `"value":null`), line(2, "null", `"value":""`), line(3, "null", want[1]), line(4, "null", want[2]),
		}
		query := fmt.Sprintf("/records?topic-name=t&offset=0&timeout=0s&max-value-bytes=%d", most)
		if a := s.get(query, api.NDJSON); withoutTimes(string(a.body)) != strings.Join(lines, "\n")+"\n" {
			t.Errorf("at %d: %s", most, a)
		}
		if a := s.get(query, api.JSON); withoutTimes(string(a.body)) != "["+strings.Join(lines, ",\n")+"]\n" {
			t.Errorf("at %d: %s", most, a)
		}
		ch := s.events(t.Context(), fmt.Sprintf("topic-name=t&offset=0&max-records=5&max-value-bytes=%d", most), "")
		for i, want := range lines {
			if e := next(t, ch); withoutTimes(e.data) != want {
				t.Errorf("event %d at %d: %+v", i, most, e)
			}
		}
	}
}

var timesInJSON = regexp.MustCompile(`"timestamp":[0-9]+`)

func withoutTimes(s string) string { return timesInJSON.ReplaceAllString(s, `"timestamp":T`) }

// TestCutValuesCountAsTheyAre: max-bytes counts what is sent, and answers of another cut have
// another tag.
func TestCutValuesCountAsTheyAre(t *testing.T) {
	s := start(t)
	long := strings.Repeat("x", 100<<10)
	s.mustPost("topic-name=t", api.TextPlain, strings.Repeat(long+"\n", 20))
	s.mustPost("topic-name=t", api.TextPlain, "last")
	const read = "/records?topic-name=t&offset=0&timeout=0s&max-records=20"
	tags := map[string]bool{}
	for query, want := range map[string]int{"&max-value-bytes=10&max-bytes=100": 10, "&max-value-bytes=10": 20, "&max-bytes=100": 1, "&max-value-bytes=11": 20} {
		a := s.get(read+query, api.NDJSON)
		if n := strings.Count(string(a.body), "\n"); n != want || a.header.Get(api.HeaderResumeOffset) != fmt.Sprint(want) {
			t.Errorf("%s: %d records, want %d", query, n, want)
		}
		if tag := a.header.Get("ETag"); tag == "" || tags[tag] {
			t.Errorf("%s: tag %q", query, tag)
		} else {
			tags[tag] = true
		}
	}
}

func TestOneRecordIsCut(t *testing.T) {
	s := start(t)
	s.mustPost("topic-name=t", api.NDJSON, `{"value":"h\u00e9llo"}
{"value_base64":"`+base64.StdEncoding.EncodeToString([]byte("\xff\xfe\xfd"))+`"}`)
	for query, want := range map[string]string{
		"offset=0": "héllo ", "offset=0&max-value-bytes=2": "h 6", "offset=0&max-value-bytes=6": "héllo ", "offset=0&max-value-bytes=0": "héllo ",
		"offset=1&max-value-bytes=2": "\xff\xfe 3",
	} {
		a := s.get("/record?topic-name=t&" + query)
		if got := string(a.body) + " " + a.header.Get(api.HeaderValueBytes); a.status != http.StatusOK || got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	for _, kind := range []string{api.Multipart, api.RecordBatch} {
		if p := s.get("/records?topic-name=t&offset=0&max-value-bytes=1", kind).problem(t); p.Field != "max-value-bytes" || !strings.Contains(p.Detail, kind) {
			t.Errorf("%s: %+v", kind, p)
		}
	}
	if p := s.get("/record?topic-name=t&offset=0&max-value-bytes=-1").problem(t); p.Field != "max-value-bytes" {
		t.Errorf("%+v", p)
	}
}
