package riemann

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/sebbroker/seb/internal/trigger/rule"
	"github.com/sebbroker/seb/record"
)

// schema is the message Msg of Riemann's protocol, for a decoder that shares no code with this
// package. State has the fields of Event, because old clients send them.
var schema = func() protoreflect.MessageDescriptor {
	message := func(name string, fields ...*descriptorpb.FieldDescriptorProto) *descriptorpb.DescriptorProto {
		return &descriptorpb.DescriptorProto{Name: &name, Field: fields}
	}
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("riemann.proto"), Syntax: proto.String("proto2"),
		MessageType: []*descriptorpb.DescriptorProto{
			message("Msg", column("ok", 2, "bool"), column("error", 3, "string"), column("states", 4, "*Event"), column("query", 5, "Query"), column("events", 6, "*Event")),
			message("Query", column("string", 1, "string")),
			message("Attribute", column("key", 1, "!string"), column("value", 2, "string")),
			message("Event", column("time", 1, "int64"), column("state", 2, "string"), column("service", 3, "string"), column("host", 4, "string"),
				column("description", 5, "string"), column("tags", 7, "*string"), column("ttl", 8, "float"), column("attributes", 9, "*Attribute"),
				column("time_micros", 10, "int64"), column("metric_sint64", 13, "sint64"), column("metric_d", 14, "double"), column("metric_f", 15, "float")),
		},
	}
	d, err := protodesc.NewFile(file, nil)
	if err != nil {
		panic(err)
	}
	return d.Messages().ByName("Msg")
}()

// column is a field of a message: *x is repeated, !x is required.
func column(name string, number int32, kind string) *descriptorpb.FieldDescriptorProto {
	label := descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL
	switch kind[0] {
	case '*':
		label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED
	case '!':
		label = descriptorpb.FieldDescriptorProto_LABEL_REQUIRED
	}
	kind = strings.TrimLeft(kind, "*!")
	f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Label: &label}
	if v, ok := descriptorpb.FieldDescriptorProto_Type_value["TYPE_"+strings.ToUpper(kind)]; ok {
		f.Type = descriptorpb.FieldDescriptorProto_Type(v).Enum()
	} else {
		f.Type, f.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), proto.String("."+kind)
	}
	return f
}

// fieldsOf returns the fields of a decoded message that are present.
func fieldsOf(m protoreflect.Message) map[string]protoreflect.Value {
	all := map[string]protoreflect.Value{}
	m.Range(func(d protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		all[string(d.Name())] = v
		return true
	})
	return all
}

// clean is a string as JSON has it.
func clean(s string) string { return string([]rune(s)) }

// wanted is the event that a decoded event must become.
func wanted(m protoreflect.Message) map[string]any {
	f, data := fieldsOf(m), map[string]any{}
	texts := map[string]*string{}
	for _, name := range []string{"host", "service", "state", "description"} {
		if v, ok := f[name]; ok {
			texts[name] = proto.String(v.String())
		}
	}
	if v, ok := f["attributes"]; ok {
		for i := range v.List().Len() {
			a := fieldsOf(v.List().Get(i).Message())
			key, value := a["key"].String(), ""
			if v, ok := a["value"]; ok {
				value = v.String()
			}
			switch key {
			case "tags", "ttl", "metric", "time", "time_micros":
			case "host", "service", "state", "description":
				texts[key] = &value
			default:
				data[clean(key)] = clean(value)
			}
		}
	}
	if v, ok := f["tags"]; ok {
		list := []any{}
		for i := range v.List().Len() {
			list = append(list, clean(v.List().Get(i).String()))
		}
		data["tags"] = list
	}
	if v, ok := f["ttl"]; ok {
		data["ttl"] = number(v.Float(), 32)
	}
	if v, ok := f["metric_sint64"]; ok {
		data["metric"] = json.Number(strconv.FormatInt(v.Int(), 10))
	} else if v, ok := f["metric_d"]; ok {
		data["metric"] = fraction(v.Float(), 64)
	} else if v, ok := f["metric_f"]; ok {
		data["metric"] = fraction(v.Float(), 32)
	}
	for _, name := range []string{"state", "description"} {
		if texts[name] != nil {
			data[name] = clean(*texts[name])
		}
	}
	e := map[string]any{"data": data}
	e["event"] = wantedName(texts["service"], rule.NameBytesMax, "service", data)
	e["entity_id"] = wantedName(texts["host"], rule.EntityBytesMax, "host", data)
	wantedTime(f, e, data)
	return e
}

// wantedName is the name or entity of an event.
func wantedName(t *string, most int, member string, data map[string]any) string {
	switch {
	case t == nil:
		data[member] = nil
		return "unnamed"
	case *t == "":
		data[member] = ""
		return "unnamed"
	}
	s := clean(*t)
	if len(s) <= most {
		return s
	}
	data[member] = s
	for !utf8.ValidString(s[:most]) {
		most--
	}
	return s[:most]
}

