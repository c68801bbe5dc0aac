package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// batch appends one batch to a partition of topic t.
func (s *server) batch(partition int32, codec record.Compression, records ...record.Record) {
	s.t.Helper()
	for i := range records {
		records[i].Timestamp = testNow
	}
	brokertest.Send(s.t, s.b, brokertest.AppendWith("t", int(partition), record.EncodeOptions{Compression: codec}, records...))
}

// purchases appends n events to partition 0 of topic t, ten per batch, in all compressions. Every
// seventh has an amount above 100. It returns the offsets of these.
func (s *server) purchases(n int) (large []int64) {
	s.t.Helper()
	for i := 0; i < n; i += 10 {
		batch := make([]record.Record, 10)
		for k := range batch {
			amount := 50
			if (i+k)%7 == 3 {
				amount, large = 150, append(large, int64(i+k))
			}
			value := fmt.Sprintf(`{"event":"purchase","entity_id":"u%d","data":{"amount":%d,"n":%d}}`, i%3, amount, i+k)
			batch[k] = record.Record{Key: fmt.Appendf(nil, "u%d", i%3), Value: []byte(value)}
		}
		s.batch(0, record.Compression(i/10%5), batch...)
	}
	return large
}

const largeOnes = `where=amount+%3E+100+AND+event+%3D+%22purchase%22`

// scanAnswer is one answer of a scan.
type scanAnswer struct {
	offsets              []int64
	resume, next         int64
	records, bytesLooked int64
}

// scanPage sends one read of topic t (or c).
func (s *server) scanPage(query, form string) (p scanAnswer) {
	s.t.Helper()
	a := s.get("/records?"+query, form)
	must.Equalf(s.t, a.status, http.StatusOK, "%s: %s", query, a)
	var list []api.Record
	if form == api.JSON {
		s.must(200, a, &list)
	} else {
		for line := range strings.Lines(string(a.body)) {
			var r api.Record
			must.NoError(s.t, json.Unmarshal([]byte(line), &r))
			list = append(list, r)
		}
	}
	for _, r := range list {
		p.offsets = append(p.offsets, r.Offset)
	}
	for name, to := range map[string]*int64{
		api.HeaderResumeOffset: &p.resume, api.HeaderNextOffset: &p.next, api.HeaderScannedRecords: &p.records, api.HeaderScannedBytes: &p.bytesLooked,
	} {
		n, err := strconv.ParseInt(a.header.Get(name), 10, 64)
		must.NoErrorf(s.t, err, "%s: %s", query, name)
		*to = n
	}
	check.Equalf(s.t, a.header.Get("ETag"), "", "%s: an entity tag", query)
	return p
}

func TestWhereInEveryEncoding(t *testing.T) {
	s := start(t)
	newTopic(s, "t", 1)
	large := s.purchases(100)
	for _, form := range []string{api.JSON, api.NDJSON} {
		p := s.scanPage("topic-name=t&offset=0&max-records=1000&timeout=0s&"+largeOnes, form)
		if !slices.Equal(p.offsets, large) || p.resume != 100 || p.next != 100 || p.records != 100 || p.bytesLooked < 5000 {
			t.Errorf("%s: %+v, want %v", form, p, large)
		}
	}
	values := s.get("/records?topic-name=t&offset=0&max-records=1000&timeout=0s&"+largeOnes, api.Multipart).unform(t)
	if len(values) != len(large) || !strings.Contains(values[3], `"amount":150,"n":24}`) {
		t.Errorf("%q", values)
	}
	a := s.get("/records?topic-name=t&offset=0&timeout=0s&where=amount+%3E+1000", api.Multipart)
	if a.status != http.StatusPartialContent || a.unform(t) != nil || a.header.Get(api.HeaderResumeOffset) != "100" || a.header.Get(api.HeaderScannedRecords) != "100" {
		t.Errorf("%s %v", a, a.header)
	}
	p := s.scanPage("topic-name=t&offset=40&max-records=2&"+largeOnes, api.JSON)
	if fmt.Sprint(p.offsets, p.resume) != "[45 52] 53" || p.records != 13 {
		t.Errorf("%+v", p)
	}
	p = s.scanPage("topic-name=t&offset=0&max-records=1000&timeout=0s&contains=u2&"+largeOnes, api.JSON)
	check.Equalf(t, fmt.Sprint(p.offsets), "[24 52 59 80 87]", "where and contains: %+v", p)
	// Without a filter nothing was looked at.
	if a := s.get("/records?topic-name=t&offset=0", api.JSON); a.header.Get(api.HeaderScannedRecords) != "" {
		t.Errorf("%v", a.header)
	}
}

