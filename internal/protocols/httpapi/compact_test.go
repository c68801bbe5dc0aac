package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/log/compact"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// gappy is a compacted topic c: its remaining records and its end.
type gappy struct {
	*server
	end     int64
	offsets []int64
	values  map[int64]string
	waiting func() float64 // waiting fetches
}

// keyedBatch holds records of one batch: "key=value"; "key" is a tombstone; "=value" has no key.
type keyedBatch struct {
	codec   record.Compression
	records string
}

// gaps is a history that compaction mostly removes, with gaps within batches, empty batches in the
// middle, and some at the end.
var gaps = []keyedBatch{
	{record.None, "a=0 b=0 c=0 d=0 e=0"}, // 0: all removed
	{record.None, "a=1 b=1 c=1 d=1 e=1"}, // 5: all removed
	{record.None, "=10 a=11 f=12"},       // 10: 10 and 12 stay
	{record.Gzip, "g=13 g=14 g=15 g=16 g=17 g=18 g=19"},
	{record.Zstd, "h=20 h=21 h=22 h=23 h=24"}, // all removed
	{record.None, "h=25"},
	{record.Snappy, "a=26 x=27 b=28 c=29 d=30"}, // 27 removed
	{record.None, "e=31 x=32"},                  // 32 removed
	{record.None, "x y"},                        // 33: tombstones, removed
	{record.LZ4, "x z"},                         // 35: removed too
}

var gapsLeft = []int64{10, 12, 19, 25, 26, 28, 29, 30, 31}

// gapped creates and compacts a topic of gaps in packs of about target bytes. Values have pad
// additional bytes.
func gapped(t *testing.T, store objstore.Store, target int64, pad int, change ...func(*setup)) *gappy {
	t.Helper()
	g := ungapped(t, store, pad, change...)
	g.compact(t, store, target)
	return g
}

// ungapped creates the topic without compacting it.
func ungapped(t *testing.T, store objstore.Store, pad int, change ...func(*setup)) *gappy {
	t.Helper()
	set := metrics.NewSet()
	g := &gappy{server: start(t, append(change, func(c *setup) { c.store, c.broker.Metrics = store, set })...), offsets: gapsLeft, values: map[int64]string{}}
	g.waiting = func() float64 { return set.GetOrCreateGauge("seb_broker_waiting_fetches", nil).Get() }
	a := g.do(call{
		method: "PUT", path: "/topic?topic-name=c", header: map[string]string{"Content-Type": api.JSON},
		body: strings.NewReader(`{"settings":{"cleanup-policy":"compact","delete-retention-time":"0s"}}`),
	})
	must.Equalf(t, a.status, 201, "%v", a)
	for _, b := range gaps {
		g.append(t, b, pad)
	}
	return g
}

// compact compacts the topic in packs of about target bytes.
func (g *gappy) compact(t *testing.T, store objstore.Store, target int64) {
	t.Helper()
	m := compact.Open(compact.Options{
		Log: g.b, Store: store, TempDir: t.TempDir(), Every: time.Hour, Policy: compact.Policy{Age: time.Microsecond, Target: target, Small: 100},
	})
	defer m.Close()
	left := func() (n uint32) {
		for _, r := range g.b.View().TopicByName("c").Partitions.At(0).Ranges {
			n += r.Records
		}
		return n
	}
	sebtest.Eventually(t, "the topic is compacted", func() bool {
		must.Get(m.Once(t.Context()))(t)
		return left() == uint32(len(gapsLeft))
	})
}

// TestCompactionChangesEntityTags checks that answers differ exactly if their tags do.
func TestCompactionChangesEntityTags(t *testing.T) {
	store := objstore.NewMemory()
	g := ungapped(t, store, 20)
	type answer struct{ tag, body string }
	ask := func() map[string]answer {
		all := map[string]answer{}
		for offset := int64(0); offset < g.end; offset += int64(sebtest.Runs(1, 3)) {
			for _, limit := range []string{"max-records=1", "max-records=2", "max-records=5", "max-records=30&max-bytes=60", "max-records=30&max-bytes=200"} {
				for _, form := range []string{api.JSON, api.NDJSON, api.Multipart} {
					path := fmt.Sprintf("/records?topic-name=c&timeout=0s&offset=%d&%s", offset, limit)
					a := g.get(path, form)
					all[form+" "+path] = answer{a.header.Get("ETag"), strings.ReplaceAll(string(a.body), a.boundary(), "b")}
				}
			}
		}
		return all
	}
	before := ask()
	g.compact(t, store, 1<<20)
	same, changed := 0, 0
	for path, now := range ask() {
		was := before[path]
		if was.tag == "" || now.tag == "" {
			continue
		}
		check.Equalf(t, was.tag == now.tag, was.body == now.body, "%s: tag %s with %q, then %s with %q", path, was.tag, was.body, now.tag, now.body)
		if was.tag == now.tag {
			same++
		} else {
			changed++
		}
	}
	if same == 0 || changed == 0 {
		t.Errorf("%d answers are the same and %d changed; want both kinds", same, changed)
	}
}

