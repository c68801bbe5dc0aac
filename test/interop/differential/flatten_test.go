package differential

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fields are the fields of an answer by path, such as Topics[a].Partitions[0].ErrorCode. Elements
// of arrays are identified by their subject, because their order is irrelevant.
type fields map[string]string

// flattener makes fields of an answer.
type flattener struct {
	side   *side
	out    fields
	prefix string // prefix of the seed's names
	topic  string // topic of the current struct
	// producer is the producer ID of the current struct.
	producer string
}

// flatten makes fields of an answer, with the symbols of the run instead of ids.
func flatten(s *side, resp kmsg.Response, prefix string) fields {
	f := flattener{side: s, out: fields{}, prefix: prefix}
	switch r := resp.(type) {
	case *kmsg.FetchResponse:
		resp = merged(r)
	case *kmsg.DescribeACLsResponse:
		resp = f.own(r)
	case *kmsg.DescribeUserSCRAMCredentialsResponse:
		resp = f.ownUsers(r)
	}
	f.flattenValue("", reflect.ValueOf(resp).Elem())
	return f.out
}

// merged merges partitions of the same topic, because Kafka lists partitions with errors
// separately.
func merged(r *kmsg.FetchResponse) *kmsg.FetchResponse {
	one := *r
	one.Topics = nil
	for _, t := range r.Topics {
		same := func(o kmsg.FetchResponseTopic) bool { return o.Topic == t.Topic && o.TopicID == t.TopicID }
		if i := slices.IndexFunc(one.Topics, same); i >= 0 {
			one.Topics[i].Partitions = slices.Concat(one.Topics[i].Partitions, t.Partitions)
			continue
		}
		one.Topics = append(one.Topics, t)
	}
	return &one
}

// own drops the rules of other seeds.
func (f *flattener) own(r *kmsg.DescribeACLsResponse) *kmsg.DescribeACLsResponse {
	one := *r
	one.Resources = nil
	for _, of := range r.Resources {
		of.ACLs = slices.DeleteFunc(slices.Clone(of.ACLs), func(a kmsg.DescribeACLsResponseResourceACL) bool {
			return !strings.HasPrefix(a.Principal, "User:"+f.prefix)
		})
		if len(of.ACLs) > 0 {
			one.Resources = append(one.Resources, of)
		}
	}
	return &one
}

// ownUsers drops the users of other seeds, and the results without a name of a refused request.
func (f *flattener) ownUsers(r *kmsg.DescribeUserSCRAMCredentialsResponse) *kmsg.DescribeUserSCRAMCredentialsResponse {
	one := *r
	one.Results = nil
	for i := range r.Results {
		if strings.HasPrefix(r.Results[i].User, f.prefix) {
			one.Results = append(one.Results, r.Results[i])
		}
	}
	return &one
}

// unseen are fields that are not compared: versions are equal by construction, and each broker
// chooses its throttle time.
var unseen = []string{"Version", "ThrottleMillis", "UnknownTags"}

func (f *flattener) flattenValue(path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		before := f.topic
		if name := f.topicOf(v); name != "" {
			f.topic = name
		}
		if id := v.FieldByName("ProducerID"); id.IsValid() {
			f.producer = plain(id)
		}
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; !slices.Contains(unseen, name) {
				f.field(path, name, v.Field(i))
			}
		}
		f.topic = before
	case reflect.Pointer:
		if v.IsNil() {
			f.out[path] = "null"
			return
		}
		f.flattenValue(path, v.Elem())
	default:
		f.out[path] = plain(v)
	}
}

// field flattens a field of a struct.
func (f *flattener) field(path, name string, v reflect.Value) {
	at := name
	if path != "" {
		at = path + "." + name
	}
	elem := v
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		elem = v.Elem()
	}
	switch {
	case name == "RecordBatches":
		f.batches(at, v.Bytes())
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		f.array(at, v)
	case name == "ErrorMessage" && v.Kind() == reflect.Pointer:
		f.out[at] = strconv.FormatBool(!v.IsNil())
	case v.Kind() == reflect.Pointer && v.IsNil():
		f.out[at] = "null"
	case elem.Kind() == reflect.Struct:
		f.flattenValue(at, elem)
	default:
		f.out[at] = f.named(name, elem)
	}
}

