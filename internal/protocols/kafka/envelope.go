package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/framed"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// Envelope (58), v0: a request of a client of a standby, which the leader serves with the rights of
// that client (KIP-590). Only a broker with the root key may send it, and ApiVersions does not list it.
// The principal is the number of the client's secret, 8 bytes, or 0 for a certificate; the end of the
// certificate in µs since 1970, 8 bytes; and the principal's ID. The address is text. The answer has the
// leader's position in a tagged field, so that the standby can wait for the change.
var _ = register(api{
	key: kmsg.Envelope, min: 0, max: 0, brokers: true,
	shape: wire.Shape{Flexible: 0, Fields: []wire.Field{wire.Bytes, wire.Bytes, wire.Bytes}},
	begin: (*call).envelope,
})

const (
	// envelopeBytes bounds what an envelope adds to a request.
	envelopeBytes = 4 << 10
	principalHead = 16
	positionTag   = 0
)

// clientAddress is the address of a client of another broker.
type clientAddress string

// Network implements net.Addr.
func (clientAddress) Network() string { return "tcp" }

func (a clientAddress) String() string { return string(a) }

func (c *call) envelope(ctx context.Context) (framed.Finish, error) {
	r, err := decode[kmsg.EnvelopeRequest](c)
	if err != nil {
		return nil, err
	}
	resp := kmsg.NewPtrEnvelopeResponse()
	inner, code := c.unwrap(r)
	if resp.ErrorCode = code; code != none {
		return c.done(resp, resp.AppendTo, false), nil
	}
	finish, err := inner.open(ctx, r.RequestData)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (framed.Answer, error) {
		a, err := finish(ctx)
		if err != nil {
			return a, err
		}
		resp.ResponseData = a.Head[4:]
		resp.UnknownTags.Set(positionTag, encodePosition(c.applied()))
		return c.answer(resp, resp.AppendTo), nil
	}, nil
}

// unwrap returns the call of an envelope.
func (c *call) unwrap(r *kmsg.EnvelopeRequest) (*call, int16) {
	switch {
	case !c.who.Root():
		return nil, kerr.ClusterAuthorizationFailed.Code
	case !c.b.Leads():
		return nil, kerr.NotController.Code
	case len(r.RequestData) < wire.HeadMin || len(r.RequestPrincipal) < principalHead:
		return nil, kerr.InvalidRequest.Code
	}
	a := c.apis[wire.Peek(r.RequestData).Key]
	if a == nil || !a.leader {
		return nil, kerr.InvalidRequest.Code
	}
	from := string(r.ClientHostAddress)
	number, ends := binary.BigEndian.Uint64(r.RequestPrincipal), time.UnixMicro(int64(binary.BigEndian.Uint64(r.RequestPrincipal[8:])))
	who := c.o.Auth.OnBehalf(string(r.RequestPrincipal[principalHead:]), number, ends, from)
	client := &session{Server: c.Server, local: c.local, remote: clientAddress(from), identity: who}
	return &call{session: client, who: who, api: a, frame: c.frame, forwarded: true}, none
}

func encodePosition(p state.Position) []byte {
	b := binary.BigEndian.AppendUint32(nil, p.Epoch)
	return binary.BigEndian.AppendUint64(b, p.Slot)
}

func decodePosition(b []byte) (p state.Position, ok bool) {
	if len(b) != 12 {
		return p, false
	}
	return state.Position{Epoch: binary.BigEndian.Uint32(b), Slot: binary.BigEndian.Uint64(b[4:])}, true
}

// wrap is the frame of an envelope around a request of this client.
func (c *call) wrap(request []byte) []byte {
	r := kmsg.NewPtrEnvelopeRequest()
	origin := c.who.Origin()
	head := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, origin.Secret), uint64(c.who.Expires().UnixMicro()))
	r.RequestPrincipal = append(head, origin.Principal...)
	r.RequestData, r.ClientHostAddress = request, []byte(c.remote.String())
	return r.AppendTo(requestHead(make([]byte, 4, len(request)+envelopeBytes), r))
}

// requestHead appends the head of a request of the client "seb".
func requestHead(b []byte, r kmsg.Request) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(r.Key()))
	b = binary.BigEndian.AppendUint16(b, uint16(r.GetVersion()))
	b = binary.BigEndian.AppendUint32(b, 0) // correlation ID
	b = append(b, 0, 3, 's', 'e', 'b')
	if r.IsFlexible() {
		b = append(b, 0)
	}
	return b
}

var errEnvelope = errors.New("invalid answer to an envelope")

// opened returns the answer in the answer to an envelope, without its length, and the position of the
// leader.
func opened(b []byte) (answer []byte, at state.Position, err error) {
	const head = 5 // correlation ID, no tagged fields
	resp := kmsg.NewPtrEnvelopeResponse()
	if len(b) < head {
		return nil, at, errEnvelope
	}
	if err := resp.ReadFrom(b[head:]); err != nil {
		return nil, at, fmt.Errorf("%w: %w", errEnvelope, err)
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, at, &refusedError{err}
	}
	resp.UnknownTags.Each(func(tag uint32, v []byte) {
		if tag == positionTag {
			at, _ = decodePosition(v)
		}
	})
	return resp.ResponseData, at, nil
}

// refusedError: the other broker has not served the request.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }
