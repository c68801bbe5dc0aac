package httpapi

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// stampedServer is a broker with a topic t that has a key index and timestamp-type=LogAppendTime.
func stampedServer(t *testing.T) *server {
	t.Helper()
	s := start(t, func(c *setup) { c.keys = true })
	s.must(201, s.send("PUT", "/topic?topic-name=t", `{"settings":{"key-index":true,"timestamp-type":"append"}}`), nil)
	return s
}

// appendTimes returns the append time of each offset of topic t in milliseconds.
func (s *server) appendTimes() (times []int64) {
	p := s.b.View().TopicByName("t").Partitions.At(0)
	for i := range p.Ranges {
		for range p.Ranges[i].Span {
			times = append(times, p.Ranges[i].AppendTime/1000)
		}
	}
	return times
}

// TestAppendTimeInEveryEncoding: reads in any encoding return the append time, whatever time the
// client sent in any encoding.
func TestAppendTimeInEveryEncoding(t *testing.T) {
	s := stampedServer(t)
	mp, kind := form("m1", strings.Repeat("m", 30_000))
	timed := func(value string, at int64) record.Record {
		return record.Record{Key: []byte("k"), Value: []byte(value), Timestamp: at}
	}
	for _, c := range []struct{ kind, body string }{
		{kind, mp},
		{api.OctetStream, "o"},
		{api.TextPlain, "a\nb"},
		{api.NDJSON, `{"value":"n1","timestamp":1,"key":"k"}` + "\n" + `{"value":"n2","timestamp":9000000000000}`},
		{api.JSON, `[{"value":"j1","timestamp":7,"key":"j"},{"value":"j2"}]`},
		{api.RecordBatch, string(batch(t, record.EncodeOptions{}, timed("b1", 100), timed("b2", 5)))},
		{api.RecordBatch, string(batch(t, record.EncodeOptions{Compression: record.Zstd}, timed("z1", -5), timed("z2", 1<<50)))},
	} {
		s.mustPost("topic-name=t", c.kind, c.body)
	}
	want := s.appendTimes()
	must.Equalf(t, len(want), 13, "records")
	verify := func(form string, offset, at int64) {
		t.Helper()
		if at != want[offset] {
			t.Errorf("%s: offset %d has time %d, appended at %d", form, offset, at, want[offset])
		}
		if offset > 0 && want[offset] < want[offset-1] {
			t.Errorf("offset %d goes back", offset)
		}
	}
	for _, r := range s.records("t", 0) {
		verify(api.JSON, r.Offset, r.Timestamp)
	}
	const query = "/records?topic-name=t&offset=0&max-records=100"
	lines := strings.Split(strings.TrimSpace(string(s.get(query, api.NDJSON).body)), "\n")
	var reader record.Reader
	read := 0
	for reader.Reset(s.get(query, api.RecordBatch).body, 0); reader.Next(); read++ {
		verify(api.RecordBatch, reader.Offset(), reader.Record().Timestamp)
	}
	stream := s.events(t.Context(), "topic-name=t&offset=0", "")
	for i := range want {
		for form, text := range map[string]string{api.NDJSON: lines[i], api.EventStream: next(t, stream).data} {
			var r api.Record
			if err := json.Unmarshal([]byte(text), &r); err != nil || r.Offset != int64(i) {
				t.Fatalf("%s: %q, %v", form, text, err)
			}
			verify(form, r.Offset, r.Timestamp)
		}
	}
	if reader.Err() != nil || read != len(want) || len(lines) != len(want) {
		t.Errorf("%d and %d of %d records, %v", read, len(lines), len(want), reader.Err())
	}
	s.checkKeyTimes(t, verify)
}

