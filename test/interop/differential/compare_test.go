package differential

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/recordtest"
)

// answer is a Fetch of two batches in one partition.
func answer(t *testing.T, id [16]byte, values ...string) *kmsg.FetchResponse {
	t.Helper()
	var data []byte
	for i, v := range values {
		b, _ := recordtest.Encode([]record.Record{{Timestamp: 1000, Value: []byte(v)}}, record.EncodeOptions{Compression: codecs[i%len(codecs)]})
		binary.BigEndian.PutUint64(b, uint64(i))
		data = append(data, b...)
	}
	p := kmsg.NewFetchResponseTopicPartition()
	p.RecordBatches, p.HighWatermark = data, int64(len(values))
	topic := kmsg.NewFetchResponseTopic()
	topic.TopicID, topic.Partitions = id, []kmsg.FetchResponseTopicPartition{p}
	r := kmsg.NewPtrFetchResponse()
	r.Version, r.Topics = 13, []kmsg.FetchResponseTopic{topic}
	return r
}

func compared(a, b kmsg.Response) []*difference {
	one, other := newSide("one", "127.0.0.1:1"), newSide("other", "127.0.0.1:2")
	one.topicIs("s1-t", [16]byte{1})
	other.topicIs("s1-t", [16]byte{2})
	st := &step{key: kmsg.Key(a.Key())}
	return compare(st, a.GetVersion(), flatten(one, a, "s1-"), flatten(other, b, "s1-"))
}

// TestAnswersAreCompared: different ids of the same topic are equal. Any other different field is
// found, with its path.
func TestAnswersAreCompared(t *testing.T) {
	one := answer(t, [16]byte{1}, "a", "b")
	if list := compared(one, answer(t, [16]byte{2}, "a", "b")); len(list) != 0 {
		t.Fatalf("equal answers differ: %v", list)
	}
	partition := func(r *kmsg.FetchResponse) *kmsg.FetchResponseTopicPartition { return &r.Topics[0].Partitions[0] }
	const in = "Topics[s1-t#0].Partitions[0]."
	for path, change := range map[string]func(r *kmsg.FetchResponse){
		"ErrorCode":                 func(r *kmsg.FetchResponse) { r.ErrorCode = 1 },
		"Topics[s1-t#0]":            func(r *kmsg.FetchResponse) { r.Topics[0].TopicID[3]++ },
		in + "HighWatermark":        func(r *kmsg.FetchResponse) { partition(r).HighWatermark++ },
		in + "RecordBatches[1]":     func(r *kmsg.FetchResponse) { partition(r).RecordBatches = partition(r).RecordBatches[:80] },
		in + "RecordBatches[0].CRC": func(r *kmsg.FetchResponse) { partition(r).RecordBatches[atCRC]++ },
		in + "RecordBatches[0].Records": func(r *kmsg.FetchResponse) {
			*r = *answer(t, [16]byte{2}, "x", "b")
		},
		in + "RecordBatches[0].PartitionLeaderEpoch": func(r *kmsg.FetchResponse) { partition(r).RecordBatches[atEpoch+3]++ },
		in + "AbortedTransactions.len": func(r *kmsg.FetchResponse) {
			partition(r).AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
		},
		"Topics.len": func(r *kmsg.FetchResponse) { r.Topics = nil },
	} {
		other := answer(t, [16]byte{2}, "a", "b")
		change(other)
		found := false
		for _, d := range compared(one, other) {
			found = found || d.path == path
		}
		if !found {
			t.Errorf("change of %s not found: %v", path, compared(one, other))
		}
	}
	cut := answer(t, [16]byte{2}, "a", "b", "c")
	b := partition(cut)
	b.RecordBatches = b.RecordBatches[:len(b.RecordBatches)-1]
	b.HighWatermark = 2
	if list := compared(one, cut); len(list) != 0 {
		t.Errorf("an incomplete last batch counts, although clients ignore it: %v", list)
	}
}

// TestSeedDeterminesSteps: a seed repeats its steps, and another seed makes others. A generator
// without answers only creates topics, so the test gives it some.
func TestSeedDeterminesSteps(t *testing.T) {
	steps := func(seed uint64) string {
		w := newGenerator(seed, "nonce0")
		w.sees(map[string]*topic{"a": {name: "a", partitions: 2}, "b": {name: "b", partitions: 1}})
		var all strings.Builder
		s := newSide("one", "127.0.0.1:1")
		for range 500 {
			st := w.next()
			all.WriteString(st.what)
			if st.build != nil {
				r := st.build(s)
				r.SetVersion(r.MaxVersion())
				all.Write(r.AppendTo(nil))
			}
		}
		return all.String()
	}
	five, again := steps(5), steps(5)
	check.Equalf(t, five, again, "seed 5 makes different steps when repeated")
	if five == steps(6) {
		t.Error("seeds 5 and 6 make the same steps")
	}
}

// ungenerated are the keys without a step of their own: those of the login, of brokers and of members of
// a group belong to other steps and tests, those of transactions to TestTransactions, and Kafka's answers
// to DescribeLogDirs depend on its disks.
var ungenerated = append([]kmsg.Key{
	kmsg.SASLAuthenticate, kmsg.Envelope, kmsg.Heartbeat, kmsg.LeaveGroup, kmsg.SyncGroup, kmsg.ConsumerGroupHeartbeat, kmsg.ConsumerGroupDescribe,
	kmsg.DescribeLogDirs,
}, ofTransactions...)

// TestEveryAreaIsCovered: the generator makes requests of every key that Seb serves.
func TestEveryAreaIsCovered(t *testing.T) {
	w := newGenerator(1, "nonce0")
	w.sees(map[string]*topic{"a": {name: "a", partitions: 2}, "b": {name: "b", partitions: 1}})
	met := map[kmsg.Key]int{}
	for range 2000 {
		met[w.next().key]++
	}
	for key := range kmsg.Key(kmsg.MaxKey + 1) {
		_, served := kafka.Shape(key)
		switch excepted := slices.Contains(ungenerated, key); {
		case served && met[key] == 0 && !excepted:
			t.Errorf("%s is never requested", key.Name())
		case excepted && (!served || met[key] > 0):
			t.Errorf("%s is an exception, but served is %v, and it was requested %d times", key.Name(), served, met[key])
		}
	}
}
