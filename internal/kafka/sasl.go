package kafka

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/kafka/conn"
)

// SaslHandshake (17), v0 and v1: the client chooses a mechanism: PLAIN, SCRAM-SHA-256 or
// SCRAM-SHA-512, with any user name, and the API key as password. After v0 the client sends SASL
// messages without request heads until it has authenticated. Old librdkafka does so, and new
// librdkafka assumes that a broker without v0 has no SASL.
var saslHandshakeAPI = api{
	key: kmsg.SASLHandshake, min: 0, max: 1, unauthenticated: true,
	shape: conn.Shape{Flexible: -1, Fields: []conn.Field{conn.Text}},
	begin: (*call).handshake,
}

// SaslAuthenticate (36), v0 to v2: the password. Authentication lasts until the connection ends. A
// wrong password ends the connection.
var saslAuthenticateAPI = api{
	key: kmsg.SASLAuthenticate, min: 0, max: 2, unauthenticated: true,
	shape: conn.Shape{Flexible: 2, Fields: []conn.Field{conn.Bytes}},
	begin: (*call).authenticate,
}

const plain = "PLAIN"

// handshake runs in the order of requests, because later requests depend on it.
func (c *call) handshake(context.Context) (conn.Finish, error) {
	r, err := decode[kmsg.SASLHandshakeRequest](c)
	if err != nil {
		return nil, err
	}
	resp := kmsg.NewPtrSASLHandshakeResponse()
	resp.SupportedMechanisms = []string{plain, scramSHA256, scramSHA512}
	c.mechanism, c.scram = "", nil
	switch server := c.scrams[r.Mechanism]; {
	case r.Mechanism == plain:
		c.mechanism = plain
	case server != nil:
		c.mechanism, c.scram = r.Mechanism, server.newConversation()
	default:
		resp.ErrorCode = kerr.UnsupportedSaslMechanism.Code
	}
	c.rawSASL = c.version == 0 && c.mechanism != ""
	return c.done(resp, false), nil
}

func (c *call) authenticate(ctx context.Context) (conn.Finish, error) {
	r, err := decode[kmsg.SASLAuthenticateRequest](c)
	if err != nil {
		return nil, err
	}
	resp := kmsg.NewPtrSASLAuthenticateResponse()
	if c.mechanism == "" {
		resp.ErrorCode, err = kerr.IllegalSaslState.Code, errors.New("SaslAuthenticate before SaslHandshake")
	} else {
		resp.SASLAuthBytes, err = c.step(ctx, r.SASLAuthBytes)
	}
	if errors.Is(err, errPassword) {
		resp.ErrorCode = kerr.SaslAuthenticationFailed.Code
	}
	resp.ErrorMessage = text(err)
	return c.done(resp, err != nil), nil
}

// step processes a message of the chosen mechanism. After many wrong passwords the answer is
// delayed.
func (s *session) step(ctx context.Context, message []byte) (answer []byte, err error) {
	done := true
	if s.scram != nil {
		answer, done, err = s.scram.step(message)
	} else if !s.password(message) {
		err = errPassword
	}
	switch {
	case err != nil:
		s.met.authFailures.Inc()
		if wait := s.o.Logins.Failed("kafka", s.remote.String()); wait > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(wait):
			}
		}
	case done:
		s.authenticated, s.mechanism, s.scram, s.rawSASL = true, "", nil, false
	}
	return answer, err
}

// beginRawSASL processes a frame that is a SASL message without a head. A wrong password ends the
// connection.
func (s *session) beginRawSASL(ctx context.Context, f *conn.Frame) (conn.Finish, error) {
	answer, err := s.step(ctx, f.Bytes)
	if err != nil {
		return nil, err
	}
	return func(context.Context) (conn.Answer, error) {
		return conn.Answer{Head: append(make([]byte, 4), answer...)}, nil // conn sets the length
	}, nil
}

// password reports whether a PLAIN message (RFC 4616), authorization ID NUL user NUL password, has
// the API key.
func (s *Server) password(message []byte) bool {
	parts := bytes.SplitN(message, []byte{0}, 4)
	if len(parts) != 3 {
		return false
	}
	given := sha256.Sum256(parts[2])
	return subtle.ConstantTimeCompare(given[:], s.secret[:]) == 1
}

// done is a Finish that does not wait; last closes the connection after the answer.
func (c *call) done(resp kmsg.Response, last bool) conn.Finish {
	return func(context.Context) (conn.Answer, error) {
		a := c.answer(resp)
		a.Last = last
		return a, nil
	}
}