// checkKeyTimes reads topic t by key: k, whose newest record is at offset 12, and j.
func (s *server) checkKeyTimes(t *testing.T, verify func(form string, offset, at int64)) {
	t.Helper()
	var r api.PartitionRecord
	s.must(200, s.get("/key?topic-name=t&key=k&partition=0&min-offset=12", api.JSON), &r)
	verify("key", r.Offset, r.Timestamp)
	h := s.get("/key?topic-name=t&key=k").header
	at, _ := strconv.ParseInt(h.Get("Seb-Timestamp"), 10, 64)
	verify("Seb-Timestamp", 12, at)
	var keys api.Keys
	s.must(200, s.get("/keys?topic-name=t", api.JSON), &keys)
	for _, e := range keys.Keys {
		verify("keys", e.Offset, e.Timestamp)
	}
	var history api.KeyHistory
	s.must(200, s.get("/key/history?topic-name=t&key=k", api.JSON), &history)
	for _, r := range history.Records {
		verify("history", r.Offset, r.Timestamp)
	}
	if r.Offset != 12 || h.Get("Seb-Offset") != "12" || len(keys.Keys) != 2 || len(history.Records) != 5 {
		t.Errorf("%+v, %v, %+v, %d records", r, h, keys, len(history.Records))
	}
}

// TestClientsCannotSetAppendTime: a batch that claims LogAppendTime is refused, on every topic. So
// a batch that was read cannot be sent again unchanged.
func TestClientsCannotSetAppendTime(t *testing.T) {
	s := stampedServer(t)
	s.mustPost("topic-name=t", api.TextPlain, "a")
	stamped := s.get("/records?topic-name=t&offset=0", api.RecordBatch).body
	claimed := batch(t, record.EncodeOptions{}, value("b"))
	record.StampAppendTime(claimed, 99)
	for _, topic := range []string{"t", "plain"} {
		for _, b := range [][]byte{stamped, claimed} {
			p := s.post("topic-name="+topic, api.RecordBatch, string(b)).problem(t)
			if p.Code != api.BadRequest || p.Field != record.FieldAttributes || !strings.Contains(p.Detail, "log append time set by a client") {
				t.Errorf("%s: %+v", topic, p)
			}
		}
	}
	check.Equalf(t, len(s.appendTimes()), 1, "records")
}

// TestRetryOfAStampedBatch: a retry with the same bytes is a duplicate, although the stored batch
// has another checksum.
func TestRetryOfAStampedBatch(t *testing.T) {
	s := stampedServer(t)
	b := batch(t, record.EncodeOptions{Producer: &record.Producer{ID: 4}}, value("v"))
	var first api.Produced
	s.must(201, s.post("topic-name=t", api.RecordBatch, string(b)), &first)
	before := s.records("t", 0)
	for range 3 {
		var again api.Produced
		s.must(201, s.post("topic-name=t", api.RecordBatch, string(b)), &again)
		check.Equalf(t, *again.FirstOffset, *first.FirstOffset, "%+v, then %+v", first, again)
	}
	if after := s.records("t", 0); !bytes.Equal(asJSON(after), asJSON(before)) || len(after) != 1 || after[0].Timestamp != s.appendTimes()[0] {
		t.Errorf("%+v, then %+v", before, after)
	}
}

func asJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func TestTimestampTypeIsASetting(t *testing.T) {
	s := stampedServer(t)
	settings := func(text string) map[string]string {
		t.Helper()
		var topic api.Topic
		a := s.send("PUT", "/topic?topic-name=t", `{"settings":{"timestamp-type":`+text+`}}`)
		s.must(200, a, &topic)
		return topic.Settings
	}
	for given, want := range map[string]string{`"append"`: "LogAppendTime", `"LogAppendTime"`: "LogAppendTime", `"create"`: "CreateTime", `"CreateTime"`: "CreateTime", `null`: ""} {
		check.Equalf(t, settings(given)["timestamp-type"], want, "%s", given)
	}
	settings(`"create"`)
	s.mustPost("topic-name=t", api.JSON, `{"value":"a","timestamp":5}`)
	if r := s.records("t", 0)[0]; r.Timestamp != 5 {
		t.Errorf("%+v", r)
	}
	p := s.send("PUT", "/topic?topic-name=u", `{"settings":{"timestamp-type":"now"}}`).problem(t)
	if p.Code != api.BadRequest || p.Field != "settings" || !strings.Contains(p.Detail, `timestamp-type: "now" is neither create (CreateTime) nor append (LogAppendTime)`) {
		t.Errorf("%+v", p)
	}
}
