package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/framed"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// registered are the served API keys. Each file of a key adds its own while the package is
// initialized; afterwards nothing changes them.
var registered = map[int16]*api{}

// register adds a key. The result makes it an initializer: var _ = register(api{…}).
func register(a api) *api {
	if registered[int16(a.key)] != nil {
		panic("kafka: " + a.key.Name() + " is registered twice")
	}
	registered[int16(a.key)] = &a
	return &a
}

// Shape returns the structure of the requests of an API key, for checks of its estimates, and whether
// the key is served.
func Shape(key kmsg.Key) (shape wire.Shape, served bool) {
	if a := registered[int16(key)]; a != nil {
		return a.shape, true
	}
	return shape, false
}

// api defines how an API key is served.
type api struct {
	key      kmsg.Key
	min, max int16 // versions
	// shape is the structure of a request, for the checks before it is decoded.
	shape wire.Shape
	// groups is set for keys about consumer groups.
	groups bool
	// brokers is set for keys that only brokers of a cluster send. ApiVersions does not list them.
	brokers bool
	// leader is set for keys that only the leader can serve, and a standby forwards.
	leader bool
	// stays selects requests of such a key that a standby serves nevertheless. nil: none.
	stays func(c *call) bool
	// unauthenticated allows requests before authentication.
	unauthenticated bool
	// begin begins a request in the reader's goroutine, and so in the order of requests. It must
	// not wait for long. See serving for requests whose order does not matter.
	begin func(c *call, ctx context.Context) (framed.Finish, error)
}

// call is one request.
type call struct {
	*session
	who     *auth.Identity // nil before authentication
	api     *api
	version int16
	id      int32  // correlation ID
	client  []byte // client ID
	frame   *framed.Frame
	body    []byte // of the frame, after the head
	// forwarded is set for a request that a standby has forwarded.
	forwarded bool
}

// request is a request type of kmsg.
type request[T any] interface {
	*T
	kmsg.Request
}

// decode decodes a call's body. The request's strings are copies, its byte slices point into the
// frame.
func decode[T any, R request[T]](c *call) (R, error) {
	r := R(new(T))
	r.SetVersion(c.version)
	return r, c.malformed(r.ReadFrom(c.body))
}

// malformed describes an error of a decoder.
func (c *call) malformed(err error) error {
	if err != nil {
		err = fmt.Errorf("%s v%d: %w: %w", c.api.key.Name(), c.version, wire.ErrMalformed, err)
	}
	return err
}

// serving begins requests that are served when their answer is due, after the answers to all
// earlier requests. The ctx of serve ends when the client is gone.
func serving[T any, R request[T], P kmsg.Response](serve func(c *call, ctx context.Context, r R) (P, error)) func(*call, context.Context) (framed.Finish, error) {
	return func(c *call, _ context.Context) (framed.Finish, error) {
		return func(ctx context.Context) (framed.Answer, error) {
			r, err := decode[T, R](c)
			if err != nil {
				return framed.Answer{}, err
			}
			resp, err := serve(c, ctx, r)
			if err != nil {
				return framed.Answer{}, err
			}
			return c.answer(resp, resp.AppendTo), nil
		}, nil
	}
}

// head starts an answer: space for its length, which package framed fills in, and its correlation ID.
func (c *call) head(dst []byte) []byte {
	dst = append(dst, 0, 0, 0, 0, byte(c.id>>24), byte(c.id>>16), byte(c.id>>8), byte(c.id))
	// The client may not know our versions, so the answer to ApiVersions has the oldest head
	// (KIP-511).
	if c.api.shape.IsFlexible(c.version) && c.api.key != kmsg.ApiVersions {
		dst = append(dst, 0) // no tagged fields
	}
	return dst
}

// throttle is the time for which the client is over its quota after the request, ms. The connection
// is then muted (KIP-219), so the client learns of it at once.
func (c *call) throttle() int32 {
	over := c.who.Meter().Throttle(kindOf(c.api.key))
	if over == nil {
		return 0
	}
	return int32((min(over.Wait, auth.RequestDebtMax) + time.Millisecond - 1) / time.Millisecond)
}

// answer encodes an answer with its method AppendTo. A call of kmsg.Response.AppendTo would link the
// encoders of all requests too, and one of kmsg.Response.ReadFrom the decoders of all responses.
func (c *call) answer(resp kmsg.Response, encode func([]byte) []byte) framed.Answer {
	const usual = 256
	if r, ok := resp.(interface {
		kmsg.ThrottleResponse
		kmsg.SetThrottleResponse
	}); ok {
		millis, _ := r.Throttle()
		r.SetThrottle(max(millis, c.throttle()))
	}
	resp.SetVersion(c.version)
	return framed.Answer{Head: encode(c.head(make([]byte, 0, usual)))}
}

// text is the error message of an answer; nil without an error.
func text(err error) *string {
	if err == nil {
		return nil
	}
	const longest = 500
	s := err.Error()
	if len(s) > longest {
		s = s[:longest]
	}
	return &s
}
