package group_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/group"
)

// assignment encodes an assignment as Kafka's clients do.
func assignment(topics ...group.TopicPartitions) []byte {
	m := kmsg.NewConsumerMemberAssignment()
	m.UserData = []byte("of the assignor")
	for _, t := range topics {
		of := kmsg.NewConsumerMemberAssignmentTopic()
		of.Topic, of.Partitions = t.Topic, t.Partitions
		m.Topics = append(m.Topics, of)
	}
	return m.AppendTo(nil)
}

func TestDecodeAssignment(t *testing.T) {
	ofTwo := assignment(group.TopicPartitions{Topic: "t", Partitions: []int32{0, 3}}, group.TopicPartitions{Topic: "u", Partitions: []int32{7}})
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"two topics":              {ofTwo, "[{t [0 3]} {u [7]}] true"},
		"none":                    {assignment(), "[] true"},
		"empty":                   {nil, "[] false"},
		"cut":                     {ofTwo[:len(ofTwo)-24], "[] false"},
		"another protocol":        {[]byte("all partitions"), "[] false"},
		"a count beyond the data": {binary.BigEndian.AppendUint32([]byte{0, 0}, 1<<31-1), "[] false"},
	} {
		if list, ok := group.DecodeAssignment(c.data); fmt.Sprint(list, ok) != c.want {
			t.Errorf("%s: %v %v, want %s", name, list, ok, c.want)
		}
	}
}

// FuzzDecodeAssignment compares with the decoder of the Kafka client.
func FuzzDecodeAssignment(f *testing.F) {
	f.Add(assignment(group.TopicPartitions{Topic: "t", Partitions: []int32{0, 3}}))
	f.Add([]byte{0, 1, 0, 0, 0, 1, 0, 1, 't', 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		list, ok := group.DecodeAssignment(data)
		var m kmsg.ConsumerMemberAssignment
		if err := m.ReadFrom(data); err != nil {
			return // its decoder also reads the assignor's data
		}
		if !ok || len(list) != len(m.Topics) {
			t.Fatalf("%v %v, want %v", list, ok, m.Topics)
		}
		for i, of := range m.Topics {
			if list[i].Topic != of.Topic || fmt.Sprint(list[i].Partitions) != fmt.Sprint(of.Partitions) {
				t.Fatalf("%v, want %v", list, m.Topics)
			}
		}
	})
}
