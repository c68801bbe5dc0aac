package riemanntest

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/sebbroker/seb/internal/triggers/rules/rule"
)

// schema is the message Msg of Riemann's protocol, for a decoder that shares no code with
// internal/protocols/riemann. State has the fields of Event, because old clients send them.
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

// Decode decodes a Msg completely. It returns the events that its records must contain, as JSON does,
// in the order of the bytes, in which events and states may be mixed, and its query; nil: none.
func Decode(b []byte) (events []map[string]any, query *string, err error) {
	full := dynamicpb.NewMessage(schema)
	if err := proto.Unmarshal(b, full); err != nil {
		return nil, nil, err
	}
	f := fieldsOf(full)
	if q, ok := f["query"]; ok {
		query = new(string)
		if text, ok := fieldsOf(q.Message())["string"]; ok {
			*query = text.String()
		}
	}
	next := map[string]int{}
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeField(b)
		b = b[n:]
		if name := map[protowire.Number]string{4: "states", 6: "events"}[num]; name != "" && typ == protowire.BytesType {
			events = append(events, wanted(f[name].List().Get(next[name]).Message()))
			next[name]++
		}
	}
	return events, query, nil
}

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
