package kafka

import (
	"context"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/group"
	"github.com/sebbroker/seb/internal/protocols/framed"
)

// finish waits for the answer of a request about consumer groups until ctx ends. It returns the
// answer with its memory, which the caller releases after sending.
type finish[P kmsg.Response] func(ctx context.Context) (P, *budget.Reservation)

// beginning begins requests on arrival, in the order of their connection. Later requests of the
// connection begin even if this one waits.
func beginning[T any, R request[T], P kmsg.Response](begin func(c *call, r R) finish[P]) func(*call, context.Context) (framed.Finish, error) {
	return func(c *call, _ context.Context) (framed.Finish, error) {
		r, err := decode[T, R](c)
		if err != nil {
			return nil, err
		}
		wait := begin(c, r)
		return func(ctx context.Context) (framed.Answer, error) {
			resp, memory := wait(ctx)
			answer := c.answer(resp, resp.AppendTo)
			answer.Release = memory.Release
			return answer, nil
		}, nil
	}
}

// answered is a finish that does not wait.
func answered[P kmsg.Response](resp P) finish[P] {
	return func(context.Context) (P, *budget.Reservation) { return resp, nil }
}

// groupServing decodes requests on arrival, and serves them when their answer is due.
func groupServing[T any, R request[T], P kmsg.Response](serve func(c *call, ctx context.Context, r R) (P, *budget.Reservation)) func(*call, context.Context) (framed.Finish, error) {
	return beginning(func(c *call, r R) finish[P] {
		return func(ctx context.Context) (P, *budget.Reservation) { return serve(c, ctx, r) }
	})
}

// elementBytes bounds the memory of an element of an answer, decoded and encoded, without its
// strings.
const elementBytes = 256

// callerOf is the sender of a request.
func callerOf(c *call, groupID, member string, instance *string, generation int32) group.Caller {
	return group.Caller{Group: groupID, Member: member, Instance: deref(instance), Client: string(c.client), Generation: generation}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// orNil converts "" to null.
func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// hostOf is the host of an address in Kafka's notation.
func hostOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		host = a.String()
	}
	return "/" + host
}
