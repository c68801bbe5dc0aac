package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// ListPartitionReassignments (46), v0, is about a feature that Seb does not have. The answer is that of a Kafka
// broker that does not use it, so that tools that list everything continue.
var _ = register(api{
	key: kmsg.ListPartitionReassignments, min: 0, max: 0,
	shape: wire.Shape{Flexible: 0, Fields: []wire.Field{wire.Int32, wire.Array(wire.Text, wire.List(wire.Int32))}},
	begin: serving(func(c *call, _ context.Context, _ *kmsg.ListPartitionReassignmentsRequest) (*kmsg.ListPartitionReassignmentsResponse, error) {
		resp := kmsg.NewPtrListPartitionReassignmentsResponse()
		resp.ErrorCode = c.clusterDenied(access.Describe)
		return resp, nil
	}),
})