// array flattens an array by the subjects of its elements.
func (f *flattener) array(path string, v reflect.Value) {
	if v.IsNil() {
		f.out[path+".len"] = "null"
		return
	}
	seen := map[string]int{}
	n := 0
	for i := range v.Len() {
		key := f.keyOf(v.Index(i))
		if f.foreign(v.Index(i)) {
			continue
		}
		n++
		if seen[key]++; seen[key] > 1 {
			key += "'" + strconv.Itoa(seen[key])
		}
		f.out[path+"["+key+"]"] = here
		f.flattenValue(path+"["+key+"]", v.Index(i))
	}
	if f.out[path+".len"] = strconv.Itoa(n); n == 0 && v.Len() > 0 {
		f.out[path+".len"] = "null" // an empty array is decoded so
	}
}

// here is the path of an element's own value in an array.
const here = "here"

// foreign reports whether an element belongs to a topic or group of another seed, or of the broker
// itself.
func (f *flattener) foreign(v reflect.Value) bool {
	switch t := v.Interface().(type) {
	case kmsg.MetadataResponseTopic:
		return t.Topic != nil && t.ErrorCode == 0 && !strings.HasPrefix(*t.Topic, f.prefix)
	case kmsg.DescribeTopicPartitionsResponseTopic:
		return t.Topic != nil && t.ErrorCode == 0 && !strings.HasPrefix(*t.Topic, f.prefix)
	case kmsg.DescribeLogDirsResponseDirTopic:
		return !strings.HasPrefix(t.Topic, f.prefix)
	case kmsg.ListTransactionsResponseTransactionState:
		return !strings.HasPrefix(t.TransactionalID, f.prefix)
	case kmsg.ListGroupsResponseGroup:
		return !strings.HasPrefix(t.Group, f.prefix)
	}
	return false
}

// keyFields identify elements of arrays; the first existing one is used.
var keyFields = []string{"Topic", "TopicID", "Group", "Key", "Name", "Partition", "MemberID", "NodeID", "ResourceName", "Dir", "User", "ApiKey", "TransactionalID", "ProducerID"}

func (f *flattener) keyOf(v reflect.Value) string {
	if v.Kind() != reflect.Struct {
		return ""
	}
	switch t := v.Interface().(type) {
	case kmsg.DescribeACLsResponseResource:
		return fmt.Sprint(t.ResourceType, t.ResourceName, t.ResourcePatternType)
	case kmsg.DescribeACLsResponseResourceACL:
		return fmt.Sprint(t)
	case kmsg.DeleteACLsResponseResultMatchingACL:
		return fmt.Sprint(t)
	case kmsg.DescribeUserSCRAMCredentialsResponseResultCredentialInfo:
		return fmt.Sprint(t.Mechanism)
	case kmsg.AlterClientQuotasResponseEntry: // Kafka has them in any order
		if len(t.Entity) == 1 && t.Entity[0].Name != nil {
			return *t.Entity[0].Name
		}
	}
	for _, name := range keyFields {
		k := v.FieldByName(name)
		if !k.IsValid() || k.Kind() == reflect.Pointer && k.IsNil() || name == "Topic" && k.IsZero() && v.FieldByName("TopicID").IsValid() {
			continue
		}
		if k.Kind() == reflect.Pointer {
			k = k.Elem()
		}
		return f.named(name, k)
	}
	return ""
}

// topicOf returns the topic of a struct.
func (f *flattener) topicOf(v reflect.Value) string {
	if t := v.FieldByName("Topic"); t.IsValid() && !t.IsZero() {
		return fmt.Sprint(reflect.Indirect(t).Interface())
	}
	if id := v.FieldByName("TopicID"); id.IsValid() {
		name, _, _ := strings.Cut(f.named("TopicID", id), "#")
		return name
	}
	return ""
}

