package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/kafka/conn"
)

// table is every API key that is served. To serve one more takes a file that says what it does, and a line here.
func table() []api {
	return append([]api{
		produceAPI, fetchAPI, listOffsetsAPI, metadataAPI, saslHandshakeAPI, apiVersionsAPI, createTopicsAPI, deleteTopicsAPI,
		deleteRecordsAPI, initProducerIDAPI, offsetForLeaderEpochAPI, describeConfigsAPI, saslAuthenticateAPI,
		createPartitionsAPI, describeClusterAPI, alterConfigsAPI, incrementalAlterConfigsAPI, describeLogDirsAPI,
		describeTopicPartitionsAPI, describeACLsAPI, createACLsAPI, deleteACLsAPI, electLeadersAPI, listPartitionReassignmentsAPI,
		describeClientQuotasAPI, describeUserSCRAMCredentialsAPI, describeTransactionsAPI, listTransactionsAPI, listConfigResourcesAPI,
	}, groupAPIs()...)
}

// api is how an API key is served.
type api struct {
	key      kmsg.Key
	min, max int16 // versions
	// shape is what a request looks like, for what must be known before it is decoded.
	shape conn.Shape
	// groups says that it is about consumer groups.
	groups bool
	// open says that it is there for those who have not shown who they are.
	open bool
	// begin begins a request, by the goroutine that reads, so in the order of requests: it must not wait for long. See serving
	// for requests whose order does not matter.
	begin func(c *call, ctx context.Context) (conn.Finish, error)
}

// call is one request.
type call struct {
	*session
	api     *api
	version int16
	id      int32 // correlation
	frame   *conn.Frame
	body    []byte // of the frame, behind the head
}

// request is what kmsg decodes into.
type request[T any] interface {
	*T
	kmsg.Request
}

// decode makes a request of a call's body, with texts of its own and bytes that are the frame's.
func decode[T any, R request[T]](c *call) (R, error) {
	r := R(new(T))
	r.SetVersion(c.version)
	if err := r.ReadFrom(c.body); err != nil {
		return nil, fmt.Errorf("%s v%d: %w: %w", c.api.key.Name(), c.version, conn.ErrMalformed, err)
	}
	return r, nil
}

// serving begins requests that are served when their answer's turn comes: what is before them has been answered. The ctx of
// serve ends when nobody waits for the answer any more.
func serving[T any, R request[T]](serve func(c *call, ctx context.Context, r R) (kmsg.Response, error)) func(*call, context.Context) (conn.Finish, error) {
	return func(c *call, _ context.Context) (conn.Finish, error) {
		return func(ctx context.Context) (conn.Answer, error) {
			r, err := decode[T, R](c)
			if err != nil {
				return conn.Answer{}, err
			}
			resp, err := serve(c, ctx, r)
			if err != nil {
				return conn.Answer{}, err
			}
			return c.answer(resp), nil
		}, nil
	}
}

// head begins an answer: room for its length, which package conn fills in, and its correlation id.
func (c *call) head(dst []byte) []byte {
	dst = append(dst, 0, 0, 0, 0, byte(c.id>>24), byte(c.id>>16), byte(c.id>>8), byte(c.id))
	// Whoever asks for versions may not know ours, so this answer's head is that of the oldest (KIP-511).
	if c.api.shape.IsFlexible(c.version) && c.api.key != kmsg.ApiVersions {
		dst = append(dst, 0) // no tagged fields
	}
	return dst
}

// answer encodes an answer.
func (c *call) answer(resp kmsg.Response) conn.Answer {
	const usual = 256
	resp.SetVersion(c.version)
	return conn.Answer{Head: resp.AppendTo(c.head(make([]byte, 0, usual)))}
}
