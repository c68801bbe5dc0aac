package encoding

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// all reads a source to its end or its first fault.
func all(t *testing.T, s Source) (recs []record.Record, fault *api.Problem) {
	for {
		rec, p := s.Next()
		if p != nil || rec == nil {
			if p != nil && (p.Code != api.BadRequest || p.Field == "" || p.Detail == "") {
				t.Fatalf("fault without a field: %+v", p)
			}
			return recs, p
		}
		c := *rec
		c.Headers = slices.Clone(rec.Headers)
		recs = append(recs, c)
	}
}

func sameRecord(a, b record.Record) bool {
	same := func(x, y []byte) bool { return (x == nil) == (y == nil) && bytes.Equal(x, y) }
	return a.Timestamp == b.Timestamp && same(a.Key, b.Key) && same(a.Value, b.Value) &&
		slices.EqualFunc(a.Headers, b.Headers, func(g, h record.Header) bool { return g.Key == h.Key && same(g.Value, h.Value) })
}

// lineSeeds are bodies of JSON records, one per line.
var lineSeeds = []string{
	`{"value":"a","key":"\u00e9"}`, "{\"value\":\"a\"}\n\n {\"value\":null}\r\n", `{"value_base64":"AP/+","headers":{"a":"b"},"timestamp":5}`,
	`{"value":"\ud83d\ude00","headers":[{"key":"a","value":"1"},{"key":"b","value_base64":"/w=="}]}`, "{\"value\":\"a\"} {\"value\":\"b\"}",
	"{\"value\":\"x\"}\n{\"value\":1}\n", `{"key_base64":"aw==","value":"","timestamp":"2020-01-01T00:00:00Z"}`,
}

// FuzzNDJSON checks that lines mean the same as a JSON array, and that both encodings refuse the
// same records. Sizes claimed by a body cause no allocation.
func FuzzNDJSON(f *testing.F) {
	for _, s := range lineSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		array := []byte{'['}
		for line := range bytes.SplitSeq(b, []byte("\n")) {
			if len(bytes.Trim(line, " \t\r")) == 0 {
				continue
			}
			if len(array) > 1 {
				array = append(array, ',')
			}
			array = append(array, line...)
		}
		array = append(array, ']')
		lines := bytes.Clone(b)
		// A record allocates headers, whose names have at least a byte, and a fault allocates its
		// text.
		sebtest.Allocates(t, 8*sebtest.DecoderBound(b), b, func() {
			copy(lines, b)
			for s := NewNDJSON(lines, testNow); ; {
				if rec, p := s.Next(); rec == nil || p != nil {
					return
				}
			}
		})
		copy(lines, b)
		got, fault := all(t, NewNDJSON(lines, testNow))
		want, wantFault := all(t, NewJSON(array, testNow))
		if fault != nil {
			// Splitting an array at commas can give lines that are malformed although the array is
			// not, and vice versa. Only whole lines are compared.
			return
		}
		if wantFault != nil || !slices.EqualFunc(got, want, sameRecord) {
			t.Fatalf("%q: %v, as array %v (%v)", b, got, want, wantFault)
		}
	})
}

// makeRecord returns a random record that JSON can represent.
func makeRecord(src *sebtest.Source) record.Record {
	r := record.Record{Offset: int64(src.Uint64() >> 1), Timestamp: int64(src.Uint64() >> 22), Key: src.Bytes(20), Value: src.Bytes(200)}
	for range src.Int(4) {
		r.Headers = append(r.Headers, record.Header{Key: strings.ToValidUTF8(string(src.Bytes(8)), "?"), Value: src.Bytes(20)})
	}
	return r
}

// FuzzRecordJSON checks that a record in JSON is read back unchanged, by this package and by
// encoding/json, and that it takes no more than the reserved memory.
func FuzzRecordJSON(f *testing.F) {
	f.Add([]byte("\x02\x01\x02\x02\x05\x06\x03key\x07a \"value\"\x02\x03name\x02\xff\xfe"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := makeRecord(&sebtest.Source{B: b})
		text := appendRecordJSON(nil, &r, nil)
		if len(text) > recordJSONMax(&r) || len(text) > recordJSONLen(&r) {
			t.Fatalf("%s: %d bytes, bounds %d and %d", text, len(text), recordJSONMax(&r), recordJSONLen(&r))
		}
		var out api.Record
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&out); err != nil || out.Offset != r.Offset || out.Timestamp != r.Timestamp {
			t.Fatalf("%s: %v", text, err)
		}
		_, rest, _ := bytes.Cut(text, []byte(","))
		got, fault := all(t, NewJSON(append([]byte{'{'}, rest...), testNow))
		if fault != nil || len(got) != 1 || !sameRecord(got[0], r) {
			t.Fatalf("%s: read back %v (%v), want %+v", text, got, fault, r)
		}
	})
}

