package httpapi

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/recordtest"
)

// sequenced posts as an idempotent producer.
func (s *server) sequenced(query, kind, body string, headers ...string) *answered {
	s.t.Helper()
	h := map[string]string{"Content-Type": kind, "Accept": "application/json, " + api.ProblemJSON}
	for i := 0; i < len(headers); i += 2 {
		h[headers[i]] = headers[i+1]
	}
	return s.do(call{method: "POST", path: "/records?" + query, body: strings.NewReader(body), header: h})
}

func batchOf(t *testing.T, p *record.Producer, values ...string) string {
	t.Helper()
	recs := make([]record.Record, len(values))
	for i, v := range values {
		recs[i].Value = []byte(v)
	}
	b, _ := recordtest.Encode(recs, record.EncodeOptions{Producer: p})
	return string(b)
}

func TestRepeatedProduceInEveryEncoding(t *testing.T) {
	s := start(t)
	newTopic(s, "t", 2)
	multipart, kind := form("a", "b")
	for i, f := range []struct{ kind, body string }{
		{kind, multipart},
		{api.OctetStream, "a"},
		{api.TextPlain, "a\nb"},
		{api.NDJSON, `{"key":"k","value":"a"}`},
		{api.JSON, `[{"value":"a"},{"value":"b"}]`},
		{api.RecordBatch, batchOf(t, nil, "a", "b")},
		{api.RecordBatch, batchOf(t, &record.Producer{ID: 6}, "a", "b")},
	} {
		send := func() *answered {
			a := s.sequenced("topic-name=t&partition=1", f.kind, f.body, api.HeaderProducerID, fmt.Sprint(i), api.HeaderSequence, "0")
			s.must(201, a, nil)
			return a
		}
		first, again := send(), send()
		if strings.Contains(string(first.body), "duplicate") {
			t.Errorf("%s: %s", f.kind, first)
		}
		if want := strings.TrimSuffix(string(first.body), "}") + `,"duplicate":true}`; string(again.body) != want {
			t.Errorf("%s: %s, want %s", f.kind, again, want)
		}
	}
	var topic api.Topic
	if s.must(200, s.get("/topic?topic-name=t&partition=1"), &topic); topic.NextOffset != 2+1+2+1+2+2+2 {
		t.Errorf("%d records", topic.NextOffset)
	}
	// The stored record names its producer.
	a := s.get("/records?topic-name=t&partition=1&offset=3&max-records=1", api.RecordBatch)
	b, _, err := record.Split(a.body)
	if err != nil || b.ProducerID() != 2 || b.BaseSequence() != 0 {
		t.Errorf("%v %d", err, b.ProducerID())
	}
	if _, err := record.Verify(a.body); err != nil {
		t.Error(err)
	}
}

func TestSequences(t *testing.T) {
	s := start(t)
	put := func(epoch, sequence, body string) *answered {
		return s.sequenced("topic-name=t&partition=0", api.TextPlain, body, api.HeaderProducerID, "9", api.HeaderProducerEpoch, epoch, api.HeaderSequence, sequence)
	}
	s.must(201, put("1", "0", "a\nb"), nil)
	s.must(201, put("1", "2", "c"), nil)
	for _, sequence := range []string{"4", "1", "2147483647"} {
		if p := put("1", sequence, "x").problem(t); p.Code != api.SequenceGap {
			t.Errorf("sequence %s: %+v", sequence, p)
		}
	}
	if p := put("0", "3", "x").problem(t); p.Code != api.ProducerFenced {
		t.Errorf("old epoch: %+v", p)
	}
	s.must(201, put("2", "0", "d"), nil)
	if p := put("1", "3", "x").problem(t); p.Code != api.ProducerFenced {
		t.Errorf("old epoch: %+v", p)
	}
	if p := s.sequenced("topic-name=t&partition=0&expected-offset=9", api.TextPlain, "x", api.HeaderProducerID, "9", api.HeaderProducerEpoch, "2", api.HeaderSequence, "1").problem(t); p.Code != api.OffsetMismatch || *p.NextOffset != 4 {
		t.Errorf("expected offset: %+v", p)
	}
	s.must(201, put("2", "1", "e"), nil) // the refused request used no sequence
}

func TestBadProducerHeaders(t *testing.T) {
	s := start(t)
	own := batchOf(t, &record.Producer{ID: 5, Epoch: 1, Sequence: 10}, "a")
	id, epoch, sequence := api.HeaderProducerID, api.HeaderProducerEpoch, api.HeaderSequence
	good := map[string]string{id: "5", epoch: "1", sequence: "10"}
	for _, c := range []struct {
		change map[string]string // "-": absent
		query  string
		field  string
	}{
		{map[string]string{id: "x"}, "", id},
		{map[string]string{id: "-1"}, "", id},
		{map[string]string{id: "9223372036854775808"}, "", id},
		{map[string]string{id: "-"}, "", id},
		{map[string]string{epoch: "32768"}, "", epoch},
		{map[string]string{epoch: ""}, "", epoch},
		{map[string]string{sequence: "2147483648"}, "", sequence},
		{map[string]string{sequence: "-"}, "", sequence},
		{map[string]string{sequence: "1.0"}, "", sequence},
		{nil, "topic-name=t", "partition"},
		{map[string]string{id: "6"}, "", id},
		{map[string]string{epoch: "2"}, "", epoch},
		{map[string]string{epoch: "-"}, "", epoch},
		{map[string]string{sequence: "11"}, "", sequence},
	} {
		h := maps.Clone(good)
		maps.Copy(h, c.change)
		var list []string
		for k, v := range h {
			if v != "-" || k == id && c.change[id] == "-1" {
				list = append(list, k, v)
			}
		}
		query := c.query
		if query == "" {
			query = "topic-name=t&partition=0"
		}
		if p := s.sequenced(query, api.RecordBatch, own, list...).problem(t); p.Code != api.BadRequest || p.Field != c.field {
			t.Errorf("%v %s: %s, field %q, want %q", c.change, query, p.Code, p.Field, c.field)
		}
	}
	s.must(404, s.get("/topic?topic-name=t"), nil) // no topic was created
	s.must(201, s.sequenced("topic-name=t&partition=0", api.RecordBatch, own, id, "5", epoch, "1", sequence, "10"), nil)
}
