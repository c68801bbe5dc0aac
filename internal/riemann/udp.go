package riemann

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/sebbroker/seb/internal/auth"
	"github.com/sebbroker/seb/internal/budget"
)

const (
	// DatagramMax bounds a datagram, as in Riemann.
	DatagramMax = 16 << 10
	// datagramShare: datagrams whose events are not stored yet use at most this part of the memory of
	// produces. The others are dropped, so that datagrams keep out no client with an answer.
	datagramShare = 8
	// datagramBuffer is the size of the kernel's buffer.
	datagramBuffer = 1 << 20
)

// ServeDatagrams stores the events of datagrams, each a message without a length, until Drain or
// Close, which close c, and then returns nil. Any other end of c is an error. It is called once. A
// datagram gets no answer. It is dropped and counted if it is not valid, or at once if memory is
// short.
func (s *Server) ServeDatagrams(ctx context.Context, c *net.UDPConn) error {
	if !s.adopt(c) {
		return nil
	}
	defer s.datagrams.Done()
	_ = c.SetReadBuffer(datagramBuffer) // the kernel may allow less
	countDrops(c)
	var (
		buf      = make([]byte, DatagramMax+1)
		oob      [64]byte
		inFlight atomic.Int64
		dropped  uint32 // by the kernel
	)
	for {
		n, control, _, from, err := c.ReadMsgUDPAddrPort(buf, oob[:])
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return err
		}
		s.met.datagrams.Inc()
		if all, ok := dropsIn(oob[:control]); ok {
			s.met.dropped.AddInt64(int64(all - dropped)) // the kernel's number wraps
			dropped = all
		}
		remote := ""
		if s.o.Token != "" {
			remote = from.String()
		}
		if err := s.datagram(ctx, buf[:n], remote, &inFlight); err != nil {
			s.met.dropped.Inc()
			s.log.Debug("riemann: datagram dropped", "remote", from, "err", err)
		}
	}
}

// datagram submits the events of a datagram.
func (s *Server) datagram(ctx context.Context, msg []byte, remote string, inFlight *atomic.Int64) error {
	if len(msg) > DatagramMax {
		return fmt.Errorf("datagram of more than %d bytes", DatagramMax)
	}
	m, err := walk(msg)
	if err != nil || m.events == 0 {
		return err
	}
	d := datagram{inFlight: inFlight, size: int64(m.room())}
	if n := inFlight.Load(); n+d.size > s.produceClass.Limit()/datagramShare || len(s.unwatched) > unwatchedMax/2 {
		return fmt.Errorf("%w: earlier datagrams are not stored yet", budget.ErrOver)
	}
	c := client{Server: s, remote: remote}
	if c.who, err = s.listenerIdentity(ctx, remote); err != nil {
		s.met.authFailures.Inc()
		return err
	}
	if wait := c.who.Meter().Begin(auth.Produced, int64(len(msg))); wait > 0 {
		return auth.ErrQuota
	}
	t, err := c.submit(ctx, msg, &m, d)
	if err == nil {
		s.unwatched <- t
	}
	return err
}

// datagram is the memory of the records of a datagram.
type datagram struct {
	inFlight *atomic.Int64
	size     int64
}

func (d datagram) Memory() *budget.Reservation { return nil }
func (d datagram) Retain()                     { d.inFlight.Add(d.size) }
func (d datagram) Release()                    { d.inFlight.Add(-d.size) }

// adopt makes Drain close c. It returns false if Drain was called before.
func (s *Server) adopt(c *net.UDPConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		_ = c.Close()
		return false
	}
	s.udp = c
	s.datagrams.Add(1)
	return true
}