func TestContains(t *testing.T) {
	s := start(t)
	newTopic(s, "t", 1)
	s.batch(0, record.None,
		record.Record{Key: []byte("order-17"), Value: []byte("placed")},
		record.Record{Value: []byte("bytes \xff\x00\xfe and more")},
		record.Record{Key: []byte("order-18")},
		record.Record{Value: []byte("für order-17")},
		record.Record{Value: []byte("%2B + &")},
	)
	for part, want := range map[string]string{
		"order-17": "[0 3]", "order": "[0 2 3]", "\xff\x00\xfe": "[1]", "\xff": "[1]", "ü": "[3]", "%2B + &": "[4]", "none": "[]", "more": "[1]",
	} {
		p := s.scanPage("topic-name=t&offset=0&timeout=0s&contains="+url.QueryEscape(part), api.JSON)
		if fmt.Sprint(p.offsets) != want || p.resume != 5 || p.records != 5 {
			t.Errorf("%q: %+v, want %s", part, p, want)
		}
	}
	// A filter on values that are not JSON matches none of them.
	if p := s.scanPage("topic-name=t&offset=0&timeout=0s&where="+url.QueryEscape(`a != 1`), api.NDJSON); p.offsets != nil || p.records != 5 {
		t.Errorf("%+v", p)
	}
}

// TestScanResumes: with any bound, the pages of a scan have each match once, in both orders.
func TestScanResumes(t *testing.T) {
	s := start(t)
	newTopic(s, "t", 1)
	n := sebtest.Runs(300, 100)
	large := s.purchases(n)
	for _, bounds := range []string{
		"max-scan-bytes=1", "max-scan-bytes=700", "max-scan-bytes=5000&max-records=3", "max-scan-bytes=2000&max-bytes=1", "max-records=1", "max-records=1000",
		"max-scan-bytes=1073741824&max-bytes=200",
	} {
		var all []int64
		looked, pages := int64(0), 0
		for at := int64(0); at < int64(n); pages++ {
			p := s.scanPage(fmt.Sprintf("topic-name=t&offset=%d&timeout=0s&%s&%s", at, bounds, largeOnes), api.NDJSON)
			if p.resume <= at {
				t.Fatalf("%s: from %d to %d", bounds, at, p.resume)
			}
			all, looked, at = append(all, p.offsets...), looked+p.records, p.resume
		}
		check.EqualSlicesf(t, all, large, "%s", bounds)
		if looked < int64(n) || looked > int64(n)+100 || pages > n+1 {
			t.Errorf("%s: %d records looked at in %d pages", bounds, looked, pages)
		}
		all = nil
		for at := int64(n); at > 0; {
			p := s.scanPage(fmt.Sprintf("topic-name=t&offset=%d&order=newest&%s&%s", at, bounds, largeOnes), api.JSON)
			if p.resume >= at {
				t.Fatalf("%s: backwards from %d to %d", bounds, at, p.resume)
			}
			all, at = append(all, p.offsets...), p.resume
		}
		slices.Reverse(all)
		check.EqualSlicesf(t, all, large, "%s: backwards", bounds)
	}
}

// TestScanAcrossGaps: a scan of a compacted topic from the store has each remaining match once.
func TestScanAcrossGaps(t *testing.T) {
	store := objstore.NewMemory()
	g := gapped(t, store, 1<<20, 20)
	g.server = start(t, func(c *setup) { c.store = store }) // nothing is in memory
	var want []int64
	for _, o := range g.offsets {
		if v := g.values[o]; strings.Contains(v, "2") {
			want = append(want, o)
		}
	}
	for _, bounds := range []string{"max-scan-bytes=1", "max-scan-bytes=60", "max-records=2", ""} {
		var all, back []int64
		for at := int64(0); at < g.end; {
			p := g.scanPage(fmt.Sprintf("topic-name=c&offset=%d&timeout=0s&contains=2&%s", at, bounds), api.JSON)
			if p.resume <= at {
				t.Fatalf("%s: from %d to %d", bounds, at, p.resume)
			}
			all, at = append(all, p.offsets...), p.resume
		}
		for at, pages := g.end, 0; at > 0; pages++ {
			p := g.scanPage(fmt.Sprintf("topic-name=c&offset=%d&order=newest&contains=2&%s", at, bounds), api.JSON)
			if p.resume >= at {
				t.Fatalf("%s: backwards from %d to %d", bounds, at, p.resume)
			}
			back, at = append(back, p.offsets...), p.resume
		}
		slices.Reverse(back)
		if !slices.Equal(all, want) || !slices.Equal(back, want) {
			t.Errorf("%s: %v, backwards %v, want %v", bounds, all, back, want)
		}
	}
}

