// Package kafkatest speaks the Kafka protocol request by request.
package kafkatest

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Conn is a connection of the Kafka protocol with one request at a time. It shows every answer
// and every error, which clients handle themselves.
type Conn struct {
	net.Conn
	last int32 // number of the last request
}

// Ask sends a request and waits for its answer until the deadline of ctx, or for a minute. After an
// error the connection is unusable.
func (c *Conn) Ask(ctx context.Context, req kmsg.Request, version int16) (kmsg.Response, error) {
	until, ok := ctx.Deadline()
	if !ok {
		until = time.Now().Add(time.Minute)
	}
	_ = c.SetDeadline(until)
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now()) })
	defer stop()
	req.SetVersion(version)
	c.last++
	if _, err := c.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, req, c.last)); err != nil {
		return nil, err
	}
	var head [8]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return nil, err
	}
	const most = 64 << 20
	n, id := binary.BigEndian.Uint32(head[:]), int32(binary.BigEndian.Uint32(head[4:]))
	if n < 5 || n > most || id != c.last {
		return nil, fmt.Errorf("answer %d of %d bytes to request %d", id, n, c.last)
	}
	body := make([]byte, n-4)
	if _, err := io.ReadFull(c, body); err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	if resp.IsFlexible() && req.Key() != int16(kmsg.ApiVersions) {
		body = body[1:] // no tags
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	return resp, nil
}

// Login authenticates with SASL PLAIN.
func (c *Conn) Login(ctx context.Context, key string) error {
	hello := kmsg.NewPtrSASLHandshakeRequest()
	hello.Mechanism = "PLAIN"
	if _, err := c.Ask(ctx, hello, 1); err != nil {
		return err
	}
	show := kmsg.NewPtrSASLAuthenticateRequest()
	show.SASLAuthBytes = []byte("\x00test\x00" + key)
	answer, err := c.Ask(ctx, show, 2)
	if err != nil {
		return err
	}
	if code := answer.(*kmsg.SASLAuthenticateResponse).ErrorCode; code != 0 {
		return fmt.Errorf("authentication: code %d", code)
	}
	return nil
}
