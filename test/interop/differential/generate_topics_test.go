package differential

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (w *generator) apiVersions() *step {
	if w.chance(3) {
		return &step{what: "versions, in an unknown version", key: kmsg.ApiVersions, reads: true, raw: func(*side) []byte {
			return append(header(int16(kmsg.ApiVersions), 99, 1, true), 1, 1, 0)
		}}
	}
	return &step{what: "versions", key: kmsg.ApiVersions, version: anyVersion, reads: true, build: func(*side) kmsg.Request {
		r := kmsg.NewPtrApiVersionsRequest()
		r.ClientSoftwareName, r.ClientSoftwareVersion = "differential", "1"
		return r
	}}
}

// badNames are invalid names of topics.
var badNames = []string{"", ".", "..", "a b", "a/b", "ä", strings.Repeat("n", 250)}

func (w *generator) metadata() *step {
	type ask struct {
		name string
		byID bool
	}
	var asks []ask
	what, all, byID := "metadata", w.chance(6), w.chance(3)
	if all {
		what = "metadata of all"
	}
	if !all {
		for range w.IntN(4) {
			a := ask{w.topicName(), byID}
			if !byID && w.chance(10) {
				a = ask{name: pick(w, badNames...)}
			}
			if !slices.ContainsFunc(asks, func(b ask) bool { return a.name == b.name }) {
				asks = append(asks, a)
			}
		}
	}
	create, operations := w.chance(4) && !byID, w.chance(3)
	if create && !all && w.chance(2) {
		asks = append(asks, ask{name: w.fresh()})
		what = "metadata, with a topic to create"
	}
	return &step{what: what, key: kmsg.Metadata, version: anyVersion, reads: true, changes: true, build: func(s *side) kmsg.Request {
		r := kmsg.NewPtrMetadataRequest()
		r.AllowAutoTopicCreation, r.IncludeTopicAuthorizedOperations, r.IncludeClusterAuthorizedOperations = create, operations, operations
		if all {
			return r
		}
		r.Topics = []kmsg.MetadataRequestTopic{}
		for _, a := range asks {
			t := kmsg.NewMetadataRequestTopic()
			if a.byID {
				t.TopicID = idOf(s, a.name)
			} else {
				t.Topic = kmsg.StringPtr(a.name)
			}
			r.Topics = append(r.Topics, t)
		}
		return r
	}}
}

// setting is a config of a topic.
type setting struct {
	name  string
	value *string
}

// someSettings are configs to set, valid and invalid. With none of them does stored data depend on
// time.
func (w *generator) someSettings() []setting {
	good := []setting{
		{"max.message.bytes", text("2000")},
		{"max.message.bytes", text("300")},
		{"message.timestamp.type", text("LogAppendTime")},
		{"message.timestamp.type", text("CreateTime")},
		{"cleanup.policy", text("compact")},
		{"cleanup.policy", text("delete")},
		{"cleanup.policy", text("compact,delete")},
		{"cleanup.policy", text("delete,compact")},
		{"cleanup.policy", text("delete, compact")},
		{"retention.ms", text("-1")},
		{"retention.bytes", text("-1")},
		{"segment.bytes", text("10485760")},
		{"min.insync.replicas", text("1")},
		{"delete.retention.ms", text("1000")},
		{"min.compaction.lag.ms", text("100000")},
		{"compression.type", text("producer")},
		{"retention.ms", text("604800000000")},
		{"flush.messages", text("5")},
		{"compression.type", text("uncompressed")},
		{"retention.ms", text("9223372036854775807")},
		{"retention.bytes", text("9223372036854775807")},
		{"delete.retention.ms", text("9223372036854775807")},
		{"min.compaction.lag.ms", text("9223372036854775807")},
	}
	bad := []setting{
		{"no.such.thing", text("1")},
		{"retention.ms", text("soon")},
		{"cleanup.policy", text("keep")},
		{"max.message.bytes", text("-1")},
		{"message.timestamp.type", text("create")},
		{"compression.type", text("rar")},
		{"retention.ms", nil},
		{"retention.ms", text("-2")},
		{"retention.ms", text("")},
		{"", text("x")},
		{"min.compaction.lag.ms", text("-1")},
		{"segment.bytes", text("x")},
		{"max.message.bytes", text("1e3")},
		{"cleanup.policy", text("")},
		{"retention.bytes", text("1GiB")},
		{"min.insync.replicas", text("0")},
	}
	var list []setting
	for range w.IntN(3) {
		list = append(list, pick(w, good...))
	}
	if w.chance(5) {
		list = append(list, pick(w, bad...))
	}
	return list
}

func settingsText(list []setting) string {
	var out strings.Builder
	for _, g := range list {
		if g.value == nil {
			fmt.Fprintf(&out, " %s=null", g.name)
			continue
		}
		fmt.Fprintf(&out, " %s=%q", g.name, *g.value)
	}
	return out.String()
}