func (g *gappy) append(t *testing.T, b keyedBatch, pad int) {
	t.Helper()
	var recs []record.Record
	for _, text := range strings.Fields(b.records) {
		key, value, given := strings.Cut(text, "=")
		r := record.Record{Timestamp: testNow, Key: []byte(key)}
		if key == "" {
			r.Key = nil
		}
		if given {
			value += strings.Repeat("x", pad)
			r.Value = []byte(value)
			g.values[g.end] = value
		}
		recs = append(recs, r)
		g.end++
	}
	brokertest.Send(t, g.b, brokertest.AppendWith("c", 0, record.EncodeOptions{Compression: b.codec}, recs...))
}

// from lists the remaining records from an offset on.
func (g *gappy) from(offset int64) (values []string) {
	for _, o := range g.offsets {
		if o >= offset {
			values = append(values, g.values[o])
		}
	}
	return values
}

// readAnswer decodes an answer in any encoding: values, and offsets if the encoding has them.
func readAnswer(t *testing.T, a *answered, form string, from int64) (values []string, offsets []int64) {
	t.Helper()
	var list []api.Record
	switch form {
	case api.Multipart:
		return a.unform(t), nil
	case api.RecordBatch:
		var r record.Reader
		for r.Reset(a.body, from); r.Next(); {
			values, offsets = append(values, string(r.Record().Value)), append(offsets, r.Record().Offset)
		}
		must.NoError(t, r.Err())
		return values, offsets
	case api.JSON:
		must.NoError(t, json.Unmarshal(a.body, &list))
	case api.NDJSON:
		for line := range bytes.Lines(a.body) {
			var r api.Record
			must.NoError(t, json.Unmarshal(line, &r))
			list = append(list, r)
		}
	}
	for _, r := range list {
		values, offsets = append(values, *r.Value), append(offsets, r.Offset)
	}
	return values, offsets
}

// forEachGapped runs a test on gapped topics of several shapes: one range or many, in memory or as
// sections of files.
func forEachGapped(t *testing.T, test func(t *testing.T, g *gappy)) {
	for _, shape := range []struct {
		store  string
		target int64
		pad    int
	}{{"memory", 1 << 20, 0}, {"memory", 70, 0}, {"disk", 1 << 20, 20_000}, {"disk", 50_000, 20_000}} {
		t.Run(fmt.Sprintf("%s, packs of %d, values of %d", shape.store, shape.target, shape.pad), func(t *testing.T) {
			store := objstore.Store(objstore.NewMemory())
			if shape.store == "disk" {
				d := must.Get(objstore.OpenDisk(t.TempDir(), objstore.DiskOptions{NoSync: true}))(t)
				t.Cleanup(func() { d.Close() })
				store = d
			}
			test(t, gapped(t, store, shape.target, shape.pad))
		})
	}
}

// TestReadsPassGaps: for any encoding, limit and start, a reader that continues where an answer
// says gets each remaining record in order and reaches the end.
func TestReadsPassGaps(t *testing.T) {
	t.Parallel()
	forEachGapped(t, func(t *testing.T, g *gappy) {
		limits := []string{"max-records=1", "max-records=2", "max-records=100", "max-records=100&max-bytes=1", "max-records=3&max-bytes=45000"}
		for _, form := range []string{api.Multipart, api.JSON, api.NDJSON, api.RecordBatch} {
			for i, limit := range limits {
				for begin := range g.end + 1 {
					if i > 0 && begin%9 != 0 || begin%int64(sebtest.Runs(1, 90)) != 0 {
						continue
					}
					g.readAll(t, form, begin, limit)
				}
			}
		}
	})
}