// named returns a value as text, or its symbol.
func (f *flattener) named(name string, v reflect.Value) string {
	s := f.side.symbols
	switch name {
	case "Partitions": // of transactions
		if list, ok := v.Interface().([]int32); ok {
			return fmt.Sprint(slices.Sorted(slices.Values(list)))
		}
	case "SupportedMechanisms":
		list, ok := v.Interface().([]string)
		if ok {
			return fmt.Sprint(slices.Sorted(slices.Values(list)))
		}
	case "TopicID":
		id, ok := v.Interface().([16]byte)
		if !ok || id == [16]byte{} {
			return "0"
		}
		if known := s.of("topic", string(id[:])); known != string(id[:]) {
			return known
		}
		return hex.EncodeToString(id[:])
	case "ProducerID":
		return s.of("producer", plain(v))
	case "ProducerEpoch":
		return f.side.pair(f.producer, v.Int())
	case "MemberID", "LeaderID":
		if v.Kind() == reflect.String {
			return f.member(v.String())
		}
	case "Host":
		return s.of("host", v.String())
	case "Port":
		return s.of("port", plain(v))
	case "ClusterID":
		return s.of("cluster", v.String())
	case "LeaderEpoch":
		return f.epoch(v.Int())
	case "LogAppendTime", "Timestamp", "LastTimestamp", "StartTimestamp":
		// Generated records have no times in this range.
		const from, to = 1_750_000_000_000, 3_900_000_000_000
		if v.Int() > from && v.Int() < to {
			return "now"
		}
	case "Generation":
		if v.Int() > 0 {
			return "positive"
		}
	}
	return plain(v)
}

// member returns the symbol of a member id; "other" for an id that was in no answer yet.
func (f *flattener) member(id string) string {
	name := f.side.symbols.of("member", id)
	if name == id && id != "" && id != "unknown" {
		return "other"
	}
	return name
}

// epoch returns whether a leader epoch is the current one.
func (f *flattener) epoch(n int64) string {
	if current, ok := f.side.epochs[f.topic]; n >= 0 && ok && n == int64(current) {
		return "current"
	}
	return strconv.FormatInt(n, 10)
}

func plain(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if v.IsNil() {
				return "null"
			}
			return hex.EncodeToString(v.Bytes())
		}
		if v.IsNil() {
			return "null"
		}
	case reflect.String:
		return strconv.Quote(v.String())
	}
	return fmt.Sprint(v.Interface())
}

// difference is a field in which two answers differ.
type difference struct {
	key        kmsg.Key
	version    int16
	path       string
	kafka, seb string // values; "" if the field is missing
	step       *step
	kafkaSays  fields
	sebSays    fields
}

// bare returns the path without the subjects of elements.
func (d *difference) bare() string {
	var b strings.Builder
	depth := 0
	for _, c := range d.path {
		switch c {
		case '[':
			if depth++; depth == 1 {
				b.WriteString("[]")
			}
		case ']':
			depth--
		default:
			if depth == 0 {
				b.WriteRune(c)
			}
		}
	}
	return b.String()
}

// beside returns a broker's value in another field of the same struct.
func (d *difference) beside(f fields, name string) string {
	at := strings.LastIndexByte(d.path, '.')
	return f[d.path[:at+1]+name]
}

func (d *difference) String() string {
	show := func(s string) string {
		const most = 200
		switch {
		case s == "":
			return "(nothing)"
		case len(s) > most:
			return s[:most] + "…"
		}
		return s
	}
	return fmt.Sprintf("%s v%d %s: Kafka %s, Seb %s", d.key.Name(), d.version, d.path, show(d.kafka), show(d.seb))
}

// compare lists the fields in which two answers differ, ordered by path. It does not list fields
// inside an element that only one of them has.
func compare(st *step, version int16, kafka, seb fields) []*difference {
	var list []*difference
	paths := map[string]bool{}
	for p := range kafka {
		paths[p] = true
	}
	for p := range seb {
		paths[p] = true
	}
	sorted := make([]string, 0, len(paths))
	for p := range paths {
		sorted = append(sorted, p)
	}
	slices.Sort(sorted)
	within := "" // an element that only one of them has
	for _, p := range sorted {
		if within != "" && strings.HasPrefix(p, within+".") {
			continue
		}
		if k, s := kafka[p], seb[p]; k != s {
			if k == here || s == here {
				within = p
			}
			list = append(list, &difference{
				key: st.key, version: version, path: p, kafka: k, seb: s, step: st, kafkaSays: kafka, sebSays: seb,
			})
		}
	}
	return list
}
