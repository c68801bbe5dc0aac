package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// backwards returns the offsets of a page, and the offset of the next one.
func (s *server) backwards(query string) (offsets []int64, resume int64) {
	s.t.Helper()
	a := s.get("/records?topic-name=t&order=newest&"+query, api.JSON)
	var out []api.Record
	if err := json.Unmarshal(a.body, &out); err != nil || a.status != http.StatusOK {
		s.t.Fatalf("%s: %s: %v", query, a, err)
	}
	for _, r := range out {
		offsets = append(offsets, r.Offset)
	}
	resume = must.Get(strconv.ParseInt(a.header.Get(api.HeaderResumeOffset), 10, 64))(s.t)
	return offsets, resume
}

func TestNewestFirst(t *testing.T) {
	s := start(t)
	for i := range 4 { // 20 records in batches of 5
		s.mustPost("topic-name=t", api.TextPlain, fmt.Sprintf("%d\n%d\n%d\n%d\n%d", 5*i, 5*i+1, 5*i+2, 5*i+3, 5*i+4))
	}
	for query, want := range map[string]string{
		"":                                            "[19 18 17 16 15 14 13 12 11 10] 10",
		"offset=latest&max-records=3":                 "[19 18 17] 17",
		"offset=12&max-records=4":                     "[11 10 9 8] 8",
		"offset=3":                                    "[2 1 0] 0",
		"offset=1":                                    "[0] 0",
		"offset=0":                                    "[] 0",
		"offset=20&max-records=20":                    "[19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0] 0",
		"offset=9223372036854775807":                  "[19 18 17 16 15 14 13 12 11 10] 10",
		"offset=20&max-bytes=5":                       "[19 18] 18",
		"offset=20&max-bytes=1":                       "[19] 19",
		"offset=20&max-bytes=5&partition=0":           "[19 18] 18",
		"offset=20&max-records=2&read=latest":         "[19 18] 18",
		"max-records=5&max-value-bytes=1":             "[19 18 17 16 15] 15",
		"max-records=5&max-value-bytes=1&max-bytes=3": "[19 18 17] 17",
	} {
		offsets, resume := s.backwards(query)
		check.Equalf(t, fmt.Sprint(offsets, resume), want, "%s", query)
	}
	a := s.get("/records?topic-name=t&order=newest&max-records=2&max-value-bytes=1", api.NDJSON)
	if got := withoutTimes(string(a.body)); got != `{"offset":19,"timestamp":T,"key":null,"value":"1","value_bytes":2}
{"offset":18,"timestamp":T,"key":null,"value":"1","value_bytes":2}
` || a.header.Get(api.HeaderNextOffset) != "20" || a.header.Get(api.HeaderOffset) != "20" {
		t.Errorf("%s %v", got, a.header)
	}
	s.must(200, s.send("POST", "/topic/trim?topic-name=t&partition=0&offset=17", ""), nil)
	if offsets, resume := s.backwards("offset=latest"); fmt.Sprint(offsets, resume) != "[19 18 17] 0" {
		t.Errorf("after a trim: %v %d", offsets, resume)
	}
	if offsets, resume := s.backwards("offset=9"); fmt.Sprint(offsets, resume) != "[] 0" {
		t.Errorf("below the start: %v %d", offsets, resume)
	}
}

func TestNewestFirstRefused(t *testing.T) {
	s := start(t)
	s.mustPost("topic-name=t", api.TextPlain, "a")
	for query, field := range map[string]string{
		"order=upwards":                "order",
		"order=newest&group=g":         "group",
		"order=newest&offset=-1":       "offset",
		"order=newest&offset=earliest": "offset",
	} {
		if p := s.get("/records?topic-name=t&"+query, api.JSON).problem(t); p.Field != field {
			t.Errorf("%s: %+v", query, p)
		}
	}
	for _, kind := range []string{api.Multipart, api.RecordBatch, api.EventStream} {
		if p := s.get("/records?topic-name=t&offset=0&order=newest", kind).problem(t); p.Field != "order" || !strings.Contains(p.Detail, kind) {
			t.Errorf("%s: %+v", kind, p)
		}
	}
	if p := s.get("/records?topic-name=t&offset=2&order=newest", api.JSON).problem(t); p.Code != api.OffsetBeyondEnd {
		t.Errorf("%+v", p)
	}
	if p := s.get("/records?topic-name=none&order=newest", api.JSON).problem(t); p.Code != api.UnknownTopic {
		t.Errorf("%+v", p)
	}
	if p := s.get("/records?topic-name=t&partition=1&order=newest", api.JSON).problem(t); p.Code != api.UnknownPartition {
		t.Errorf("%+v", p)
	}
}

// TestNewestFirstAcrossGaps: pages of a compacted topic have each remaining record once.
func TestNewestFirstAcrossGaps(t *testing.T) {
	store := objstore.NewMemory()
	g := gapped(t, store, 1<<20, 0)
	for _, most := range []int{1, 3, 7, 100} {
		var all []int64
		for next, pages := "latest", 0; next != "0"; pages++ {
			a := g.get(fmt.Sprintf("/records?topic-name=c&order=newest&offset=%s&max-records=%d", next, most), api.JSON)
			var out []api.Record
			g.must(200, a, &out)
			for _, r := range out {
				all = append(all, r.Offset)
			}
			before := next
			if next = a.header.Get(api.HeaderResumeOffset); next == before || len(out) > most || pages > 10_000 {
				t.Fatalf("page below %s: %d records, continues below %s", before, len(out), next)
			}
		}
		slices.Reverse(all)
		check.EqualSlicesf(t, all, g.offsets, "in pages of %d", most)
	}
}

// TestNewestFirstInLittleMemory: an answer has the newest records that fit.
func TestNewestFirstInLittleMemory(t *testing.T) {
	s := start(t)
	const each = 256 << 10
	for i := range 8 {
		s.mustPost("topic-name=t", api.TextPlain, fmt.Sprint(i)+strings.Repeat("x", each))
	}
	class := s.budget.Class(budget.Fetch)
	taken := must.Get(class.Reserve(class.Limit() - 6*each))(t)
	offsets, resume := s.backwards("max-records=8")
	if n := len(offsets); n == 0 || n == 8 || offsets[0] != 7 || resume != offsets[n-1] {
		t.Errorf("%v, continues below %d", offsets, resume)
	}
	more := must.Get(class.Reserve(6 * each))(t)
	if p := s.get("/records?topic-name=t&order=newest", api.JSON).problem(t); p.Code != api.OverBudget {
		t.Errorf("%+v", p)
	}
	more.Release()
	taken.Release()
	if offsets, resume := s.backwards("max-records=8"); len(offsets) != 8 || resume != 0 {
		t.Errorf("%v, continues below %d", offsets, resume)
	}
}