func text(s string) *string { return &s }

// newTopic is a topic of a CreateTopics.
type newTopic struct {
	name       string
	partitions int32
	replicas   int16
	settings   []setting
	assignment []int32 // a partition on each of these brokers
}

// compacted is the suffix of names of compacted topics.
const compacted = "-compacted"

func (w *generator) createPlain() *step {
	t := newTopic{name: w.fresh(), partitions: 1 + w.Int32N(3), replicas: 1}
	if w.chance(4) {
		t.name += compacted
		t.settings = []setting{{"cleanup.policy", text("compact")}}
	}
	return w.create([]newTopic{t}, false, "create a topic")
}

func (w *generator) createTopics() *step {
	if len(w.topics) > 8 {
		return nil
	}
	var list []newTopic
	for range 1 + w.IntN(2) {
		t := newTopic{name: w.fresh(), partitions: pick(w, int32(1), 2, 3, -1), replicas: pick(w, int16(1), 1, -1)}
		t.settings = w.someSettings()
		switch w.IntN(14) {
		case 0:
			t.name = w.topicName()
		case 1:
			t.name = pick(w, badNames...)
		case 2:
			t.partitions = pick(w, int32(0), -2)
		case 3:
			t.replicas = pick(w, int16(0), 2, -2)
		case 4, 5:
			t.partitions, t.replicas, t.assignment = -1, -1, pick(w, []int32{1}, []int32{1, 1}, []int32{9})
			if w.chance(4) {
				t.partitions, t.replicas = 1, 1
			}
		case 6:
			t.partitions = 20_000_000
			// Kafka refuses the whole request.
			return w.create([]newTopic{t}, false, "create a topic with too many partitions")
		}
		list = append(list, t)
	}
	if w.chance(20) {
		list = append(list, list[0])
	}
	return w.create(list, w.chance(5), "create topics")
}

func (w *generator) create(list []newTopic, dry bool, what string) *step {
	for _, n := range list {
		what += fmt.Sprintf(" %.60s (%d partitions, %d replicas%s)", n.name, n.partitions, n.replicas, settingsText(n.settings))
	}
	return &step{what: what, key: kmsg.CreateTopics, dry: dry, version: anyVersion, changes: true, build: func(*side) kmsg.Request {
		r := kmsg.NewPtrCreateTopicsRequest()
		r.TimeoutMillis, r.ValidateOnly = 20_000, dry
		for _, n := range list {
			t := kmsg.NewCreateTopicsRequestTopic()
			t.Topic, t.NumPartitions, t.ReplicationFactor = n.name, n.partitions, n.replicas
			for i, b := range n.assignment {
				a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
				a.Partition, a.Replicas = int32(i), []int32{b}
				t.ReplicaAssignment = append(t.ReplicaAssignment, a)
			}
			for _, g := range n.settings {
				t.Configs = append(t.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: g.name, Value: g.value})
			}
			r.Topics = append(r.Topics, t)
		}
		return r
	}}
}

func (w *generator) deleteTopics() *step {
	var names []string
	var byID []bool
	for range 1 + w.IntN(2) {
		names, byID = append(names, w.topicName()), append(byID, w.chance(2))
	}
	if len(names) == 2 && names[0] == names[1] {
		names, byID = names[:1], byID[:1]
	}
	if w.chance(6) {
		names, byID = append(names, pick(w, badNames...)), append(byID, false)
	}
	return &step{what: fmt.Sprintf("delete topics %.60q, by id %v", names, byID), key: kmsg.DeleteTopics, version: anyVersion, changes: true, build: func(s *side) kmsg.Request {
		r := kmsg.NewPtrDeleteTopicsRequest()
		r.TimeoutMillis, r.TopicNames = 20_000, names
		for i, name := range names {
			t := kmsg.NewDeleteTopicsRequestTopic()
			if byID[i] {
				t.TopicID = idOf(s, name)
			} else {
				t.Topic = kmsg.StringPtr(name)
			}
			r.Topics = append(r.Topics, t)
		}
		return r
	}}
}

func (w *generator) createPartitions() *step {
	name := w.topicName()
	have := 1
	if t := w.topics[name]; t != nil {
		have = t.partitions
	}
	count := int32(have + pick(w, -1, 0, 0, 1, 1, 2))
	if w.chance(10) {
		count = pick(w, int32(-1), 0)
	}
	var assigned []int32 // each new partition is on one broker
	if w.chance(4) {
		assigned = pick(w, []int32{1}, []int32{1, 1}, []int32{9})
	}
	dry := w.chance(4)
	return &step{what: fmt.Sprintf("%d partitions for %s", count, name), key: kmsg.CreatePartitions, version: anyVersion, changes: true, build: func(*side) kmsg.Request {
		r := kmsg.NewPtrCreatePartitionsRequest()
		r.TimeoutMillis, r.ValidateOnly = 20_000, dry
		t := kmsg.NewCreatePartitionsRequestTopic()
		t.Topic, t.Count = name, count
		for _, b := range assigned {
			t.Assignment = append(t.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: []int32{b}})
		}
		r.Topics = append(r.Topics, t)
		return r
	}}
}

