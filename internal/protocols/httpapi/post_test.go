package httpapi

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
	"github.com/sebbroker/seb/test/sebtest"
)

// batch encodes values as one RecordBatch v2.
func batch(t *testing.T, o record.EncodeOptions, recs ...record.Record) []byte {
	t.Helper()
	b, _ := recordtest.Encode(recs, o)
	return b
}

func value(v string) record.Record { return record.Record{Timestamp: testNow, Value: []byte(v)} }

// values reads all values of a partition as JSON.
func (s *server) values(topic string, partition int) []string {
	s.t.Helper()
	var out []string
	for _, r := range s.records(topic, partition) {
		switch {
		case r.Value != nil:
			out = append(out, *r.Value)
		case r.ValueBase64 != nil:
			out = append(out, "base64:"+*r.ValueBase64)
		default:
			out = append(out, "null")
		}
	}
	return out
}

func (s *server) records(topic string, partition int) []api.Record {
	s.t.Helper()
	a := s.get(fmt.Sprintf("/records?topic-name=%s&partition=%d&offset=0&timeout=0s&max-records=100000", topic, partition), api.JSON)
	var list []api.Record
	if err := json.Unmarshal(a.body, &list); err != nil || a.status != 200 {
		s.t.Fatalf("%s: %v", a, err)
	}
	for i, r := range list {
		must.Equalf(s.t, r.Offset, int64(i), "record %d has offset", i)
	}
	return list
}

func TestEveryEncodingIsStored(t *testing.T) {
	s := start(t)
	mp, kind := form("m1", "m2")
	for _, c := range []struct{ kind, body, answer string }{
		{kind, mp, `{"offsets":[0,1]}`},
		{api.OctetStream, "o\nk", `{"topic":"t","partition":0,"first_offset":2,"count":1}`},
		{api.TextPlain, "a\nb\n\nc", `{"topic":"t","partition":0,"first_offset":3,"count":4}`},
		{"text/plain; charset=utf-8", "d", `{"topic":"t","partition":0,"first_offset":7,"count":1}`},
		{api.NDJSON, "{\"value\":\"n1\"}\n{\"value\":null,\"key\":\"k\"}\n", `{"topic":"t","partition":0,"first_offset":8,"count":2}`},
		{api.JSON, `[{"value_base64":"/w==","headers":{"h":"1"},"timestamp":7}]`, `{"topic":"t","partition":0,"first_offset":10,"count":1}`},
		{api.JSON, `{"value":"one"}`, `{"topic":"t","partition":0,"first_offset":11,"count":1}`},
		{api.RecordBatch, string(batch(t, record.EncodeOptions{}, value("b1"), value("b2"))), `{"topic":"t","partition":0,"first_offset":12,"count":2}`},
		{api.RecordBatch, string(batch(t, record.EncodeOptions{Compression: record.Zstd}, value("z1"), value("z2"))), `{"topic":"t","partition":0,"first_offset":14,"count":2}`},
	} {
		if a := s.mustPost("topic-name=t", c.kind, c.body); string(a.body) != c.answer {
			t.Errorf("%s: %s, want %s", c.kind, a, c.answer)
		}
	}
	want := []string{"m1", "m2", "o\nk", "a", "b", "", "c", "d", "n1", "null", "base64:/w==", "one", "b1", "b2", "z1", "z2"}
	check.EqualSlicesf(t, s.values("t", 0), want, "stored")
	r := s.records("t", 0)[10]
	if r.Timestamp != 7 || len(r.Headers) != 1 || r.Headers[0].Key != "h" || *r.Headers[0].Value != "1" || r.Key != nil {
		t.Errorf("record 10: %+v", r)
	}
}

func TestEveryEncodingOfUnknownLengthIsStored(t *testing.T) {
	s := start(t)
	big := strings.Repeat("x", sebtest.Runs(20, 5)<<10)
	mp, kind := form("m1", big)
	for i, c := range []struct{ kind, body string }{
		{kind, mp},
		{api.OctetStream, big},
		{api.TextPlain, big},
		{api.NDJSON, `{"value":"` + big + `"}`},
		{api.RecordBatch, string(batch(t, record.EncodeOptions{}, value(big)))},
	} {
		a := s.do(call{
			method: "POST", path: "/records?topic-name=t", body: iotest.OneByteReader(strings.NewReader(c.body)),
			header: map[string]string{"Content-Type": c.kind, "Accept": api.ProblemJSON},
		})
		check.Equalf(t, a.status, 201, "%d %s: %s", i, c.kind, a)
	}
	if got := s.values("t", 0); len(got) != 6 || got[0] != "m1" || slices.ContainsFunc(got[1:], func(v string) bool { return v != big }) {
		t.Errorf("%d values stored", len(got))
	}
}

