package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// DescribeCluster (60), v0 to v2: the brokers that are up (nodes.go). Requests for controllers are refused: there are
// none.
var _ = register(api{
	key: kmsg.DescribeCluster, min: 0, max: 2,
	shape: wire.Shape{Flexible: 0, Fields: []wire.Field{wire.Bool, wire.Int8.Since(1), wire.Bool.Since(2)}},
	begin: serving((*call).describeCluster),
})

// The types of endpoints.
const (
	endpointBrokers     = 1
	endpointControllers = 2
)

func (c *call) describeCluster(_ context.Context, r *kmsg.DescribeClusterRequest) (*kmsg.DescribeClusterResponse, error) {
	resp := kmsg.NewPtrDescribeClusterResponse()
	resp.EndpointType = endpointBrokers
	if c.version >= 1 && r.EndpointType != endpointBrokers {
		const (
			mismatchedEndpointType  = 114
			unsupportedEndpointType = 115
		)
		if resp.ErrorCode = unsupportedEndpointType; r.EndpointType == endpointControllers {
			resp.ErrorCode = mismatchedEndpointType
		}
		resp.ErrorMessage = text(errors.New("only broker endpoints are supported"))
		return resp, nil
	}
	ns := c.nodes()
	resp.ClusterID, resp.ControllerID = c.b.Cluster().String(), ns.leaderID()
	for _, n := range ns.up {
		b := kmsg.NewDescribeClusterResponseBroker()
		b.NodeID, b.Host, b.Port = n.id, n.host, n.port
		resp.Brokers = append(resp.Brokers, b)
	}
	if r.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = c.clusterOperations()
	}
	return resp, nil
}
