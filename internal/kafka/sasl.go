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

// SaslHandshake (17), v0 and v1: a client chooses how to show who it is: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, with any user
// name, and the API key as password. After v0 the bytes of SASL come without heads, until the client has shown who it is:
// old librdkafka does so, and new librdkafka takes a broker without v0 for one that has no SASL.
var saslHandshakeAPI = api{
	key: kmsg.SASLHandshake, min: 0, max: 1, open: true,
	shape: conn.Shape{Flexible: -1, Fields: []conn.Field{conn.Text}},
	begin: (*call).handshake,
}

// SaslAuthenticate (36), v0 to v2: the password. Who has shown who it is stays so until the connection ends. After a wrong
// one the connection ends.
var saslAuthenticateAPI = api{
	key: kmsg.SASLAuthenticate, min: 0, max: 2, open: true,
	shape: conn.Shape{Flexible: 2, Fields: []conn.Field{conn.Bytes}},
	begin: (*call).authenticate,
}

const plain = "PLAIN"

// handshake runs in the order of requests, as what is behind it depends on it.
func (c *call) handshake(context.Context) (conn.Finish, error) {
	r, err := decode[kmsg.SASLHandshakeRequest](c)
	if err != nil {
		return nil, err
	}
	resp := kmsg.NewPtrSASLHandshakeResponse()
	resp.SupportedMechanisms = []string{plain, scramSHA256, scramSHA512}
	c.mechanism, c.scramming = "", nil
	switch server := c.scrams[r.Mechanism]; {
	case r.Mechanism == plain:
		c.mechanism = plain
	case server != nil:
		c.mechanism, c.scramming = r.Mechanism, server.talk()
	default:
		resp.ErrorCode = kerr.UnsupportedSaslMechanism.Code
	}
	c.bare = c.version == 0 && c.mechanism != ""
	return c.done(resp, false), nil
}

func (c *call) authenticate(ctx context.Context) (conn.Finish, error) {
	r, err := decode[kmsg.SASLAuthenticateRequest](c)
	if err != nil {
		return nil, err
	}
	resp := kmsg.NewPtrSASLAuthenticateResponse()
	if c.mechanism == "" {
		resp.ErrorCode, err = kerr.IllegalSaslState.Code, errors.New("SaslHandshake has to come first")
	} else {
		resp.SASLAuthBytes, err = c.step(ctx, r.SASLAuthBytes)
	}
	if errors.Is(err, errPassword) {
		resp.ErrorCode = kerr.SaslAuthenticationFailed.Code
	}
	resp.ErrorMessage = text(err)
	return c.done(resp, err != nil), nil
}

// step takes a message of the mechanism that was chosen. One of many wrong passwords waits for its answer.
func (s *session) step(ctx context.Context, message []byte) (answer []byte, err error) {
	done := true
	if s.scramming != nil {
		answer, done, err = s.scramming.step(message)
	} else if !s.password(message) {
		err = errPassword
	}
	switch {
	case err != nil:
		s.met.strangers.Inc()
		if wait := s.o.Logins.Failed("kafka", s.remote.String()); wait > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(wait):
			}
		}
	case done:
		s.trusted, s.mechanism, s.scramming, s.bare = true, "", nil, false // once is enough of a handshake
	}
	return answer, err
}

// beginBare takes a frame that is a message of SASL and nothing else. After a wrong one the connection ends.
func (s *session) beginBare(ctx context.Context, f *conn.Frame) (conn.Finish, error) {
	answer, err := s.step(ctx, f.Bytes)
	if err != nil {
		return nil, err
	}
	return func(context.Context) (conn.Answer, error) {
		return conn.Answer{Head: append(make([]byte, 4), answer...)}, nil // its length, filled in by package conn
	}, nil
}

// password says whether a message of PLAIN (RFC 4616), authorization id NUL user NUL password, has the API key.
func (s *Server) password(message []byte) bool {
	parts := bytes.SplitN(message, []byte{0}, 4)
	if len(parts) != 3 {
		return false
	}
	given := sha256.Sum256(parts[2])
	return subtle.ConstantTimeCompare(given[:], s.secret[:]) == 1
}

// done gives an answer that is there already; last ends the connection with it.
func (c *call) done(resp kmsg.Response, last bool) conn.Finish {
	return func(context.Context) (conn.Answer, error) {
		a := c.answer(resp)
		a.Last = last
		return a, nil
	}
}
