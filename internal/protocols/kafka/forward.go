package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/framed"
)

// A standby forwards the requests that only a leader can serve, so that a tool may use any broker. It
// opens a connection to the leader, authenticates with the root key, and sends the request in an
// envelope with the name of its client. The leader checks the rights of that client.

const (
	forwardDial = 3 * time.Second            // to connect and to authenticate
	forwardTime = commitTime + 5*time.Second // until the answer
	answerBytes = 16 << 20                   // bounds an answer
	reachAfter  = 100 * time.Millisecond     // when a standby reads the bucket for a change
)

var errNoLeader = errors.New("no leader is known")

// forward serves a request at the leader. Without one it serves the request here, which refuses it.
func (c *call) forward(ctx context.Context) (framed.Answer, error) {
	answer, err := c.ask(ctx, c.frame.Bytes)
	var refused *refusedError
	switch {
	case err == nil:
		return framed.Answer{Head: append(make([]byte, 4, 4+len(answer)), answer...)}, nil
	case !errors.As(err, &refused):
		// The outcome is unknown, which the end of the connection says.
		return framed.Answer{}, fmt.Errorf("forward %s: %w", c.api.key.Name(), err)
	}
	if !errors.Is(err, errNoLeader) {
		c.warn("kafka: request not forwarded to the leader", "api", c.api.key.Name(), "err", err)
	}
	finish, err := c.api.begin(c, ctx)
	if err != nil {
		return framed.Answer{}, err
	}
	return finish(ctx)
}

// ask sends a request to the leader in the name of the client, and returns the answer with its head.
// It waits until this broker has applied what the request has changed. A *refusedError means that the
// request was not served.
func (c *call) ask(ctx context.Context, request []byte) ([]byte, error) {
	way := cluster.Forwarding{Address: func(to *cluster.Registration) string { return to.Kafka }, Forwarded: c.forwarded}
	leader, route := way.Next(c.o.Cluster, c.b.Leads(), time.Now())
	if route != cluster.ForwardCall {
		return nil, &refusedError{errNoLeader}
	}
	if err := c.frame.Charge(int64(len(request)) + envelopeBytes); err != nil {
		return nil, &refusedError{err}
	}
	ctx, cancel := context.WithTimeout(ctx, forwardTime)
	defer cancel()
	l, err := c.dial(ctx, &leader)
	if err != nil {
		return nil, &refusedError{err}
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { _ = l.SetDeadline(time.Now()) })()
	b, err := l.ask(c.wrap(request), c.frame.Charge)
	if err != nil {
		return nil, err
	}
	answer, at, err := opened(b)
	if err == nil {
		c.reach(ctx, at)
	}
	return answer, err
}

// reach waits until this broker has applied a change of the leader, at most standbyWait. If that takes
// longer than usual, it reads the bucket.
func (s *Server) reach(ctx context.Context, at state.Position) {
	ctx, cancel := context.WithTimeout(ctx, standbyWait)
	defer cancel()
	soon, done := context.WithTimeout(ctx, reachAfter)
	defer done()
	if s.b.WaitApplied(soon, at) == nil {
		return
	}
	s.b.Reach(at)
	_ = s.b.WaitApplied(ctx, at)
}

// leaderConn is a connection to the leader.
type leaderConn struct{ net.Conn }

// dial connects to the leader, and authenticates with the root key.
func (s *Server) dial(ctx context.Context, leader *cluster.Registration) (*leaderConn, error) {
	host, _, err := net.SplitHostPort(leader.Kafka)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, forwardDial)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", leader.Kafka)
	if err != nil {
		return nil, err
	}
	end, _ := ctx.Deadline()
	_ = raw.SetDeadline(end)
	l := &leaderConn{raw}
	if s.o.Port.Secure() {
		config := s.o.ClusterTLS.Clone()
		config = cmp.Or(config, &tls.Config{MinVersion: tls.VersionTLS12})
		config.ServerName = host
		l.Conn = tls.Client(raw, config)
	}
	if err := l.login(ctx, s.o.RootKey); err != nil {
		_ = l.Close()
		return nil, err
	}
	_ = raw.SetDeadline(time.Now().Add(forwardTime))
	return l, nil
}

// ask sends a frame, whose first 4 bytes are for its length, and returns the answer without its
// length. reserve reserves the memory of the answer.
func (l *leaderConn) ask(frame []byte, reserve func(int64) error) ([]byte, error) {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	if _, err := l.Write(frame); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(l, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > answerBytes {
		return nil, fmt.Errorf("answer of %d bytes: limit %d", n, answerBytes)
	}
	if err := reserve(2 * int64(n)); err != nil {
		return nil, err
	}
	b := make([]byte, n)
	_, err := io.ReadFull(l, b)
	return b, err
}

// login authenticates with the root key. SCRAM does not show it, and proves that the other broker has
// it too.
func (l *leaderConn) login(ctx context.Context, key string) error {
	client, message, err := scram.Auth{User: access.RootID, Pass: key}.AsSha512Mechanism().Authenticate(ctx, "")
	if err != nil {
		return err
	}
	hand := kmsg.NewPtrSASLHandshakeRequest()
	hand.Version, hand.Mechanism = 1, scramSHA512
	handed := kmsg.SASLHandshakeResponse{Version: hand.Version}
	if err := l.exchange(hand.AppendTo(requestHead(make([]byte, 4), hand)), handed.ReadFrom); err != nil {
		return err
	}
	for done := false; !done; {
		r, resp := kmsg.NewPtrSASLAuthenticateRequest(), kmsg.SASLAuthenticateResponse{}
		r.SASLAuthBytes = message
		if err := l.exchange(r.AppendTo(requestHead(make([]byte, 4), r)), resp.ReadFrom); err != nil {
			return err
		}
		if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
			return err
		}
		if done, message, err = client.Challenge(resp.SASLAuthBytes); err != nil {
			return err
		}
	}
	return nil
}

// exchange sends a small request and decodes the answer, both of a version without tagged fields.
func (l *leaderConn) exchange(request []byte, decode func([]byte) error) error {
	b, err := l.ask(request, func(n int64) error {
		if n > 2*unauthenticatedBytes {
			return errEnvelope
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(b) < 4 {
		return errEnvelope
	}
	return decode(b[4:])
}

// createAtLeader creates a topic with default settings at the leader, and returns the code.
func (c *call) createAtLeader(ctx context.Context, topic string) int16 {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, -1, -1
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Version, r.TimeoutMillis, r.Topics = c.apis[kmsg.CreateTopics.Int16()].max, int32(commitTime.Milliseconds()), []kmsg.CreateTopicsRequestTopic{t}
	resp := kmsg.NewPtrCreateTopicsResponse()
	resp.Version = r.Version
	const head = 5
	b, err := c.ask(ctx, r.AppendTo(requestHead(nil, r)))
	if err != nil || len(b) < head || resp.ReadFrom(b[head:]) != nil || len(resp.Topics) != 1 {
		return kerr.LeaderNotAvailable.Code
	}
	if code := resp.Topics[0].ErrorCode; code != kerr.TopicAlreadyExists.Code {
		return code
	}
	return none
}