// TestScanWaitsAtTheEnd: a long poll waits for a record that matches, and only at the end.
func TestScanWaitsAtTheEnd(t *testing.T) {
	s := start(t)
	newTopic(s, "t", 1)
	s.purchases(20)
	found := make(chan scanAnswer)
	go func() { found <- s.scanPage("topic-name=t&offset=4&timeout=30s&contains=wanted", api.JSON) }()
	s.mustPost("topic-name=t", api.TextPlain, "other")
	s.mustPost("topic-name=t", api.TextPlain, "wanted")
	if p := <-found; fmt.Sprint(p.offsets, p.resume) != "[21] 22" || p.records != 18 {
		t.Errorf("%+v", p)
	}
	if p := s.scanPage("topic-name=t&offset=4&timeout=30s&max-scan-bytes=100&contains=wanted", api.JSON); p.offsets != nil || p.resume >= 20 {
		t.Errorf("%+v", p)
	}
	if p := s.scanPage("topic-name=t&offset=4&timeout=10ms&contains=never", api.JSON); p.offsets != nil || p.resume != 22 {
		t.Errorf("%+v", p)
	}
}

func TestScanRefused(t *testing.T) {
	s := start(t)
	newTopic(s, "t", 1)
	for query, want := range map[string]api.Problem{
		"where=":                                  {Field: "where", Line: 1, Column: 1, Detail: "where: 1:1: expected a property"},
		"where=amount+%3E":                        {Field: "where", Line: 1, Column: 9, Detail: "found end of expression"},
		"where=a+%3D+1%0AAND+b":                   {Field: "where", Line: 2, Column: 6, Detail: "expected =, !="},
		"where=a+%3D+1&where=b+%3D+1":             {Field: "where", Detail: "given 2 times"},
		"contains=":                               {Field: "contains", Detail: "want 1 to 1024 bytes, given 0"},
		"contains=" + strings.Repeat("x", 1025):   {Field: "contains", Detail: "want 1 to 1024 bytes, given 1025"},
		"max-scan-bytes=1":                        {Field: "max-scan-bytes", Detail: "only with where or contains"},
		"max-scan-bytes=1073741825&where=a+%3D+1": {Field: "max-scan-bytes", Detail: "want a number from 0 to 1073741824"},
		"max-scan-bytes=x&contains=a":             {Field: "max-scan-bytes", Detail: `given "x"`},
	} {
		p := s.get("/records?topic-name=t&offset=0&"+query, api.JSON).problem(t)
		if p.Code != api.BadRequest || p.Field != want.Field || p.Line != want.Line || p.Column != want.Column || !strings.Contains(p.Detail, want.Detail) {
			t.Errorf("%.60s: %+v", query, p)
		}
	}
	for _, query := range []string{"where=a+%3D+1", "contains=a"} {
		p := s.get("/records?topic-name=t&offset=0&"+query, api.RecordBatch).problem(t)
		if field, _, _ := strings.Cut(query, "="); p.Field != field || !strings.Contains(p.Detail, "not with "+api.RecordBatch) {
			t.Errorf("%s: %+v", query, p)
		}
	}
	if p := s.get("/records?topic-name=t&offset=0&max-scan-bytes=5&contains=a", api.EventStream).problem(t); p.Field != "max-scan-bytes" {
		t.Errorf("%+v", p)
	}
}

// progressOf decodes a progress event.
func progressOf(t *testing.T, e event) (p api.ScanProgress) {
	t.Helper()
	if err := json.Unmarshal([]byte(e.data), &p); err != nil || e.kind != "progress" {
		t.Fatalf("%+v: %v", e, err)
	}
	return p
}