func TestRecordsAreSpreadByKey(t *testing.T) {
	s := start(t)
	if a := s.do(call{method: "PUT", path: "/topic?topic-name=t", body: strings.NewReader(`{"partitions":5}`)}); a.status != 201 {
		t.Fatal(a)
	}
	var lines strings.Builder
	want := map[int32][]string{}
	for i := range 100 {
		key := fmt.Sprint("key", i%7)
		fmt.Fprintf(&lines, "{\"key\":%q,\"value\":\"%d\"}\n", key, i)
		p := record.PartitionOf([]byte(key), 5)
		want[p] = append(want[p], fmt.Sprint(i))
	}
	lines.WriteString("{\"value\":\"no key\"}\n")
	want[0] = append(want[0], "no key")
	a := s.mustPost("topic-name=t", api.NDJSON, lines.String())
	var out api.Produced
	if err := json.Unmarshal(a.body, &out); err != nil || out.Count != 101 || out.Partition != nil || len(out.Results) != len(want) {
		t.Fatalf("%s", a)
	}
	for _, r := range out.Results {
		if *r.FirstOffset != 0 || r.Count != int64(len(want[r.Partition])) || r.Code != "" {
			t.Errorf("result %+v", r)
		}
		check.EqualSlicesf(t, s.values("t", int(r.Partition)), want[r.Partition], "partition %d", r.Partition)
	}
	// partition= accepts all records, regardless of their keys.
	a = s.mustPost("topic-name=t&partition=4", api.NDJSON, lines.String())
	if !strings.HasPrefix(string(a.body), `{"topic":"t","partition":4,"first_offset":`) {
		t.Errorf("%s", a)
	}
	// Batches are not split.
	keyed := func(keys ...string) string {
		var recs []record.Record
		for _, k := range keys {
			recs = append(recs, record.Record{Timestamp: testNow, Key: []byte(k), Value: []byte("v")})
		}
		return string(batch(t, record.EncodeOptions{}, recs...))
	}
	if p := s.post("topic-name=t", api.RecordBatch, keyed("key0", "key1", "key2", "key3", "key4")); p.problem(t).Field != "partition" {
		t.Errorf("%s", p)
	}
	a = s.mustPost("topic-name=t", api.RecordBatch, keyed("key1")+keyed("key1"))
	if !strings.HasPrefix(string(a.body), fmt.Sprintf(`{"topic":"t","partition":%d,`, record.PartitionOf([]byte("key1"), 5))) {
		t.Errorf("%s", a)
	}
}

func TestAllOrNothing(t *testing.T) {
	s := start(t)
	s.mustPost("topic-name=t", api.TextPlain, "first")
	a := s.post("topic-name=t", api.NDJSON, strings.Repeat("{\"value\":\"v\"}\n", 5000)+"{\"vlaue\":\"v\"}\n")
	if p := a.problem(t); p.Code != api.BadRequest || *p.Record != 5000 || p.Field != `"vlaue"` || !strings.Contains(p.Detail, "record 5000") {
		t.Errorf("%s", a)
	}
	check.Equalf(t, len(s.values("t", 0)), 1, "records were stored")
	if a := s.post("topic-name=other", api.JSON, "{}"); a.status != 400 {
		t.Errorf("%s", a)
	}
	if a := s.get("/topic?topic-name=other"); a.problem(t).Code != api.UnknownTopic {
		t.Errorf("a bad request created a topic: %s", a)
	}
}

func TestManyRecordsComeBack(t *testing.T) {
	s := start(t)
	const n = 20_000
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, "%d\n", i)
	}
	s.mustPost("topic-name=t", api.TextPlain, lines.String())
	got := s.values("t", 0)
	if len(got) != n {
		t.Fatalf("%d of %d", len(got), n)
	}
	for i, v := range got {
		must.Equalf(t, v, fmt.Sprint(i), "record %d", i)
	}
	if m := s.get("/records?topic-name=t&offset=0&max-records=1000000").unform(t); !slices.Equal(m, got) {
		t.Errorf("multipart gives %d other records", len(m))
	}
	// The list of offsets is longer than one write of the answer.
	body, kind := form(got...)
	var out api.Offsets
	if err := json.Unmarshal(s.mustPost("topic-name=t", kind, body).body, &out); err != nil || len(out.Offsets) != n || out.Offsets[n-1] != 2*n-1 {
		t.Errorf("%v, %d offsets", err, len(out.Offsets))
	}
}

