package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/kafka/conn"
)

// DescribeAcls (29), CreateAcls (30) and DeleteAcls (31), v1 to v3: SECURITY_DISABLED, as from a
// Kafka broker without an authorizer. A client with the API key may do everything.
var (
	describeACLsAPI = api{
		key: kmsg.DescribeACLs, min: 1, max: 3,
		shape: conn.Shape{Flexible: 2, Fields: []conn.Field{conn.Int8, conn.Text, conn.Int8, conn.Text, conn.Text, conn.Int8, conn.Int8}},
		begin: serving((*call).describeACLs),
	}
	createACLsAPI = api{
		key: kmsg.CreateACLs, min: 1, max: 3,
		shape: conn.Shape{Flexible: 2, Fields: []conn.Field{
			conn.Array(conn.Int8, conn.Text, conn.Int8, conn.Text, conn.Text, conn.Int8, conn.Int8),
		}},
		begin: serving((*call).createACLs),
	}
	deleteACLsAPI = api{
		key: kmsg.DeleteACLs, min: 1, max: 3,
		shape: conn.Shape{Flexible: 2, Fields: []conn.Field{
			conn.Array(conn.Int8, conn.Text, conn.Int8, conn.Text, conn.Text, conn.Int8, conn.Int8),
		}},
		begin: serving((*call).deleteACLs),
	}
)

var errNoACLs = errors.New("ACLs are not supported: a client with the API key may do everything")

func (c *call) describeACLs(context.Context, *kmsg.DescribeACLsRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrDescribeACLsResponse()
	resp.ErrorCode, resp.ErrorMessage = kerr.SecurityDisabled.Code, text(errNoACLs)
	return resp, nil
}

func (c *call) createACLs(_ context.Context, r *kmsg.CreateACLsRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrCreateACLsResponse()
	for range r.Creations {
		result := kmsg.NewCreateACLsResponseResult()
		result.ErrorCode, result.ErrorMessage = kerr.SecurityDisabled.Code, text(errNoACLs)
		resp.Results = append(resp.Results, result)
	}
	return resp, nil
}

func (c *call) deleteACLs(_ context.Context, r *kmsg.DeleteACLsRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrDeleteACLsResponse()
	for range r.Filters {
		result := kmsg.NewDeleteACLsResponseResult()
		result.ErrorCode, result.ErrorMessage = kerr.SecurityDisabled.Code, text(errNoACLs)
		resp.Results = append(resp.Results, result)
	}
	return resp, nil
}