func TestStreamWithFilter(t *testing.T) {
	t.Parallel()
	s := start(t)
	newTopic(s, "t", 1)
	large := s.purchases(300)
	ch := s.events(t.Context(), "topic-name=t&offset=0&"+largeOnes, "")
	var found []int64
	var last api.ScanProgress
	for last.Offset == nil || *last.Offset < 300 {
		e := next(t, ch)
		if e.kind != "progress" {
			var r api.Record
			if err := json.Unmarshal([]byte(e.data), &r); err != nil || e.id != fmt.Sprint(r.Offset) {
				t.Fatalf("%+v: %v", e, err)
			}
			found = append(found, r.Offset)
			continue
		}
		last = progressOf(t, e)
		if e.id != fmt.Sprint(*last.Offset-1) || *last.NextOffset != 300 || last.Records != *last.Offset || last.Bytes < 50*last.Records {
			t.Fatalf("%+v", e)
		}
	}
	check.EqualSlices(t, found, large)
	// Records that do not match move the position only.
	s.mustPost("topic-name=t", api.TextPlain, "other")
	if e := next(t, ch); *progressOf(t, e).Offset != 301 || e.id != "300" {
		t.Errorf("%+v", e)
	}
	s.purchases(10)
	if e := next(t, ch); e.id != "304" {
		t.Errorf("%+v", e)
	}
}

// TestStreamWithFilterResumes: a stream that is interrupted after any event continues with the next
// match.
func TestStreamWithFilterResumes(t *testing.T) {
	s := start(t)
	s.put("t", `{"partitions":3}`).topic(t)
	want := map[string]bool{}
	for p := range int32(3) {
		for i := range 200 {
			batch := make([]record.Record, 5)
			for k := range batch {
				batch[k].Value = fmt.Appendf(nil, `{"n":%d}`, (5*i+k)%20)
				if (5*i+k)%20 == 7 {
					want[fmt.Sprintf("%d.%d", p, 5*i+k)] = true
				}
			}
			s.batch(p, record.Compression(i%5), batch...)
		}
	}
	for _, partition := range []string{"0", "all"} {
		found := map[string]bool{}
		last, expected := "", len(want)
		if partition == "0" {
			expected /= 3
		}
		for n := 0; len(found) < expected; n++ {
			ctx, cancel := context.WithCancel(t.Context())
			ch := s.events(ctx, "topic-name=t&offset=earliest&where=n+%3D+7&partition="+partition, last)
			for range 1 + n%17 {
				if len(found) == expected {
					break
				}
				e := next(t, ch)
				if e.kind == "progress" {
					if p := progressOf(t, e); p.Records > 3000 || e.id == "" || (p.Offset == nil) != (partition == "all") {
						t.Errorf("%+v", e)
					}
				} else {
					var r api.PartitionRecord
					must.NoError(t, json.Unmarshal([]byte(e.data), &r))
					key := fmt.Sprintf("%d.%d", r.Partition, r.Offset)
					if !want[key] || found[key] {
						t.Fatalf("partition %s after %q: %s, which is not expected", partition, last, key)
					}
					found[key] = true
				}
				last = e.id
			}
			cancel()
		}
	}
}

// TestScanProgressIsRare: records that arrive without a match cause two progress events per second at
// most, and the last one has the end.
func TestScanProgressIsRare(t *testing.T) {
	s := start(t)
	newTopic(s, "t", 1)
	ch := s.events(t.Context(), "topic-name=t&offset=0&contains=wanted", "")
	began := time.Now()
	const n = 300
	for range n {
		s.mustPost("topic-name=t", api.TextPlain, "other")
	}
	events := 0
	for offset := int64(0); offset < n; events++ {
		offset = *progressOf(t, next(t, ch)).Offset
	}
	if most := 2 + int(time.Since(began)/progressEvery); events > most {
		t.Errorf("%d progress events, want %d at most", events, most)
	}
}

// TestScanInLittleMemory: records that do not match take no memory after they were looked at.
func TestScanInLittleMemory(t *testing.T) {
	each := sebtest.Runs(2<<20, 1<<20)
	n := sebtest.Runs(40, 12)
	store := objstore.NewMemory()
	s := start(t, func(c *setup) { c.store = store })
	newTopic(s, "t", 1)
	for i := range n {
		s.batch(0, record.Compression(i%5), record.Record{Value: []byte(fmt.Sprintf(`{"n":%d,"x":"%s"}`, i, strings.Repeat("0123456789", each/10)))})
	}
	s = start(t, func(c *setup) { c.store = store }) // reads from the store
	class := s.budget.Class(budget.Fetch)
	taken := must.Get(class.Reserve(class.Limit() - int64(6*each)))(t)
	defer taken.Release()
	for _, query := range []string{"offset=0", "order=newest"} {
		at, found := "", []int64(nil)
		for pages := 0; len(found) < 1; pages++ {
			p := s.scanPage("topic-name=t&timeout=0s&max-scan-bytes=1073741824&max-value-bytes=10&where=n+%3D+"+fmt.Sprint(n/2)+"&"+query+at, api.JSON)
			found = append(found, p.offsets...)
			if at = fmt.Sprintf("&offset=%d", p.resume); query == "offset=0" {
				query = ""
			}
			if pages > n {
				t.Fatalf("%s: no match in %d pages", query, pages)
			}
		}
		check.Equalf(t, fmt.Sprint(found), fmt.Sprintf("[%d]", n/2), "%s: %v", query, found)
	}
}

