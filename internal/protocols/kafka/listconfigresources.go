package kafka

import (
	"context"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// ListConfigResources (74), v0 and v1: the topics and the brokers, which have configs. v0 lists
// client metrics subscriptions, of which there are none. Groups have no configs of their own.
var _ = register(api{
	key: kmsg.ListConfigResources, min: 0, max: 1,
	shape: wire.Shape{Flexible: 0, Fields: []wire.Field{wire.List(wire.Int8).Since(1)}},
	begin: serving((*call).listConfigResources),
})

func (c *call) listConfigResources(_ context.Context, r *kmsg.ListConfigResourcesRequest) (*kmsg.ListConfigResourcesResponse, error) {
	resp := kmsg.NewPtrListConfigResourcesResponse()
	if resp.ErrorCode = c.clusterDenied(access.DescribeConfigs); resp.ErrorCode != none {
		return resp, nil
	}
	asked := func(kind kmsg.ConfigResourceType) bool {
		return c.version >= 1 && (len(r.ResourceTypes) == 0 || slices.Contains(r.ResourceTypes, int8(kind)))
	}
	add := func(kind kmsg.ConfigResourceType, name string) {
		out := kmsg.NewListConfigResourcesResponseConfigResource()
		out.Name, out.Type = name, int8(kind)
		resp.ConfigResources = append(resp.ConfigResources, out)
	}
	for _, kind := range r.ResourceTypes {
		switch kmsg.ConfigResourceType(kind) {
		case kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger, kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig:
		default:
			resp.ErrorCode = kerr.UnsupportedVersion.Code
			return resp, nil
		}
	}
	ns := c.nodes()
	for _, kind := range []kmsg.ConfigResourceType{kmsg.ConfigResourceTypeBrokerLogger, kmsg.ConfigResourceTypeBroker} {
		for i := 0; asked(kind) && i < len(ns.up); i++ {
			add(kind, strconv.Itoa(int(ns.up[i].id)))
		}
	}
	if asked(kmsg.ConfigResourceTypeTopic) {
		refs := c.topicRefs()
		if err := c.frame.Charge(int64(len(refs)) * partitionBytes); err != nil {
			return nil, err
		}
		for i := range refs {
			add(kmsg.ConfigResourceTypeTopic, refs[i].Name)
		}
	}
	return resp, nil
}