func (w *generator) describeTopicPartitions() *step {
	names := []string{w.topicName()}
	for range w.IntN(3) {
		if name := w.topicName(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	limit := pick(w, int32(2000), 2000, 1, 2, 0, -1)
	cursor := w.chance(3)
	at := w.Int32N(4)
	return &step{what: "describe topic partitions", key: kmsg.DescribeTopicPartitions, version: anyVersion, reads: true, build: func(*side) kmsg.Request {
		r := kmsg.NewPtrDescribeTopicPartitionsRequest()
		r.ResponsePartitionLimit = limit
		for _, name := range names {
			t := kmsg.NewDescribeTopicPartitionsRequestTopic()
			t.Topic = name
			r.Topics = append(r.Topics, t)
		}
		if cursor {
			c := kmsg.NewDescribeTopicPartitionsRequestCursor()
			c.Topic, c.Partition = names[0], at
			r.Cursor = &c
		}
		return r
	}}
}

func (w *generator) describeCluster() *step {
	kind, operations := pick(w, int8(1), 1, 1, 2, 3), w.chance(2)
	return &step{what: "describe the cluster", key: kmsg.DescribeCluster, version: anyVersion, reads: true, build: func(*side) kmsg.Request {
		r := kmsg.NewPtrDescribeClusterRequest()
		r.EndpointType, r.IncludeClusterAuthorizedOperations = kind, operations
		return r
	}}
}

// resource is a resource with configs.
type resource struct {
	kind kmsg.ConfigResourceType
	name string
}

func (w *generator) resource() resource {
	if w.chance(8) {
		return pick(w, resource{kmsg.ConfigResourceTypeBroker, "7"}, resource{kmsg.ConfigResourceType(77), "x"},
			resource{kmsg.ConfigResourceTypeTopic, ""}, resource{kmsg.ConfigResourceTypeTopic, "a b"})
	}
	return resource{kmsg.ConfigResourceTypeTopic, w.topicName()}
}

func (w *generator) describeConfigs() *step {
	of := w.resource()
	var names []string
	if !w.chance(3) {
		names = []string{}
		for range w.IntN(4) {
			names = append(names, pick(w, "cleanup.policy", "max.message.bytes", "retention.ms", "message.timestamp.type", "no.such.thing", "segment.bytes"))
		}
	}
	synonyms := w.chance(4)
	return &step{what: "describe configs", key: kmsg.DescribeConfigs, version: anyVersion, reads: true, build: func(*side) kmsg.Request {
		r := kmsg.NewPtrDescribeConfigsRequest()
		r.IncludeSynonyms = synonyms
		res := kmsg.NewDescribeConfigsRequestResource()
		res.ResourceType, res.ResourceName, res.ConfigNames = of.kind, of.name, names
		r.Resources = append(r.Resources, res)
		return r
	}}
}

func (w *generator) alterConfigs() *step {
	of, list, dry := w.resource(), w.someSettings(), w.chance(4)
	return &step{what: "alter configs of " + of.name + settingsText(list), key: kmsg.AlterConfigs, version: anyVersion, changes: true, build: func(*side) kmsg.Request {
		r := kmsg.NewPtrAlterConfigsRequest()
		r.ValidateOnly = dry
		res := kmsg.NewAlterConfigsRequestResource()
		res.ResourceType, res.ResourceName = of.kind, of.name
		for _, g := range list {
			res.Configs = append(res.Configs, kmsg.AlterConfigsRequestResourceConfig{Name: g.name, Value: g.value})
		}
		r.Resources = append(r.Resources, res)
		return r
	}}
}

func (w *generator) incrementalAlterConfigs() *step {
	of, dry := w.resource(), w.chance(4)
	type change struct {
		setting
		op kmsg.IncrementalAlterConfigOp
	}
	var list []change
	what := "alter configs incrementally of " + of.name
	for _, g := range w.someSettings() {
		op := pick(w, kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete,
			kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract)
		if w.chance(15) {
			op = 9
		}
		list = append(list, change{g, op})
		what += fmt.Sprintf(" %v%s", op, settingsText([]setting{g}))
	}
	return &step{what: what, key: kmsg.IncrementalAlterConfigs, version: anyVersion, changes: true, build: func(*side) kmsg.Request {
		r := kmsg.NewPtrIncrementalAlterConfigsRequest()
		r.ValidateOnly = dry
		res := kmsg.NewIncrementalAlterConfigsRequestResource()
		res.ResourceType, res.ResourceName = of.kind, of.name
		for _, g := range list {
			res.Configs = append(res.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: g.name, Value: g.value, Op: g.op})
		}
		r.Resources = append(r.Resources, res)
		return r
	}}
}