// TestScanOfLargestValues: values of 30 MiB are looked at and found in the memory of the budget.
func TestScanOfLargestValues(t *testing.T) {
	sebtest.Long(t, "TestScanInLittleMemory remains")
	store := objstore.NewMemory()
	s := start(t, func(c *setup) { c.store = store })
	newTopic(s, "t", 1)
	size := sebtest.Runs(30<<20, 2<<20)
	text := strings.Repeat("0123456789abcdef", (size-100)/16)
	for i := range 2 {
		s.mustPost("topic-name=t", api.OctetStream, fmt.Sprintf(`{"text":"%s","n":%d}`, text, i))
	}
	s = start(t, func(c *setup) { c.store = store })
	for _, order := range []string{"oldest&offset=0", "newest"} {
		var found []int64
		for at, pages := "", 0; len(found) == 0; pages++ {
			p := s.scanPage("topic-name=t&timeout=0s&max-value-bytes=10&where=n+%3D+1+AND+text+%3E+%220%22&order="+order+at, api.JSON)
			if found = p.offsets; pages > 2 {
				t.Fatalf("%s: no match", order)
			}
			order, _, _ = strings.Cut(order, "&")
			at = fmt.Sprintf("&offset=%d", p.resume)
		}
		check.Equalf(t, fmt.Sprint(found), "[1]", "%s: %v", order, found)
	}
	a := s.get("/records?topic-name=t&offset=0&timeout=0s&where=n+%3D+0", api.Multipart)
	if values := a.unform(t); len(values) != 1 || !strings.HasSuffix(values[0], `"n":0}`) {
		t.Errorf("%d values", len(values))
	}
}

// leaving is a sink whose client leaves at the first record.
type leaving struct{ leave func() }

func (l leaving) ValuesOnly() bool { return true }

func (l leaving) Take(*budget.Arena, *record.Record, bool) error {
	l.leave()
	return nil
}

// TestScanStopsWithItsClient: the broker stops reading when the client is gone.
func TestScanStopsWithItsClient(t *testing.T) {
	s := start(t)
	newTopic(s, "t", 1)
	s.batch(0, record.None, record.Record{Value: []byte("x")})
	for range 16 {
		s.batch(0, record.None, record.Record{Value: make([]byte, 1<<20)})
	}
	g := s.api.source.New("t", 0)
	defer g.Done()
	g.scan, g.MaxRecords = &scan{contains: []byte("x"), stop: scanMax, until: time.Now().Add(time.Hour)}, 10
	ctx, leave := context.WithCancel(t.Context())
	if err := g.Collect(ctx, leaving{leave}); err != nil || g.Offset == 0 || g.Offset > 8 {
		t.Errorf("%v, at %d", err, g.Offset)
	}
}

// TestScanCountsForTheQuota: the bytes that do not match are used, and bound the scan.
func TestScanCountsForTheQuota(t *testing.T) {
	s, clock, limited, free := limitedServer(t, `{"fetch_bytes":1000}`)
	s.must(201, s.as(canary, "POST", records, `[`+strings.Repeat(`{"value":"`+strings.Repeat("x", 100)+`"},`, 299)+`{"value":"y"}]`), nil)
	query := records + "&offset=0&timeout=0s&contains=y"
	a := s.as(limited, "GET", query, "")
	if looked := a.header.Get(api.HeaderScannedBytes); a.status != 206 || looked != "10000" { // ten seconds of the quota
		t.Errorf("%s %v", a, a.header)
	}
	s.over(s.as(limited, "GET", query, ""), "10", "fetched bytes per second")
	if values := s.as(free, "GET", query, "").unform(t); fmt.Sprint(values) != "[y]" {
		t.Errorf("without a quota: %q", values)
	}
	clock.move(time.Minute)
	s.must(206, s.as(limited, "GET", query, ""), nil)
}
