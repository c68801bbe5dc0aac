package differential

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	saslplain "github.com/twmb/franz-go/pkg/sasl/plain"
)

// apiKey is the password of SASL on both sides, user its user.
const (
	user   = "differential"
	apiKey = "differential-key"
)

// clientID is the client id of the connections.
const clientID = "diff"

// errClosed means that a broker closed the connection instead of answering.
var errClosed = errors.New("the connection was closed")

// answerWait bounds the wait for an answer, except for a member that waits for others.
const answerWait = 30 * time.Second

// client is one connection, for one goroutine at a time except in receive.
type client struct {
	net.Conn
	last int32
	// open is the request that waits for other members, and its future outcome.
	open *waiting
}

type waiting struct {
	step *step
	came chan outcome
}

// outcome is the result of a request.
type outcome struct {
	resp   kmsg.Response // nil: none
	closed bool          // the broker closed the connection
	none   bool          // no answer on a live connection, as expected with acks=0
	err    error         // not a valid answer
}

// connect connects without authentication.
func connect(address string) (*client, error) {
	c, err := net.DialTimeout("tcp", address, answerWait)
	if err != nil {
		return nil, err
	}
	return &client{Conn: c}, nil
}

// dial connects and authenticates as the user to whom no rule applies.
func dial(address string) (*client, error) {
	return dialAs(address, saslplain.Auth{User: user, Pass: apiKey}.AsMechanism())
}

// dialAs connects and authenticates.
func dialAs(address string, m sasl.Mechanism) (*client, error) {
	cl, err := connect(address)
	if err != nil {
		return nil, err
	}
	if err := cl.login(m); err != nil {
		_ = cl.Close()
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return cl, nil
}

// login authenticates.
func (c *client) login(m sasl.Mechanism) error {
	hand := kmsg.NewPtrSASLHandshakeRequest()
	hand.Mechanism = m.Name()
	o := c.ask(hand, 1)
	if resp, ok := o.resp.(*kmsg.SASLHandshakeResponse); !ok || resp.ErrorCode != 0 {
		return fmt.Errorf("handshake: %+v", o)
	}
	session, message, err := m.Authenticate(context.Background(), "")
	for done := false; err == nil; {
		auth := kmsg.NewPtrSASLAuthenticateRequest()
		auth.SASLAuthBytes = message
		o := c.ask(auth, 1)
		resp, ok := o.resp.(*kmsg.SASLAuthenticateResponse)
		if !ok || resp.ErrorCode != 0 {
			return fmt.Errorf("authentication: %+v", o)
		}
		if done, message, err = session.Challenge(resp.SASLAuthBytes); done {
			return err
		}
	}
	return err
}

// send writes a request with its length and head.
func (c *client) send(r kmsg.Request, version int16) error {
	r.SetVersion(version)
	c.last++
	b := header(r.Key(), version, c.last, r.IsFlexible())
	b = r.AppendTo(b)
	return c.frame(b)
}

// header returns space for the length, and a request's head.
func header(key, version int16, id int32, flexible bool) []byte {
	b := make([]byte, 4, 256)
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(id))
	b = binary.BigEndian.AppendUint16(b, uint16(len(clientID)))
	b = append(b, clientID...)
	if flexible {
		b = append(b, 0)
	}
	return b
}

func (c *client) frame(b []byte) error {
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	_ = c.SetWriteDeadline(time.Now().Add(answerWait)) // errors show at the next use
	_, err := c.Write(b)
	return err
}

// receive reads the answer to the last request.
func (c *client) receive(r kmsg.Request, version int16, wait time.Duration) outcome {
	_ = c.SetReadDeadline(time.Now().Add(wait)) // errors show at the next use
	head := make([]byte, 8)
	if _, err := io.ReadFull(c, head); err != nil {
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return outcome{err: fmt.Errorf("no answer within %s", wait)}
		}
		return outcome{closed: true}
	}
	size := binary.BigEndian.Uint32(head)
	const most = 64 << 20
	if size < 4 || size > most {
		return outcome{err: fmt.Errorf("answer of %d bytes", size)}
	}
	b := make([]byte, size-4)
	if _, err := io.ReadFull(c, b); err != nil {
		return outcome{err: fmt.Errorf("incomplete answer: %w", err)}
	}
	if id := int32(binary.BigEndian.Uint32(head[4:])); id != c.last {
		return outcome{err: fmt.Errorf("answer to request %d, want %d", id, c.last)}
	}
	resp, err := decode(r, version, b)
	return outcome{resp: resp, err: err}
}

// decode decodes an answer after its correlation id.
func decode(r kmsg.Request, version int16, b []byte) (kmsg.Response, error) {
	resp := r.ResponseKind()
	if _, versions := resp.(*kmsg.ApiVersionsResponse); versions {
		// An unknown version is answered as v0.
		if code := binary.BigEndian.Uint16(append(b[:len(b):len(b)], 0, 0)); code == unsupportedVersion {
			version = 0
		}
	} else if r.IsFlexible() {
		if len(b) == 0 || b[0] != 0 {
			return nil, errors.New("tagged fields in the head of the answer")
		}
		b = b[1:]
	}
	resp.SetVersion(version)
	if err := resp.ReadFrom(b); err != nil {
		return nil, fmt.Errorf("cannot decode the answer: %w: %x", err, b)
	}
	return resp, nil
}

const unsupportedVersion = 35

// ask sends a request and reads its answer.
func (c *client) ask(r kmsg.Request, version int16) outcome {
	if err := c.send(r, version); err != nil {
		return outcome{closed: true}
	}
	return c.receive(r, version, answerWait)
}
