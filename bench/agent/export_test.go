package agent

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"

	"github.com/sebbroker/seb/bench/result"
)

// DoParts is Do, and also returns the agents' results.
func (t *Team) DoParts(ctx context.Context, r Run) (*result.Run, []result.Run, error) {
	if err := t.connect(ctx); err != nil {
		return nil, nil, err
	}
	d := newDuty(t, &r)
	res, err := d.do(ctx)
	if d.host != nil {
		if e := d.host.Close(ctx); e != nil && err == nil {
			err = e
		}
	}
	return res, d.res, err
}

// Mute connects to an agent, orders and starts a run, and then sends nothing more, not even beats.
func Mute(ctx context.Context, token Token, address string, r Run) (hangUp func(), err error) {
	t, err := NewTeam(TeamOptions{Agents: []string{address}, Token: token})
	if err != nil {
		return nil, err
	}
	c, err := t.dialQuietly(ctx, address)
	if err != nil {
		return nil, err
	}
	c.w.limit = frameMax
	if err := c.w.send(&frame{Kind: kindRun, Run: &order{Run: 1, Parts: 1, Workload: r.Workload, Target: r.Target}}); err != nil {
		return nil, err
	}
	if f, err := c.w.receive(); err != nil || f.Kind != kindReady {
		return nil, fmt.Errorf("not ready: %v, %w", f, err)
	}
	return c.w.close, c.w.send(&frame{Kind: kindStart})
}

// Shout sends an agent the head of a frame and some of its bytes, and returns the answer.
func Shout(ctx context.Context, token Token, address string, length uint32) error {
	t, err := NewTeam(TeamOptions{Agents: []string{address}, Token: token})
	if err != nil {
		return err
	}
	c, err := t.dialQuietly(ctx, address)
	if err != nil {
		return err
	}
	defer c.w.close()
	if _, err := c.w.c.Write(append(binary.BigEndian.AppendUint32(nil, length), "{}"...)); err != nil {
		return err
	}
	for {
		if _, err := c.w.next(); err != nil {
			return err
		}
	}
}

// SpeakVersion makes the coordinator of this test announce another version.
func SpeakVersion(ctx context.Context, token Token, address string, version int) error {
	t, err := NewTeam(TeamOptions{Agents: []string{address}, Token: token})
	if err != nil {
		return err
	}
	t.version = version
	_, err = t.dial(ctx, address)
	return err
}

// ServerTLS returns an agent's TLS configuration.
func ServerTLS() (*tls.Config, error) { return serverTLS() }

// Frames reads the frames of a connection to its end. It returns their number, and the bytes of
// their errors and receipts.
func Frames(c net.Conn) (frames, bytes int, err error) {
	w := newWire(c)
	w.limit = frameMax
	for {
		f, err := w.next()
		if err != nil {
			return frames, bytes, err
		}
		frames++
		bytes += len(f.Error)
		for _, s := range f.Seen {
			bytes += len(s.Seen)
		}
	}
}
