package differential

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// absent requests features that neither side uses: reassignments, elections and transactions; and the configs of resources.
func (w *generator) absent() *step {
	name, n, kinds := w.topicName(), int32(w.IntN(3)), pick(w, []int8{4}, []int8{16}, []int8{32}, []int8{4, 8}, []int8{77})
	list := []struct {
		key   kmsg.Key
		build func(r kmsg.Request)
	}{
		{kmsg.ElectLeaders, func(r kmsg.Request) {
			r.(*kmsg.ElectLeadersRequest).Topics = []kmsg.ElectLeadersRequestTopic{{Topic: name, Partitions: []int32{n}}}
		}},
		{kmsg.ListPartitionReassignments, func(kmsg.Request) {}},
		{kmsg.ListTransactions, func(r kmsg.Request) {
			// Kafka has those of other steps.
			r.(*kmsg.ListTransactionsRequest).ProducerIDFilters = []int64{1 << 50}
		}},
		{kmsg.ListConfigResources, func(r kmsg.Request) { r.(*kmsg.ListConfigResourcesRequest).ResourceTypes = kinds }},
	}
	of := list[w.IntN(len(list))]
	return &step{what: fmt.Sprintf("missing features of %s/%d, kinds %v", name, n, kinds), key: of.key, version: anyVersion, reads: true, build: func(*side) kmsg.Request {
		r := kmsg.RequestForKey(of.key.Int16())
		if d, ok := r.(interface{ Default() }); ok {
			d.Default()
		}
		of.build(r)
		return r
	}}
}
