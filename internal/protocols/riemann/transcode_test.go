package riemann

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/riemanntest"
)

// group is a group of unknown fields around b.
func group(num protowire.Number, b []byte) []byte {
	b = append(protowire.AppendTag(nil, num, protowire.StartGroupType), b...)
	return protowire.AppendTag(b, num, protowire.EndGroupType)
}

// valid are messages by what they show, with the values of their records.
var valid = map[string]struct {
	msg  []byte
	want []string
}{
	"nothing":  {nil, nil},
	"an event": {named("web1", "disk", str(fieldState, "critical")), []string{`{"event":"disk","entity_id":"web1","data":{"state":"critical"}}`}},
	"all fields": {
		named("web1", "disk", str(fieldState, "ok"), str(fieldDescription, "a\n\"b\""), str(fieldTags, "x"), float(fieldTTL, 1.5), str(fieldTags, ""), attr("region", "eu"), sub(fieldAttributes, str(fieldKey, "empty")), varint(fieldTime, 1), sint(fieldMetricInt, -5)),
		[]string{`{"event":"disk","entity_id":"web1","data":{"state":"ok","metric":-5,"description":"a\n\"b\"","tags":["x",""],"ttl":1.5,"region":"eu","empty":""},"occurred_at":"1970-01-01T00:00:01Z"}`},
	},
	"two events and a state between": {
		join(named("a", "s"), sub(fieldStates, str(fieldHost, "b"), str(fieldService, "s"), varint(6, 1)), named("c", "s")),
		[]string{`{"event":"s","entity_id":"a","data":{}}`, `{"event":"s","entity_id":"b","data":{}}`, `{"event":"s","entity_id":"c","data":{}}`},
	},
	"no host and no service":   {ev(), []string{`{"event":"unnamed","entity_id":"unnamed","data":{"host":null,"service":null}}`}},
	"empty host and service":   {named("", ""), []string{`{"event":"unnamed","entity_id":"unnamed","data":{"host":"","service":""}}`}},
	"a service that is cut":    {named("h", strings.Repeat("s", 255)+"é"), []string{`{"event":"` + strings.Repeat("s", 255) + `","entity_id":"h","data":{"service":"` + strings.Repeat("s", 255) + `é"}}`}},
	"a host that is not UTF-8": {named("a\xff\xfeb", "s"), []string{"{\"event\":\"s\",\"entity_id\":\"a\ufffd\ufffdb\",\"data\":{}}"}},
	"a host that grows too long": {named(strings.Repeat("\xff", 400), "s"), []string{
		`{"event":"s","entity_id":"` + strings.Repeat("\ufffd", 341) + `","data":{"host":"` + strings.Repeat("\ufffd", 400) + `"}}`,
	}},
	"an integer of 64 bits":     {named("h", "s", sint(fieldMetricInt, math.MinInt64)), []string{`{"event":"s","entity_id":"h","data":{"metric":-9223372036854775808}}`}},
	"an integer before others":  {named("h", "s", float(fieldMetricF, 2), sint(fieldMetricInt, 3), double(fieldMetricD, 4)), []string{`{"event":"s","entity_id":"h","data":{"metric":3}}`}},
	"a double before a float":   {named("h", "s", double(fieldMetricD, 0.1), float(fieldMetricF, 0.1)), []string{`{"event":"s","entity_id":"h","data":{"metric":0.1}}`}},
	"a double without fraction": {named("h", "s", double(fieldMetricD, 3)), []string{`{"event":"s","entity_id":"h","data":{"metric":3.0}}`}},
	"a float in its short form": {named("h", "s", float(fieldMetricF, 0.1)), []string{`{"event":"s","entity_id":"h","data":{"metric":0.1}}`}},
	"no numbers in JSON":        {named("h", "s", double(fieldMetricD, math.Inf(-1)), float(fieldTTL, float32(math.NaN()))), []string{`{"event":"s","entity_id":"h","data":{"metric":"-Infinity","ttl":"NaN"}}`}},
	"microseconds before seconds": {
		named("h", "s", varint(fieldTimeMicros, 1_500_000), varint(fieldTime, 9)),
		[]string{`{"event":"s","entity_id":"h","data":{},"occurred_at":"1970-01-01T00:00:01.5Z"}`},
	},
	"times beyond RFC 3339": {
		join(named("h", "s", varint(fieldTime, 1<<62)), named("h", "s", varint(fieldTimeMicros, -1<<63), str(fieldState, "x"))),
		[]string{`{"event":"s","entity_id":"h","data":{"time":4611686018427387904}}`, `{"event":"s","entity_id":"h","data":{"state":"x","time_micros":-9223372036854775808}}`},
	},
	"attributes with names of fields": {
		named("h", "s", attr("host", "other"), attr("state", "x"), attr("tags", "t"), attr("ttl", "1"), attr("time", "1"), attr("metric", "1")),
		[]string{`{"event":"s","entity_id":"other","data":{"state":"x"}}`},
	},
	"an attribute given twice": {named("h", "s", attr("a", "1"), attr("b", "2"), attr("a", "3")), []string{`{"event":"s","entity_id":"h","data":{"b":"2","a":"3"}}`}},
	"keys that become equal":   {named("h", "s", attr("a\xff", "1"), attr("a\xfe", "2")), []string{"{\"event\":\"s\",\"entity_id\":\"h\",\"data\":{\"a\ufffd\":\"2\"}}"}},
	"unknown fields of every type": {
		join(varint(90, 1), float(91, 1), double(92, 1), str(93, "x"), group(94, join(varint(1, 1), group(2, str(3, "y")))), named("h", "s", group(94, nil), varint(95, 1)), varint(fieldEvents, 7)),
		[]string{`{"event":"s","entity_id":"h","data":{}}`},
	},
	"known fields of another type": {named("h", "s", varint(fieldState, 1), str(fieldTime, "x"), double(fieldMetricF, 1)), []string{`{"event":"s","entity_id":"h","data":{}}`}},
	"fields of an answer":          {join(varint(fieldOK, 1), str(fieldError, "x")), nil},
	"a query beside events":        {join(sub(fieldQuery, str(fieldString, "a")), named("h", "s"), sub(fieldQuery, str(fieldString, "b"))), []string{`{"event":"s","entity_id":"h","data":{}}`}},
}

