package differential

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/recordtest"
)

// encoded encodes a batch.
func encoded(records []record.Record, o record.EncodeOptions) []byte {
	b, _ := recordtest.Encode(records, o)
	return b
}

// read fetches a partition.
func (x *transactions) read(*transaction) *step {
	p := x.somewhere()
	from := int64(0)
	if x.chance(2) {
		from = x.Int64N(x.topics[p.topic].ends[p.n] + 1)
	}
	return x.readFrom(p, from, int8(x.IntN(2)))
}

func (x *transactions) readFrom(p partition, offset int64, isolation int8) *step {
	st := &step{what: fmt.Sprintf("fetch %v from %d, isolation %d", p, offset, isolation), key: kmsg.Fetch, version: anyVersion, reads: true}
	st.build = func(s *side) kmsg.Request {
		r := kmsg.NewPtrFetchRequest()
		r.MaxBytes, r.IsolationLevel, r.SessionEpoch = 1<<20, isolation, -1
		part := kmsg.NewFetchRequestTopicPartition()
		part.Partition, part.FetchOffset, part.PartitionMaxBytes, part.CurrentLeaderEpoch = p.n, offset, 1<<20, -1
		t := kmsg.NewFetchRequestTopic()
		t.Topic, t.TopicID = p.topic, idOf(s, p.topic)
		t.Partitions = append(t.Partitions, part)
		r.Topics = append(r.Topics, t)
		return r
	}
	return st
}

// bounds asks for the end of a partition.
func (x *transactions) bounds(*transaction) *step {
	p, isolation, at := x.somewhere(), int8(x.IntN(2)), pick(x.generator, int64(-1), -1, -2, -3, 1000, 2000)
	st := &step{what: fmt.Sprintf("the offset of %v at %d, isolation %d", p, at, isolation), key: kmsg.ListOffsets, version: anyVersion, reads: true}
	st.from = 2
	st.build = func(*side) kmsg.Request {
		r := kmsg.NewPtrListOffsetsRequest()
		r.ReplicaID, r.IsolationLevel, r.TimeoutMillis = -1, isolation, 20_000
		part := kmsg.NewListOffsetsRequestTopicPartition()
		part.Partition, part.Timestamp, part.CurrentLeaderEpoch = p.n, at, -1
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic, t.Partitions = p.topic, append(t.Partitions, part)
		r.Topics = append(r.Topics, t)
		return r
	}
	st.after = func(resp kmsg.Response) {
		if got := resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]; got.ErrorCode == 0 && at == -1 {
			x.topics[p.topic].ends[p.n] = max(got.Offset, x.topics[p.topic].ends[p.n])
		}
	}
	return st
}

// offsets asks for the offsets of a group.
func (x *transactions) offsets(*transaction) *step {
	group, stable := pick(x.generator, x.groups...), x.chance(2)
	list := x.sorted()
	st := &step{what: fmt.Sprintf("offsets of group %s, stable %v", group, stable), key: kmsg.OffsetFetch, version: anyVersion, reads: true}
	st.build = func(s *side) kmsg.Request {
		r := kmsg.NewPtrOffsetFetchRequest()
		r.Group, r.RequireStable = group, stable
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = group
		for _, of := range list {
			var all []int32
			for n := range int32(of.partitions) {
				all = append(all, n)
			}
			r.Topics = append(r.Topics, kmsg.OffsetFetchRequestTopic{Topic: of.name, Partitions: all})
			t := kmsg.NewOffsetFetchRequestGroupTopic()
			t.Topic, t.TopicID, t.Partitions = of.name, idOf(s, of.name), all
			g.Topics = append(g.Topics, t)
		}
		r.Groups = append(r.Groups, g)
		return r
	}
	return st
}

func (x *transactions) describeProducers(*transaction) *step {
	p := x.somewhere()
	st := &step{what: fmt.Sprintf("producers of %v", p), key: kmsg.DescribeProducers, version: anyVersion, reads: true}
	st.build = func(*side) kmsg.Request {
		r := kmsg.NewPtrDescribeProducersRequest()
		t := kmsg.NewDescribeProducersRequestTopic()
		t.Topic, t.Partitions = p.topic, []int32{p.n}
		r.Topics = append(r.Topics, t)
		return r
	}
	return st
}

func (x *transactions) describe(t *transaction) *step {
	ids := []string{t.id}
	if x.chance(4) {
		ids = append(ids, x.prefix+"nothing")
	}
	st := &step{what: fmt.Sprintf("describe %v", ids), key: kmsg.DescribeTransactions, version: anyVersion, reads: true}
	st.build = func(*side) kmsg.Request {
		r := kmsg.NewPtrDescribeTransactionsRequest()
		r.TransactionalIDs = ids
		return r
	}
	return st
}

func (x *transactions) list(t *transaction) *step {
	states := pick(x.generator, nil, nil, []string{"Ongoing"}, []string{"CompleteCommit", "Empty"}, []string{"CompleteAbort", "Nonsense"})
	duration := pick(x.generator, int64(-1), -1, 0, 3_600_000)
	pattern := pick(x.generator, nil, nil, text(".*transactional1"), text(""), text("["))
	of := -1
	if x.chance(4) {
		of = t.given - 1
	}
	what := fmt.Sprintf("transactions in states %q, of a producer %d, longer than %d, like %s", states, of, duration, shown(pattern))
	st := &step{what: what, key: kmsg.ListTransactions, version: anyVersion, reads: true}
	st.build = func(s *side) kmsg.Request {
		r := kmsg.NewPtrListTransactionsRequest()
		r.StateFilters, r.DurationFilterMillis, r.TransactionalIDPattern = states, duration, pattern
		if of >= 0 {
			r.ProducerIDFilters = []int64{s.producerOf(t.id, of).id}
		}
		return r
	}
	return st
}

func shown(s *string) string {
	if s == nil {
		return "any"
	}
	return *s
}

// timeout begins a transaction that is not ended in time.
func (x *transactions) timeout(t *transaction) *step {
	first := x.initWith(t, shortTimeout, none)
	then := first.after
	first.after = func(resp kmsg.Response) {
		then(resp)
		if resp.(*kmsg.InitProducerIDResponse).ErrorCode != 0 {
			return
		}
		wait := x.describe(t)
		wait.transactional, wait.awaits, wait.what = t.id, true, wait.what+" after its timeout"
		wait.after = func(kmsg.Response) {
			end := x.endOf(t, x.newest(t), x.chance(2))
			end.late = true
			x.queue = append(x.queue, end, x.initWith(t, transactionTimeout, none))
		}
		if x.two {
			x.queue = append(x.queue, x.produce(t), wait)
			return
		}
		add := x.addPartitions(t)
		added := add.after
		add.after = func(resp kmsg.Response) {
			added(resp)
			x.queue = append(x.queue, wait)
		}
		x.queue = append(x.queue, add)
	}
	return first
}

// marker flattens the record of a control batch. Its time and the epoch of the coordinator differ.
func (f *flattener) marker(path string, b []byte) {
	for _, name := range []string{".FirstTimestamp", ".MaxTimestamp"} {
		f.out[path+name] = "now"
	}
	// length, attributes, delta of time, delta of the offset, length of the key: one byte each
	const key, size = batchHead + 5, 4
	if len(b) < key+size {
		f.out[path+".Marker"] = "too short"
		return
	}
	f.out[path+".Marker"] = fmt.Sprintf("%x", b[key:key+size])
}
