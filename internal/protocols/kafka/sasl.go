package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/base/pause"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/framed"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// SaslHandshake (17), v0 and v1: the client chooses a mechanism: PLAIN, SCRAM-SHA-256 or
// SCRAM-SHA-512. The user name is the ID of a principal, and the password its token, or the password
// that Kafka's tools have set; any other user name goes with the root key. After v0 the client sends
// SASL messages without request heads until it has authenticated. Old librdkafka does so, and new
// librdkafka assumes that a broker without v0 has no SASL.
var _ = register(api{
	key: kmsg.SASLHandshake, min: 0, max: 1, unauthenticated: true,
	shape: wire.Shape{Flexible: -1, Fields: []wire.Field{wire.Text}},
	begin: (*call).handshake,
})

// SaslAuthenticate (36), v0 to v2: the password. A wrong password ends the connection. A token that
// expires limits the session (KIP-368): the answer says how long it lasts, the client may
// authenticate again before that, with the same user name, and at the end the connection is closed.
var _ = register(api{
	key: kmsg.SASLAuthenticate, min: 0, max: 2, unauthenticated: true,
	shape: wire.Shape{Flexible: 2, Fields: []wire.Field{wire.Bytes}},
	begin: (*call).authenticate,
})

const plain = "PLAIN"

// handshake runs in the order of requests, because later requests depend on it.
func (c *call) handshake(context.Context) (framed.Finish, error) {
	r, err := decode[kmsg.SASLHandshakeRequest](c)
	if err != nil {
		return nil, err
	}
	resp := kmsg.NewPtrSASLHandshakeResponse()
	resp.SupportedMechanisms = []string{plain, scramSHA256, scramSHA512}
	c.mechanism, c.scram = "", nil
	switch m := mechanisms[r.Mechanism]; {
	case !c.reauthenticates():
		resp.ErrorCode = kerr.IllegalSaslState.Code
	case r.Mechanism == plain:
		c.mechanism = plain
	case m != 0:
		c.mechanism, c.scram = r.Mechanism, c.newConversation(m)
	default:
		resp.ErrorCode = kerr.UnsupportedSaslMechanism.Code
	}
	c.rawSASL = c.version == 0 && c.mechanism != ""
	return c.done(resp, resp.AppendTo, false), nil
}

func (c *call) authenticate(ctx context.Context) (framed.Finish, error) {
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
	if err == nil && c.identity != nil && !c.identity.Expires().IsZero() {
		resp.SessionLifetimeMillis = max(1, c.identity.Expires().Sub(c.o.Auth.Now()).Milliseconds())
	}
	resp.ErrorMessage = text(err)
	return c.done(resp, resp.AppendTo, err != nil), nil
}

// reauthenticateEvery bounds how often a connection may authenticate again.
const reauthenticateEvery = time.Second

// reauthenticates reports whether the client may authenticate now, for the first time or again.
func (s *session) reauthenticates() bool {
	return s.identity == nil || time.Since(s.authenticated) >= reauthenticateEvery
}

// step processes a message of the chosen mechanism. After many wrong passwords the answer is
// delayed.
func (s *session) step(ctx context.Context, message []byte) (answer []byte, err error) {
	var who *auth.Identity
	if s.scram != nil {
		answer, who, err = s.scram.step(ctx, message)
	} else {
		who, err = s.password(ctx, message)
	}
	if err == nil && who != nil && s.identity != nil && who.Name() != s.identity.Name() {
		err = fmt.Errorf("%w: the connection belongs to another user", errPassword)
	}
	switch {
	case err != nil:
		s.met.authFailures.Inc()
		if wait := s.o.Logins.Failed("kafka", s.remote.String()); wait > 0 {
			_ = pause.Wait(ctx, wait)
		}
	case who != nil:
		s.mechanism, s.scram, s.rawSASL = "", nil, false
		s.authenticate(who)
	}
	return answer, err
}

// authenticate sets the identity of the connection, and closes it when the identity ends.
func (s *session) authenticate(who *auth.Identity) {
	s.Close()
	s.identity, s.authenticated = who, time.Now()
	s.valid.Store(who)
	s.unwatch = who.Watch(nil, s.cut)
}

// Close implements framed.Session.
func (s *session) Close() {
	s.noteLeaderNamed()
	if s.unwatch != nil {
		s.unwatch()
	}
}

// beginRawSASL processes a frame that is a SASL message without a head. A wrong password ends the
// connection.
func (s *session) beginRawSASL(ctx context.Context, f *framed.Frame) (framed.Finish, error) {
	answer, err := s.step(ctx, f.Bytes)
	if err != nil {
		return nil, err
	}
	return func(context.Context) (framed.Answer, error) {
		return framed.Answer{Head: append(make([]byte, 4), answer...)}, nil // conn sets the length
	}, nil
}

// password authenticates by a PLAIN message (RFC 4616): authorization ID NUL user NUL password.
func (s *session) password(ctx context.Context, message []byte) (*auth.Identity, error) {
	parts := bytes.SplitN(message, []byte{0}, 4)
	if len(parts) != 3 {
		return nil, errPassword
	}
	return loginResult(s.o.Auth.Password(ctx, string(parts[1]), string(parts[2]), s.remote.String()))
}

// loginResult makes every failed login errPassword, with its reason if that helps the client. A
// store that does not answer is another error, which lets clients try again.
func loginResult(who *auth.Identity, err error) (*auth.Identity, error) {
	switch {
	case err == nil:
		return who, nil
	case errors.Is(err, auth.ErrExpired), errors.Is(err, access.ErrMistyped):
		return nil, fmt.Errorf("%w: %w", errPassword, err)
	case errors.Is(err, auth.ErrUnauthenticated):
		return nil, errPassword
	}
	return nil, err
}

// done is a Finish that does not wait; last closes the connection after the answer.
func (c *call) done(resp kmsg.Response, encode func([]byte) []byte, last bool) framed.Finish {
	return func(context.Context) (framed.Answer, error) {
		a := c.answer(resp, encode)
		a.Last = last
		return a, nil
	}
}