func (g *gappy) readAll(t *testing.T, form string, begin int64, limit string) {
	t.Helper()
	var got []string
	for at, requests := begin, int64(0); at < g.end || requests == 0; requests++ {
		if requests > g.end {
			t.Fatalf("%s from %d, %s: no end", form, begin, limit)
		}
		a := g.get(fmt.Sprintf("/records?topic-name=c&offset=%d&timeout=0s&%s", at, limit), form)
		values, offsets := readAnswer(t, a, form, at)
		resume, err := strconv.ParseInt(a.header.Get(api.HeaderResumeOffset), 10, 64)
		if err != nil || a.header.Get(api.HeaderNextOffset) != fmt.Sprint(g.end) {
			t.Fatalf("%s at %d: %v", form, at, a.header)
		}
		if resume <= at && at < g.end || resume > g.end {
			t.Fatalf("%s at %d, %s: continue at %d", form, at, limit, resume)
		}
		if n := len(offsets); n > 0 && resume <= offsets[n-1] {
			t.Fatalf("%s at %d, %s: offsets %v, continue at %d", form, at, limit, offsets, resume)
		}
		for i, o := range offsets {
			if values[i] != g.values[o] || !slices.Contains(g.offsets, o) {
				t.Fatalf("%s at %d, %s: offset %d holds %.20q", form, at, limit, o, values[i])
			}
		}
		left := len(g.from(at))
		enough := map[string]int{"max-records=1": 1, "max-records=2": 2, "max-records=100": 100}[limit]
		if form != api.RecordBatch && (enough > 0 && len(values) != min(enough, left) || len(values) == 0 && left > 0) {
			t.Fatalf("%s at %d, %s: %d records, want %d", form, at, limit, len(values), left)
		}
		must.Equalf(t, a.status == http.StatusPartialContent, form == api.Multipart && left == 0, "%s at %d, %s: %d", form, at, limit, a.status)
		got = append(got, values...)
		at = resume
	}
	if want := g.from(begin); !slices.Equal(got, want) {
		t.Fatalf("%s from %d, %s: %d records, want %d: %.80q", form, begin, limit, len(got), len(want), got)
	}
}

// TestBatchesAreCountedByRecords checks that a read of n records in batches gets n, also after
// empty batches.
func TestBatchesAreCountedByRecords(t *testing.T) {
	for _, target := range []int64{1 << 20, 70} {
		g := gapped(t, objstore.NewMemory(), target, 0)
		for n := 1; n <= len(g.offsets)+1; n++ {
			a := g.get(fmt.Sprintf("/records?topic-name=c&offset=0&max-records=%d", n), api.RecordBatch)
			if values, _ := readAnswer(t, a, api.RecordBatch, 0); len(values) < min(n, len(g.offsets)) || len(values) > n+3 {
				t.Errorf("wanted %d records, got %d", n, len(values))
			}
		}
	}
}

// TestOldReadersPassGaps covers readers that do not know gaps. They continue after the last offset,
// or advance by the number of values, as the original's client does. They reach the end too.
func TestOldReadersPassGaps(t *testing.T) {
	g := gapped(t, objstore.NewMemory(), 1<<20, 0)
	for _, limit := range []int{1, 3, 100} {
		seen := map[string]bool{}
		at, requests := int64(0), 0
		for ; ; requests++ {
			values := g.get(fmt.Sprintf("/records?topic-name=c&offset=%d&timeout=0s&max-records=%d", at, limit)).unform(t)
			if len(values) == 0 {
				break
			}
			for _, v := range values {
				seen[v] = true
			}
			if at += int64(len(values)); requests > 100 {
				t.Fatalf("limit %d: no end", limit)
			}
		}
		check.Equalf(t, len(seen), len(g.offsets), "limit %d: different values in %d requests", limit, requests)
		var got []int64
		for at := int64(0); ; {
			_, offsets := readAnswer(t, g.get(fmt.Sprintf("/records?topic-name=c&offset=%d&timeout=0s&max-records=%d", at, limit), api.JSON), api.JSON, at)
			if len(offsets) == 0 {
				break
			}
			got = append(got, offsets...)
			at = offsets[len(offsets)-1] + 1
		}
		check.EqualSlicesf(t, got, g.offsets, "limit %d", limit)
	}
}