func wantedTime(f map[string]protoreflect.Value, e, data map[string]any) {
	const first, last = -62167219200, 253402300799 // the seconds of the years 0 to 9999
	name, at, unit := "time", f["time"], int64(1)
	if v, ok := f["time_micros"]; ok {
		name, at, unit = "time_micros", v, 1_000_000
	}
	switch {
	case !at.IsValid():
	case at.Int() < first*unit || at.Int() >= (last+1)*unit:
		data[name] = json.Number(strconv.FormatInt(at.Int(), 10))
	default:
		t := time.Unix(at.Int(), 0)
		if unit > 1 {
			t = time.UnixMicro(at.Int())
		}
		e["occurred_at"] = t.UTC().Format(time.RFC3339Nano)
	}
}

func number(v float64, bits int) any {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 0):
		return strings.TrimPrefix(strings.Replace(strconv.FormatFloat(v, 'g', -1, 64), "Inf", "Infinity", 1), "+")
	}
	return json.Number(strconv.FormatFloat(v, 'g', -1, bits))
}

func fraction(v float64, bits int) any {
	n, ok := number(v, bits).(json.Number)
	if !ok {
		return number(v, bits)
	}
	if !strings.ContainsAny(string(n), ".e") {
		n += ".0"
	}
	return n
}

// transcoded walks and transcodes a message, and returns its records.
func transcoded(t testing.TB, b []byte) (m message, recs []record.Record, err error) {
	t.Helper()
	if m, err = walk(b); err != nil || m.events == 0 {
		return m, nil, err
	}
	buf := make([]byte, 0, m.room())
	data, sum := transcode(b, buf, 77)
	if &data[0] != &buf[:1][0] {
		t.Fatalf("%d bytes of batches do not fit into the room of %d", len(data), m.room())
	}
	checked, err := record.Check(data, record.Limits{BatchBytes: 1 << 30, DecompressedBytes: 1 << 30})
	if err != nil || checked != sum || sum.Records != m.events {
		t.Fatalf("batches: %v; %+v, want %+v of %d events", err, checked, sum, m.events)
	}
	var r record.Reader
	r.Reset(data, 0)
	for r.Next() {
		rec := *r.Record()
		rec.Key, rec.Value = bytes.Clone(rec.Key), bytes.Clone(rec.Value)
		recs = append(recs, rec)
	}
	return m, recs, r.Err()
}

// compare compares the records of a message with a full decoding of it.
func compare(t *testing.T, b []byte) {
	t.Helper()
	full := dynamicpb.NewMessage(schema)
	decodes := proto.Unmarshal(b, full)
	m, recs, err := transcoded(t, b)
	if err != nil {
		for _, limit := range []string{"more than", "deeper than"} {
			if decodes == nil && strings.Contains(err.Error(), limit) {
				return
			}
		}
	}
	if (err == nil) != (decodes == nil) {
		t.Fatalf("%x: %v, a full decoding: %v", b, err, decodes)
	}
	if err != nil {
		return
	}
	f := fieldsOf(full)
	if q, ok := f["query"]; ok != m.hasQuery || ok && fieldsOf(q.Message())["string"].String() != string(m.query) && len(m.query) > 0 {
		t.Fatalf("%x: query %q, want %v", b, m.query, q)
	}
	// The records have the order of the bytes, in which events and states may be mixed.
	var want []map[string]any
	next := map[protowire.Number]int{}
	for rest := b; len(rest) > 0; {
		num, typ, n := protowire.ConsumeField(rest)
		rest = rest[n:]
		if name := map[protowire.Number]string{fieldStates: "states", fieldEvents: "events"}[num]; name != "" && typ == protowire.BytesType {
			want = append(want, wanted(f[name].List().Get(next[num]).Message()))
			next[num]++
		}
	}
	if len(want) != len(recs) {
		t.Fatalf("%x: %d records, want %d", b, len(recs), len(want))
	}
	for i := range recs {
		d := json.NewDecoder(bytes.NewReader(recs[i].Value))
		d.UseNumber()
		var got map[string]any
		if err := d.Decode(&got); err != nil {
			t.Fatalf("%x: event %d: %v: %s", b, i, err, recs[i].Value)
		}
		if keys := keysOf(t, recs[i].Value); len(keys) != len(slices.Compact(slices.Sorted(slices.Values(keys)))) {
			t.Fatalf("%x: event %d has a member twice: %q", b, i, keys)
		}
		if diff := cmp.Diff(want[i], got); diff != "" || recs[i].Timestamp != 77 {
			t.Fatalf("%x: event %d: %s", b, i, diff)
		}
		if _, err := rule.ParseEvent(recs[i].Key, recs[i].Value); err != nil {
			t.Fatalf("%x: event %d is none for triggers: %v: %s", b, i, err, recs[i].Value)
		}
	}
}

// keysOf returns the names of the members of the data of an event, as often as they occur.
func keysOf(t *testing.T, value []byte) (keys []string) {
	t.Helper()
	var e struct{ Data json.RawMessage }
	if err := json.Unmarshal(value, &e); err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(e.Data))
	_, _ = d.Token()
	for d.More() {
		key, err := d.Token()
		var v json.RawMessage
		if err := errors.Join(err, d.Decode(&v)); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key.(string))
	}
	return keys
}