// invalid are messages that are refused, with a part of the reason.
var invalid = map[string]struct {
	msg []byte
	why string
}{
	"a tag alone":                 {[]byte{0x32}, "unexpected EOF"},
	"a length beyond the end":     {[]byte{0x32, 5, 0}, "field 6"},
	"a length of 2^63":            {[]byte{0x32, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, "field 6"},
	"a varint of eleven bytes":    {append([]byte{0x10}, bytes.Repeat([]byte{0xff}, 11)...), "field 2"},
	"field 0":                     {[]byte{0, 0}, "invalid field number"},
	"field 2^29":                  {append(protowire.AppendVarint(nil, 1<<32), 1), "invalid field number"},
	"the end of no group":         {[]byte{0x0c}, "type 4"},
	"a group without end":         {[]byte{0x0b, 0x08, 1}, "group 1"},
	"a group with another's end":  {[]byte{0x0b, 0x14}, "group 1 ends as group 2"},
	"a length inside an event":    {ev([]byte{0x22, 9, 'h'}), "field 4"},
	"an attribute without a key":  {named("h", "s", sub(fieldAttributes, str(fieldValue, "x"))), "has no key"},
	"groups nested to the bottom": {bytes.Repeat([]byte{0x0b}, 1<<20), "deeper than 64"},
	"too many events":             {bytes.Repeat(ev(), EventsMax+1), "more than 10000 events"},
	"too many attributes":         {ev(bytes.Repeat(attr("k", ""), AttributesMax+1)), "more than 256 attributes"},
}

// TestTranscode: events become the documented records, and a full decoding of the message agrees.
func TestTranscode(t *testing.T) {
	for name, c := range valid {
		t.Run(name, func(t *testing.T) {
			_, recs, err := transcoded(t, c.msg)
			if err != nil || len(recs) != len(c.want) {
				t.Fatalf("%d records, %v; want %d", len(recs), err, len(c.want))
			}
			for i, want := range c.want {
				check.Equalf(t, string(recs[i].Value), want, "event %d", i)
			}
			compare(t, c.msg)
		})
	}
	m, _, err := transcoded(t, valid["a query beside events"].msg)
	if err != nil || string(m.query) != "b" {
		t.Errorf("query %q, %v: want the last", m.query, err)
	}
}

// TestMalformed: a message that is not valid is refused with its reason, and so is every part of a
// valid one that is not valid itself.
func TestMalformed(t *testing.T) {
	for name, c := range invalid {
		_, err := walk(c.msg)
		if !errors.Is(err, errMalformed) || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, want %q", name, err, c.why)
		}
		if len(c.msg) < 1<<10 {
			compare(t, c.msg)
		}
	}
	for _, c := range valid {
		for i := range c.msg {
			compare(t, c.msg[:i])
		}
	}
}

// TestRoom: the memory of the records is in proportion to that of the message, and an event has at
// most a fixed share.
func TestRoom(t *testing.T) {
	const perByte, perEvent = 6, 512
	for name, b := range map[string][]byte{
		"usual": riemanntest.Message(100), "empty events": bytes.Repeat(ev(), EventsMax), "control characters": named("h", "s", str(fieldDescription, strings.Repeat("\x01", 1<<20))),
		"tags": ev(bytes.Repeat(str(fieldTags, ""), 1<<19)), "hosts": bytes.Repeat(ev(str(fieldHost, strings.Repeat("\xff", 2000))), 500),
	} {
		m, recs, err := transcoded(t, b)
		if err != nil || len(recs) != m.events {
			t.Fatalf("%s: %d records, %v", name, len(recs), err)
		}
		if most := 2*perByte*len(b) + m.events*perEvent + 1<<10; m.room() > most {
			t.Errorf("%s: %d bytes for a message of %d bytes and %d events, want at most %d", name, m.room(), len(b), m.events, most)
		}
	}
}

// TestTranscodeAllocates nothing for an event.
func TestTranscodeAllocatesNothing(t *testing.T) {
	b := riemanntest.Message(100)
	m, err := walk(b)
	must.NoError(t, err)
	buf := make([]byte, 0, m.room())
	n := testing.AllocsPerRun(100, func() {
		_, _ = walk(b)
		transcode(b, buf, 1)
	})
	if n > 1 { // the pool may be emptied by a collection
		t.Errorf("%.1f allocations for a message of 100 events", n)
	}
}

// FuzzMessage: walk and transcode agree with a full decoding of every message.
func FuzzMessage(f *testing.F) {
	for _, c := range valid {
		f.Add(c.msg)
	}
	for _, c := range invalid {
		f.Add(c.msg[:min(len(c.msg), 1000)])
	}
	f.Add(riemanntest.Message(3))
	f.Fuzz(compare)
}
