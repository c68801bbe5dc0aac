package group

import "encoding/binary"

// TopicPartitions are partitions of one topic.
type TopicPartitions struct {
	Topic      string
	Partitions []int32
}

// DecodeAssignment decodes the assignment of a member of the classic protocol, in the layout of
// protocol type "consumer": version, topics with their partitions, and data of the assignor, which
// it ignores. Members write assignments and the broker does not check them, so ok is false for
// other data.
func DecodeAssignment(data []byte) (list []TopicPartitions, ok bool) {
	r := assignmentReader{data: data}
	r.take(2) // version
	for n := r.count(6); n > 0; n-- {
		t := TopicPartitions{Topic: string(r.take(int(binary.BigEndian.Uint16(r.take(2)))))}
		for k := r.count(4); k > 0; k-- {
			t.Partitions = append(t.Partitions, int32(binary.BigEndian.Uint32(r.take(4))))
		}
		if r.short {
			return nil, false
		}
		list = append(list, t)
	}
	return list, !r.short
}

// assignmentReader reads fields of an assignment. After its end it is short, and fields are zero.
type assignmentReader struct {
	data  []byte
	short bool
}

func (r *assignmentReader) take(n int) []byte {
	if n > len(r.data) {
		r.short, r.data = true, nil
		return make([]byte, min(n, 4))
	}
	field := r.data[:n]
	r.data = r.data[n:]
	return field
}

// count reads the length of an array whose elements have at least size bytes.
func (r *assignmentReader) count(size int) int {
	n := int(int32(binary.BigEndian.Uint32(r.take(4))))
	if n > len(r.data)/size {
		r.short = true
		return 0
	}
	return max(n, 0)
}