// TestLongPollBeforeGap checks that a read waits for the next record if only removed records
// follow, as at the end.
func TestLongPollBeforeGap(t *testing.T) {
	for _, form := range []string{api.Multipart, api.JSON, api.NDJSON} {
		g := gapped(t, objstore.NewMemory(), 1<<20, 0)
		end := g.end
		offsets := []int64{32, 33, end - 1, end}
		done := make(chan *answered, len(offsets))
		for _, at := range offsets {
			go func() { done <- g.get(fmt.Sprintf("/records?topic-name=c&offset=%d&timeout=1m", at), form) }()
		}
		sebtest.Eventually(t, "all reads wait", func() bool {
			if len(done) > 0 {
				t.Fatalf("%s: a read did not wait: %s", form, <-done)
			}
			return int(g.waiting()) == len(offsets)
		})
		g.append(t, keyedBatch{record.None, "new=1"}, 0)
		for range offsets {
			a := <-done
			values, offsets := readAnswer(t, a, form, 0)
			if len(values) != 1 || form != api.Multipart && offsets[0] != end || a.header.Get(api.HeaderResumeOffset) != fmt.Sprint(end+1) {
				t.Errorf("%s: %v %v, %v", form, values, offsets, a.header)
			}
		}
	}
	g := gapped(t, objstore.NewMemory(), 1<<20, 0)
	begin := time.Now()
	if a := g.get("/records?topic-name=c&offset=33&timeout=200ms", api.JSON); string(a.body) != "[]\n" || time.Since(begin) < 200*time.Millisecond {
		t.Errorf("after %s: %s", time.Since(begin), a)
	}
}

// TestSingleRecordsOfACompactedTopic covers GET and HEAD /record.
func TestSingleRecordsOfACompactedTopic(t *testing.T) {
	t.Parallel()
	forEachGapped(t, func(t *testing.T, g *gappy) {
		for o := range g.end + 2 {
			if o < g.end && o%int64(sebtest.Runs(1, 3)) != 0 {
				continue
			}
			path := fmt.Sprintf("/record?topic-name=c&offset=%d", o)
			a, head := g.get(path), g.do(call{method: "HEAD", path: path, header: map[string]string{"Accept": "*/*"}})
			if head.status != a.status {
				t.Errorf("offset %d: HEAD %d, GET %d", o, head.status, a.status)
			}
			switch {
			case slices.Contains(g.offsets, o):
				if a.status != 200 || string(a.body) != g.values[o] {
					t.Errorf("offset %d: %.60s", o, a)
				}
			case o >= g.end:
				if p := a.problem(t); p.Code != api.OffsetBeyondEnd || *p.NextOffset != g.end {
					t.Errorf("offset %d: %+v", o, p)
				}
			default:
				if p := a.problem(t); p.Code != api.OffsetCompacted || *p.Offset != o {
					t.Errorf("offset %d: %+v", o, p)
				}
			}
		}
	})
}

// TestStreamsPassGaps checks that an event stream from any offset gives the remaining and then the
// new records.
func TestStreamsPassGaps(t *testing.T) {
	t.Parallel()
	g := gapped(t, objstore.NewMemory(), 70, 0)
	for begin := range g.end + 1 {
		query, last := fmt.Sprintf("topic-name=c&offset=%d", begin), ""
		if begin%2 == 1 {
			query, last = "topic-name=c", fmt.Sprint(begin-1)
		}
		ch := g.events(t.Context(), query, last)
		for _, o := range g.offsets {
			if o >= begin {
				wantEvent(t, ch, o, g.values[o])
			}
		}
		if begin == g.end {
			o := g.end
			g.append(t, keyedBatch{record.None, "new=value"}, 0)
			wantEvent(t, ch, o, "value")
		}
	}
}

// TestGroupsPassGaps checks that a group can start in a gap, and that the offsets it commits bring
// its lag to zero.
func TestGroupsPassGaps(t *testing.T) {
	g := gapped(t, objstore.NewMemory(), 1<<20, 0)
	at := int64(0)
	for range len(g.offsets) + 2 {
		a := g.get("/records?topic-name=c&group=g&timeout=0s&max-records=2", api.JSON)
		if a.header.Get(api.HeaderOffset) != fmt.Sprint(at) {
			t.Fatalf("began at %s, committed was %d", a.header.Get(api.HeaderOffset), at)
		}
		at, _ = strconv.ParseInt(a.header.Get(api.HeaderResumeOffset), 10, 64)
		if put := g.do(call{
			method: "PUT", path: "/offsets?group=g&topic-name=c&partition=0", header: map[string]string{"Content-Type": api.JSON},
			body: strings.NewReader(fmt.Sprintf(`{"offset":%d}`, at)),
		}); put.status != 200 {
			t.Fatal(put)
		}
	}
	var group api.Group
	if a := g.get("/groups?group=g"); json.Unmarshal(a.body, &group) != nil || group.Lag != 0 || len(group.Offsets) != 1 || group.Offsets[0].Offset != g.end {
		t.Errorf("%s", a)
	}
	if at != g.end {
		t.Errorf("the group committed %d of %d", at, g.end)
	}
}

