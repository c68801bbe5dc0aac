package differential

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// absent requests features that neither side has: ACLs, quotas, users, reassignments, elections and
// transactions; and the configs of resources.
func (w *generator) absent() *step {
	name, n, all, kinds := w.topicName(), int32(w.IntN(3)), w.chance(2), pick(w, []int8{4}, []int8{16}, []int8{32}, []int8{4, 8}, []int8{77})
	list := []struct {
		key   kmsg.Key
		build func(r kmsg.Request)
	}{
		{kmsg.DescribeACLs, func(r kmsg.Request) {
			a := r.(*kmsg.DescribeACLsRequest)
			a.ResourceType, a.ResourcePatternType, a.Operation, a.PermissionType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
		}},
		{kmsg.CreateACLs, func(r kmsg.Request) {
			c := kmsg.NewCreateACLsRequestCreation()
			c.ResourceType, c.ResourceName, c.Principal, c.Host = kmsg.ACLResourceTypeTopic, name, "User:x", "*"
			c.Operation, c.PermissionType = kmsg.ACLOperationRead, kmsg.ACLPermissionTypeAllow
			r.(*kmsg.CreateACLsRequest).Creations = []kmsg.CreateACLsRequestCreation{c}
		}},
		{kmsg.DeleteACLs, func(r kmsg.Request) {
			f := kmsg.NewDeleteACLsRequestFilter()
			f.ResourceType, f.Operation, f.PermissionType = kmsg.ACLResourceTypeTopic, kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
			r.(*kmsg.DeleteACLsRequest).Filters = []kmsg.DeleteACLsRequestFilter{f}
		}},
		{kmsg.ElectLeaders, func(r kmsg.Request) {
			r.(*kmsg.ElectLeadersRequest).Topics = []kmsg.ElectLeadersRequestTopic{{Topic: name, Partitions: []int32{n}}}
		}},
		{kmsg.ListPartitionReassignments, func(kmsg.Request) {}},
		{kmsg.DescribeClientQuotas, func(kmsg.Request) {}},
		{kmsg.DescribeUserSCRAMCredentials, func(r kmsg.Request) {
			if d := r.(*kmsg.DescribeUserSCRAMCredentialsRequest); !all {
				d.Users = []kmsg.DescribeUserSCRAMCredentialsRequestUser{{Name: "x"}}
			}
		}},
		{kmsg.ListTransactions, func(r kmsg.Request) {
			// Kafka has those of other steps.
			r.(*kmsg.ListTransactionsRequest).ProducerIDFilters = []int64{1 << 50}
		}},
		{kmsg.ListConfigResources, func(r kmsg.Request) { r.(*kmsg.ListConfigResourcesRequest).ResourceTypes = kinds }},
	}
	of := list[w.IntN(len(list))]
	return &step{what: fmt.Sprintf("missing features of %s/%d, all %v, kinds %v", name, n, all, kinds), key: of.key, version: anyVersion, reads: true, build: func(*side) kmsg.Request {
		r := kmsg.RequestForKey(of.key.Int16())
		if d, ok := r.(interface{ Default() }); ok {
			d.Default()
		}
		of.build(r)
		return r
	}}
}