// FuzzEncoder checks that a body of any encoding becomes valid batches, with the records in order
// and in their partitions, or gives a fault that names a field. The memory is reserved before and
// released completely.
func FuzzEncoder(f *testing.F) {
	for i, s := range lineSeeds {
		f.Add(uint8(i), uint8(i), uint8(3*i), []byte(s))
	}
	f.Add(uint8(2), uint8(0), uint8(7), []byte("a\n\nb\r\nc"))
	total := budget.New(64 << 20)
	class := total.Class(budget.Produce)
	f.Fuzz(func(t *testing.T, form, codec, parts uint8, b []byte) {
		open := func() Source {
			switch body := bytes.Clone(b); form % 3 {
			case 0:
				return NewNDJSON(body, testNow)
			case 1:
				return NewJSON(body, testNow)
			default:
				return NewLines(body, testNow)
			}
		}
		e := Encoder{
			Memory: &budget.Arena{Class: class, Buffers: total.Buffers()}, Partition: int32(parts%4) - 1, Partitions: 3,
			Codec: record.Compression(codec % 5), RecordsMax: 1 + int(parts/4),
		}
		list, err := e.Encode(open())
		if err == nil {
			checkEncoded(t, &e, list, open())
		} else if p := (*api.Problem)(nil); !errors.As(err, &p) || p.Code != api.BadRequest && p.Code != api.TooLarge {
			t.Fatal(err)
		}
		e.Memory.Release()
		must.Equalf(t, class.Used(), 0, "bytes are still reserved")
	})
}

func checkEncoded(t *testing.T, e *Encoder, list []*Encoded, s Source) {
	want, fault := all(t, s)
	if fault != nil || len(want) > e.RecordsMax || len(want) == 0 {
		t.Fatalf("%d records accepted, limit %d: %v", len(want), e.RecordsMax, fault)
	}
	byPartition := map[int32][]record.Record{}
	for _, r := range want {
		to := e.Partition
		if to < 0 {
			to = record.PartitionOf(r.Key, e.Partitions)
		}
		byPartition[to] = append(byPartition[to], r)
	}
	must.Equalf(t, len(list), len(byPartition), "partitions")
	for i, o := range list {
		if i > 0 && list[i-1].Partition >= o.Partition {
			t.Fatal("partitions are not in order")
		}
		if sum, err := record.Check(o.Data, record.Limits{}); err != nil || sum != o.Summary {
			t.Fatalf("partition %d: summary %+v (%v), reported as %+v", o.Partition, sum, err, o.Summary)
		}
		record.Patch(o.Data, 0, 1)
		s := NewBatches(o.Data)
		for _, want := range byPartition[o.Partition] {
			if got, fault := s.Next(); got == nil || !sameRecord(*got, want) {
				t.Fatalf("partition %d: %+v (%v), want %+v", o.Partition, got, fault, want)
			}
		}
		if got, fault := s.Next(); got != nil || fault != nil {
			t.Fatalf("partition %d: more records than in the body: %+v (%v)", o.Partition, got, fault)
		}
	}
}

// FuzzCutValue checks that a cut value is the longest beginning that fits, in the form of the whole
// value, and that the record takes no more than the reserved memory.
func FuzzCutValue(f *testing.F) {
	f.Add([]byte("h\u00e9llo"), 2)
	f.Add([]byte("text and \xff"), 4)
	f.Add(bytes.Repeat([]byte("\u20ac"), segmentSize), segmentSize)
	f.Fuzz(func(t *testing.T, value []byte, most int) {
		if most <= 0 || value == nil {
			return
		}
		b := budget.New(64 << 20)
		m := budget.Arena{Class: b.Class(budget.Fetch), Buffers: b.Buffers()}
		defer m.Release()
		text := Text{Form: EachLine, ValueMax: most}
		if err := text.Take(&m, &record.Record{Value: value}, false); err != nil {
			return // too large
		}
		var out api.Record
		must.NoError(t, json.Unmarshal(text.text(), &out))
		var got []byte
		if out.Value != nil {
			got = []byte(*out.Value)
		} else {
			var err error
			if got, err = base64.StdEncoding.DecodeString(*out.ValueBase64); err != nil {
				t.Fatal(err)
			}
		}
		whole := int64(len(value))
		switch {
		case utf8.Valid(value) != (out.Value != nil), !bytes.HasPrefix(value, got), len(got) > most:
			t.Errorf("%q cut to %d: %s", value, most, text.text())
		case len(got) == len(value):
			if out.ValueBytes != nil {
				t.Errorf("%q is whole: %s", value, text.text())
			}
		case out.ValueBytes == nil || *out.ValueBytes != whole:
			t.Errorf("%q cut to %d without its length: %s", value, most, text.text())
		case out.Value == nil && len(got) < most:
			t.Errorf("%q cut to %d: %d bytes", value, most, len(got))
		case out.Value != nil:
			if _, n := utf8.DecodeRune(value[len(got):]); len(got)+n <= most {
				t.Errorf("%q cut to %d: %d bytes, one more character fits", value, most, len(got))
			}
		}
	})
}
