package differential

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// changeQuotas changes quotas of users, with limits that no request of a test meets.
func (w *generator) changeQuotas() *step {
	r := kmsg.NewAlterClientQuotasRequest()
	r.ValidateOnly = w.chance(5)
	for _, user := range pick(w, []string{"ann"}, []string{"bob"}, []string{"ann", "bob"}) {
		name := w.prefix + user
		entry := kmsg.AlterClientQuotasRequestEntry{Entity: []kmsg.AlterClientQuotasRequestEntryEntity{{Type: "user", Name: &name}}}
		for _, key := range pick(w, []string{"producer_byte_rate"}, []string{"consumer_byte_rate"}, []string{"producer_byte_rate", "consumer_byte_rate"}) {
			op := kmsg.AlterClientQuotasRequestEntryOp{Key: key, Value: pick(w, 1e9, 2e9, 5e9), Remove: w.chance(3)}
			if w.chance(12) {
				op.Value = pick(w, -1, 0, 1e9+0.5)
			}
			entry.Ops = append(entry.Ops, op)
		}
		if w.chance(12) {
			odd := w.prefix + "odd" // in no other request, because Kafka stores some of these
			entry.Entity[0].Name = &odd
			pick(w, func() { entry.Ops[0].Key = "missing" }, func() { entry.Ops[0].Key = "request_percentage" },
				func() { entry.Ops[0].Key = "request_rate" },
				func() { entry.Entity[0].Type = "client-id" }, func() { entry.Entity[0].Type = "missing" }, func() { entry.Entity = nil })()
		}
		r.Entries = append(r.Entries, entry)
	}
	var what strings.Builder
	for _, e := range r.Entries {
		for _, of := range e.Entity {
			fmt.Fprintf(&what, " %s %q", of.Type, *of.Name)
		}
		fmt.Fprintf(&what, " %+v", e.Ops)
	}
	return &step{what: fmt.Sprintf("quotas%s, dry %v", what.String(), r.ValidateOnly), key: kmsg.AlterClientQuotas, version: anyVersion, build: func(*side) kmsg.Request {
		one := r
		return &one
	}}
}

func (w *generator) describeQuotas() *step {
	name := w.prefix + pick(w, "ann", "bob", "missing")
	user := kmsg.DescribeClientQuotasRequestComponent{EntityType: "user", Match: &name}
	list := []kmsg.DescribeClientQuotasRequestComponent{user}
	switch w.IntN(12) {
	case 0:
		list = append(list, kmsg.DescribeClientQuotasRequestComponent{EntityType: "client-id", MatchType: kmsg.QuotasMatchTypeDefault})
	case 1:
		list = append(list, user)
	case 2:
		list[0].EntityType = "missing"
	case 3:
		list[0].MatchType = pick(w, kmsg.QuotasMatchType(9), kmsg.QuotasMatchTypeDefault)
	case 4:
		list[0].Match = nil
	}
	strict := w.chance(2)
	return &step{what: fmt.Sprintf("describe quotas of %q by %d components", name, len(list)), key: kmsg.DescribeClientQuotas, version: anyVersion, reads: true, build: func(*side) kmsg.Request {
		r := kmsg.NewPtrDescribeClientQuotasRequest()
		r.Components, r.Strict = list, strict
		return r
	}}
}