// TestTopicRecordCounts checks that GET /topic counts records, not offsets, also after a trim.
func TestTopicRecordCounts(t *testing.T) {
	g := gapped(t, objstore.NewMemory(), 1<<20, 0)
	p := func() api.Partition { return g.get("/topic?topic-name=c").topic(t).Partitions[0] }
	if got := p(); got.Records != int64(len(g.offsets)) || got.Start != 0 || got.Next != g.end || got.Compacted != g.end {
		t.Errorf("%+v", got)
	}
	o := g.end
	g.append(t, keyedBatch{record.None, "a=x b=x c=x"}, 0)
	if got := p(); got.Records != int64(len(g.offsets))+3 {
		t.Errorf("%+v", got)
	}
	must.Get(g.b.Trim(t.Context(), "c", 0, o+1))(t)
	if got := p(); got.Records != 2 || got.Start != o+1 {
		t.Errorf("%+v", got)
	}
}

// TestSettingsOfCompactedTopics covers valid settings and the faults of invalid ones.
func TestSettingsOfCompactedTopics(t *testing.T) {
	s := start(t)
	for _, policy := range []string{"compact", "compact,delete", "delete"} {
		body := fmt.Sprintf(`{"settings":{"cleanup-policy":%q,"delete-retention-time":"0s","min-compaction-lag":"1d"}}`, policy)
		want := fmt.Sprintf("map[cleanup-policy:%s delete-retention-time:0s min-compaction-lag:24h0m0s]", policy)
		if got := s.put("t", body).topic(t); fmt.Sprint(got.Settings) != want {
			t.Errorf("%s: %v", policy, got.Settings)
		}
	}
	s.put("t", `{"settings":{"cleanup-policy":"compact","min-compaction-lag":null,"delete-retention-time":""}}`)
	if got := s.get("/topic?topic-name=t").topic(t); fmt.Sprint(got.Settings) != "map[cleanup-policy:compact]" {
		t.Errorf("%v", got.Settings)
	}
	for body, says := range map[string][]string{
		`{"settings":{"cleanup-policy":"delete,compact"}}`:    {"cleanup-policy", "delete,compact", "compact,delete"},
		`{"settings":{"cleanup-policy":true}}`:                {"cleanup-policy", "true"},
		`{"settings":{"delete-retention-time":"unlimited"}}`:  {"delete-retention-time", "unlimited"},
		`{"settings":{"delete-retention-time":-1}}`:           {"delete-retention-time", "-1"},
		`{"settings":{"delete-retention-time":"-1s"}}`:        {"delete-retention-time", "-1s", "less than 0s"},
		`{"settings":{"min-compaction-lag":"106751991168d"}}`: {"min-compaction-lag", "106751991168d", "9223372036854775807ms"},
		`{"settings":{"min-compaction-lag-time":"1s"}}`:       {"min-compaction-lag-time", "min-compaction-lag,"},
		`{"settings":{"min.compaction.lag.ms":"1"}}`:          {"min.compaction.lag.ms", "min-compaction-lag"},
		`{"settings":{"delete.retention.ms":1}}`:              {"delete.retention.ms", "delete-retention-time"},
		`{"partitions":2}`:                                    {"compacted"},
		`{"settings":{"min-compaction-lag":"x"}}`:             {"min-compaction-lag", `"x"`},
		`{"settings":{"min-cleanable-dirty-ratio":1.5}}`:      {"min-cleanable-dirty-ratio", "1.5", "from 0 to 1"},
	} {
		p := s.put("t", body).problem(t)
		for _, part := range says {
			if p.Code != api.BadRequest || !strings.Contains(p.Detail, part) {
				t.Errorf("%s: %+v, want %q", body, p, part)
			}
		}
	}
}