func TestTopicSettingsApply(t *testing.T) {
	s := start(t)
	put := func(topic, settings string) {
		t.Helper()
		if a := s.do(call{method: "PUT", path: "/topic?topic-name=" + topic, body: strings.NewReader(`{"settings":` + settings + `}`)}); a.status != 201 {
			t.Fatal(a)
		}
	}
	put("stamped", `{"timestamp-type":"LogAppendTime"}`)
	s.mustPost("topic-name=stamped", api.JSON, `{"value":"a","timestamp":5}`)
	if r := s.records("stamped", 0)[0]; r.Timestamp < testNow {
		t.Errorf("timestamp %d comes from the client", r.Timestamp)
	}
	for _, codec := range []string{"gzip", "snappy", "lz4", "zstd"} {
		put(codec, `{"compression":"`+codec+`"}`)
		mp, kind := form(strings.Repeat("m", 1000), "")
		s.mustPost("topic-name="+codec, kind, mp)
		s.mustPost("topic-name="+codec, api.TextPlain, strings.Repeat("t", 1000)+"\nu")
		s.mustPost("topic-name="+codec, api.OctetStream, strings.Repeat("o", 300<<10))
		want := []string{strings.Repeat("m", 1000), "", strings.Repeat("t", 1000), "u", strings.Repeat("o", 300<<10)}
		if got := s.values(codec, 0); !slices.Equal(got, want) {
			t.Errorf("%s: read values differ", codec)
		}
		if got := s.get("/records?topic-name=" + codec + "&offset=0").unform(t); !slices.Equal(got, want) {
			t.Errorf("%s: values read as multipart differ", codec)
		}
		stored := s.get("/records?topic-name="+codec+"&offset=0&max-records=1", api.RecordBatch).body
		if b, _, err := record.Split(stored); err != nil || b.Compression().String() != codec {
			t.Errorf("%s: stored as %s, %v", codec, b.Compression(), err)
		}
	}
}

func TestExpectedOffset(t *testing.T) {
	s := start(t)
	s.mustPost("topic-name=t&partition=0&expected-offset=0", api.TextPlain, "a\nb")
	a := s.post("topic-name=t&partition=0&expected-offset=0", api.TextPlain, "c")
	if p := a.problem(t); p.Code != api.OffsetMismatch || *p.NextOffset != 2 || *p.Offset != 0 || *p.Partition != 0 || p.Topic != "t" {
		t.Errorf("%s", a)
	}
	s.mustPost("topic-name=t&partition=0&expected-offset=2", api.TextPlain, "c")
	if a := s.post("topic-name=t&expected-offset=3", api.TextPlain, "c"); a.problem(t).Field != "expected-offset" {
		t.Errorf("%s", a)
	}
}

func TestBadBatchesAreRefused(t *testing.T) {
	s := start(t)
	good := func() []byte { return batch(t, record.EncodeOptions{}, value("a"), value("b")) }
	// fixChecksum recomputes the checksum after a change, so that the change itself is refused.
	fixChecksum := func(b []byte) []byte {
		binary.BigEndian.PutUint32(b[17:], record.CRC32C(b[21:]))
		return b
	}
	change := func(at int, v ...byte) []byte { b := good(); copy(b[at:], v); return fixChecksum(b) }
	flipped := good()
	flipped[len(flipped)-2] ^= 1
	for name, c := range map[string]struct {
		body []byte
		code api.Code
	}{
		"broken checksum":           {flipped, api.BadRequest},
		"count above the records":   {change(57, 0, 0, 0, 3), api.BadRequest},
		"count below the records":   {change(57, 0, 0, 0, 1), api.BadRequest},
		"last offset delta lies":    {change(23, 0, 0, 0, 5), api.BadRequest},
		"both lie together":         {append(change(23, 0, 0, 0, 2)[:57], fixChecksum(change(57, 0, 0, 0, 3))[57:]...), api.BadRequest},
		"transactional":             {change(22, 0x10), api.BadRequest},
		"control":                   {change(22, 0x20), api.BadRequest},
		"magic 1":                   {change(16, 1), api.BadRequest},
		"cut short":                 {good()[:len(good())-1], api.BadRequest},
		"a second one cut short":    {append(good(), good()[:70]...), api.BadRequest},
		"garbage":                   {[]byte("hello, this is not a batch at all; it is much longer than a head though"), api.BadRequest},
		"short rubbish":             {[]byte("x"), api.BadRequest},
		"over max-batch-bytes":      {batch(t, record.EncodeOptions{}, value(strings.Repeat("x", 1<<20))), api.TooLarge},
		"decompresses to very much": {batch(t, record.EncodeOptions{Compression: record.Zstd}, value(strings.Repeat("x", 31<<20))), api.TooLarge},
	} {
		if p := s.post("topic-name=t", api.RecordBatch, string(c.body)).problem(t); p.Code != c.code || p.Field == "" && p.Code == api.BadRequest {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if a := s.get("/topics"); string(a.body) != `{"topics":[]}` {
		t.Errorf("%s", a)
	}
}

// TestKeysOfANewTopic: the first records of a topic, which creates it, are in the partitions of their keys.
func TestKeysOfANewTopic(t *testing.T) {
	s := start(t, func(c *setup) { c.broker.DefaultPartitions = 3 })
	var first, second api.Produced
	lines := ""
	for i := range 20 {
		lines += fmt.Sprintf(`{"key":"k%d","value":"v"}`+"\n", i)
	}
	must.NoError(t, json.Unmarshal(s.mustPost("topic-name=t", api.NDJSON, lines).body, &first))
	must.NoError(t, json.Unmarshal(s.mustPost("topic-name=t", api.NDJSON, lines).body, &second))
	if len(first.Results) != 3 || len(second.Results) != 3 {
		t.Fatalf("%+v, then %+v", first, second)
	}
	for i := range first.Results {
		must.Equalf(t, first.Results[i].Count, second.Results[i].Count, "records of partition %d", i)
	}
}
