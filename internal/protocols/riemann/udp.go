package riemann

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/protocols/auth"
)

const (
	// DatagramMax bounds a datagram, as in Riemann.
	DatagramMax = 16 << 10
	// datagramShare: datagrams whose events are not stored yet use at most this part of the memory of
	// produces. The others are dropped, so that datagrams keep out no client with an answer.
	datagramShare = 8
	// datagramPause is the time between two looks whether datagrams have come, or earlier ones are
	// stored. No datagram is read while earlier ones have half of that part. Then the kernel drops
	// those that come: that takes no processor time from clients with an answer.
	datagramPause = 2 * time.Millisecond
	// datagramCost is the cost of a datagram in addition to that of its bytes and records.
	datagramCost = 64
	// groupCost is the cost from which datagrams are submitted, although others wait. A larger group
	// occupies the processors longer at a time.
	groupCost = 32 << 10
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
		oob     [64]byte
		dropped uint32 // by the kernel
		g       = gathered{client: client{Server: s}, pace: newPace(), buf: make([]byte, groupCost+DatagramMax+1)}
		more    = waiting(c)
	)
	for {
		g.wait(ctx, more)
		msg := g.buf[g.size:][:DatagramMax+1]
		n, control, _, from, err := c.ReadMsgUDPAddrPort(msg, oob[:])
		if err != nil {
			g.flush(ctx)
			if errors.Is(err, net.ErrClosed) {
				err = nil
			}
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
		if err := g.add(ctx, msg[:n], remote); err != nil {
			g.drop(1, err)
		}
	}
}

// gathered are datagrams that are submitted together, because that takes less time. Their bytes are
// one message: a message of protobuf that follows another one adds its events to it.
type gathered struct {
	client
	pace
	buf       []byte
	size      int   // bytes of the datagrams in buf
	cost      int64 // for pace, of these and of those that are not in buf because they have no valid events
	datagrams int
	message
	inFlight atomic.Int64 // bytes of the records that are not stored yet
}

// add adds a datagram, which is in buf after the others. Those of a client are not submitted with
// those of another one.
func (g *gathered) add(ctx context.Context, msg []byte, remote string) (err error) {
	var m message
	if len(msg) > DatagramMax {
		err = fmt.Errorf("datagram of more than %d bytes", DatagramMax)
	} else {
		m, err = walk(msg)
	}
	fits := remote == g.remote && g.events+m.events <= EventsMax
	valid := err == nil && m.events > 0
	if valid && !fits && g.datagrams > 0 {
		g.flush(ctx)
		copy(g.buf, msg)
	}
	g.cost += int64(datagramCost + max(len(msg), m.bytes))
	if !valid {
		return err
	}
	g.remote = remote
	g.size += len(msg)
	g.events += m.events
	g.bytes += m.bytes
	g.datagrams++
	return nil
}

// drop counts dropped datagrams.
func (g *gathered) drop(n int, err error) {
	g.met.dropped.Add(n)
	g.log.Debug("riemann: datagrams dropped", "datagrams", n, "remote", g.remote, "err", err)
}

// wait waits until the next datagram may be read. Before that it submits the datagrams if there are
// enough of them, or if no others have come for a time. more is nil if it is not known whether others
// have come.
func (g *gathered) wait(ctx context.Context, more func() bool) {
	for more != nil && g.cost > 0 && g.cost < groupCost {
		if more() {
			return
		}
		if g.due(time.Now()) || !g.sleep(datagramPause) {
			break
		}
	}
	if g.cost > 0 {
		g.flush(ctx)
	}
	for g.inFlight.Load() > g.produceClass.Limit()/datagramShare/2 || len(g.unwatched) > unwatchedMax/2 {
		if !g.sleep(datagramPause) {
			return
		}
	}
}

// sleep returns false if the server drains.
func (g *gathered) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-g.ending:
		return false
	}
}

// flush submits the events of the datagrams, and waits until the rate of pace permits others.
func (g *gathered) flush(ctx context.Context) {
	if err := g.send(ctx); err != nil {
		g.drop(g.datagrams, err)
	}
	rest := g.spend(time.Now(), g.cost)
	g.size, g.cost, g.datagrams, g.message = 0, 0, 0, message{}
	g.sleep(rest)
}

func (g *gathered) send(ctx context.Context) (err error) {
	if g.datagrams == 0 {
		return nil
	}
	size := int64(g.room())
	if g.inFlight.Load()+size > g.produceClass.Limit()/datagramShare {
		return fmt.Errorf("%w: earlier datagrams are not stored yet", budget.ErrOver)
	}
	if g.who, err = g.listenerIdentity(ctx, g.remote); err != nil {
		g.met.authFailures.Inc()
		return err
	}
	if wait := g.who.Meter().Begin(auth.Produced, int64(g.size)); wait > 0 {
		return auth.ErrQuota
	}
	t, err := g.submit(ctx, g.buf[:g.size], &g.message, unframed{})
	if err == nil {
		g.inFlight.Add(size)
		g.unwatched <- unstored{t, size, &g.inFlight}
	}
	return err
}

// unframed is the holder of datagrams: their records have memory of their own.
type unframed struct{}

func (unframed) Memory() *budget.Reservation { return nil }
func (unframed) Retain()                     {}
func (unframed) Release()                    {}

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
