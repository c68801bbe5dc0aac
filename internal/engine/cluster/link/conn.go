package link

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/wake"
	"github.com/sebbroker/seb/internal/engine/log/state"
)

const (
	messagesMax = 256       // queued messages of a link
	slotsMax    = 64        // queued slots of a link
	socketBytes = 256 << 10 // in the kernel, so that a beat does not wait behind more
)

var (
	errForgotten = errors.New("the link is not wanted any more")
	errNewer     = errors.New("a newer link replaces it")
	// ErrClosed: this broker ends.
	ErrClosed = errors.New("this broker ends")
)

// conn is a link: a connection with both ends authenticated.
//
//	Send ──▶ small ──┐                      messages go before slots
//	Feed ──▶ slots ──┼──▶ writer ──▶ TLS    behind a full queue of slots only the newest position is kept,
//	         notice ─┘                      and goes when the queue is empty
type conn struct {
	n                      *Net
	p                      *peer
	tls                    *tls.Conn
	raw                    net.Conn // below tls
	dialed                 bool     // by this run
	address                string   // dialed, or of the run's registration with the host that it has
	otherKey, otherSecrets bool
	wake                   wake.Signal   // there is something to write
	over                   chan struct{} // closed by end

	mu        sync.Mutex // guards the fields below
	small     [][]byte
	slots     [][]byte
	bytes     int64 // of slots
	notice    state.Position
	noticed   bool
	finishing bool
	cause     error // of the end
}

func newConn(n *Net, p *peer, c *tls.Conn, raw net.Conn, dialed bool) *conn {
	var socket any = raw
	if t, ok := raw.(interface{ Plain() *net.TCPConn }); ok {
		socket = t.Plain()
	} else if t, ok := raw.(*tls.Conn); ok {
		socket = t.NetConn()
	}
	if s, ok := socket.(interface{ SetWriteBuffer(bytes int) error }); ok {
		_ = s.SetWriteBuffer(socketBytes) // without it beats are only later
	}
	return &conn{n: n, p: p, tls: c, raw: raw, dialed: dialed, wake: wake.New(), over: make(chan struct{})}
}

// byLower reports whether the run with the smaller node dialed.
func (c *conn) byLower() bool { return c.dialed == c.n.lower(c.p) }

// lower reports whether this run has a smaller node than p.
func (n *Net) lower(p *peer) bool { return string(n.o.Self.Run.Node[:]) < string(p.run.Node[:]) }

// adopt makes c the link of its peer and starts it. It returns false if another link stays: one that
// the run with the smaller node dialed, if the other run dialed c. Of two in the same direction the
// newer one is right, because its dialer has lost the older. So both ends of a pair choose the same.
func (n *Net) adopt(c *conn) bool {
	p := c.p
	p.telling.Lock()
	defer p.telling.Unlock()
	n.mu.Lock()
	old := p.conn
	if n.closed || n.peers[p.run] != p || old != nil && old.byLower() && !c.byLower() {
		n.mu.Unlock()
		return false
	}
	if old == nil {
		n.linked.Add(1)
	}
	p.conn, p.linked, p.byPeer = c, true, false
	for run, o := range n.peers { //tidy:unordered each is dropped
		if run.Node == p.run.Node && o.conn == nil {
			o.cancel() // p holds the lock of its data folder: earlier runs of it are over
			delete(n.peers, run)
		}
	}
	if c.address != "" {
		p.good = c.address
	}
	n.work.Add(2)
	n.mu.Unlock()
	p.wake.Send()
	if old != nil {
		old.end(errNewer)
	}
	_ = c.raw.SetDeadline(time.Time{})
	n.o.Logger.Info("link to another broker", "broker", p.reg.Name, "run", p.run.String(), "dialed", c.dialed, "other_root_key", c.otherKey, "other_secrets_key", c.otherSecrets)
	n.o.Events(Event{Kind: Linked, From: p.run, Registration: p.reg, OtherKey: c.otherKey, OtherSecrets: c.otherSecrets})
	var writing sync.WaitGroup
	writing.Go(func() {
		defer n.work.Done()
		c.end(c.write())
	})
	go func() {
		defer n.work.Done()
		c.end(c.read())
		writing.Wait()
		n.ended(c)
	}()
	return true
}

// ended tells the end of a link, unless another one has replaced it.
func (n *Net) ended(c *conn) {
	p := c.p
	p.telling.Lock()
	defer p.telling.Unlock()
	n.mu.Lock()
	is := p.conn == c
	byPeer := endedByPeer(c.cause)
	if is {
		n.drop(p)
		p.byPeer = byPeer
	}
	known := n.peers[p.run] == p
	n.mu.Unlock()
	if !is || !known {
		return
	}
	p.wake.Send()
	n.o.Logger.Info("link to another broker ended", "broker", p.reg.Name, "run", p.run.String(), "by_peer", byPeer, "err", c.cause)
	n.o.Events(Event{Kind: Ended, From: p.run, ByPeer: byPeer, Err: c.cause})
}

// endedByPeer reports whether the other end, or its kernel, ended a connection.
func endedByPeer(err error) bool {
	if errors.Is(err, errFrame) { // a message that ends early is io.ErrUnexpectedEOF too
		return false
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// end closes the connection. The first cause counts.
func (c *conn) end(cause error) {
	c.mu.Lock()
	first := c.cause == nil
	if first {
		if cause == nil {
			cause = ErrClosed
		}
		c.cause = cause
		c.n.queued.Add(-c.bytes)
		c.small, c.slots, c.bytes = nil, nil, 0
		close(c.over)
	}
	c.mu.Unlock()
	if first {
		_ = c.raw.Close()
	}
}

// finish lets the connection end once the queued messages are sent.
func (c *conn) finish() {
	c.mu.Lock()
	c.finishing = true
	c.mu.Unlock()
	_ = c.raw.SetDeadline(time.Now().Add(farewell))
	c.wake.Send()
}

// send queues a frame with a message.
func (c *conn) send(frame []byte) bool {
	c.mu.Lock()
	ok := c.cause == nil && !c.finishing && len(c.small) < messagesMax
	if ok {
		c.small = append(c.small, frame)
	}
	c.mu.Unlock()
	c.wake.Send()
	return ok
}

// feed queues the frame of a slot. Without one, or with a full queue, only the position is kept.
func (c *conn) feed(pos state.Position, frame []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil || c.finishing {
		return
	}
	size := int64(len(frame))
	// A slot behind a notice waits for it: it could not be applied.
	if all := c.n.o.QueueBytes; frame == nil || c.noticed || len(c.slots) == slotsMax || c.bytes+size > all/2 || c.n.queued.Load()+size > all {
		c.notice, c.noticed = pos, true
	} else {
		c.slots = append(c.slots, frame)
		c.bytes += size
		c.n.queued.Add(size)
	}
	c.wake.Send()
}

// next returns what to write: all messages, or a slot, or the notice, or nothing. last: nothing
// follows.
func (c *conn) next() (frames [][]byte, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(c.small) > 0:
		frames, c.small = c.small, nil
	case c.finishing:
		return nil, true
	case len(c.slots) > 0:
		frames, c.slots = c.slots[:1:1], c.slots[1:]
		size := int64(len(frames[0]))
		c.bytes -= size
		c.n.queued.Add(-size)
	case c.noticed:
		w := body{posEpoch: c.notice.Epoch, slot: c.notice.Slot}
		frames, c.noticed = [][]byte{w.append(nil, kindNotice)}, false
	}
	return frames, false
}

// write sends what is queued until the link ends.
func (c *conn) write() error {
	idle := time.NewTimer(c.n.o.Times.Idle)
	defer idle.Stop()
	var b []byte
	for {
		frames, last := c.next()
		if last {
			return c.closeWrite()
		}
		if len(frames) == 0 {
			idle.Reset(c.n.o.Times.Idle)
			select {
			case <-c.wake:
				continue
			case <-c.over:
				return nil
			case <-idle.C:
				frames = [][]byte{end(begin(nil, kindAlive), 0)}
			}
		}
		b = b[:0]
		for _, f := range frames {
			b = append(b, f...)
		}
		c.extend(c.raw.SetWriteDeadline, c.n.o.Times.Dead)
		if _, err := c.tls.Write(b); err != nil {
			return err
		}
	}
}

// extend sets a deadline, unless finish has set the last one.
func (c *conn) extend(set func(time.Time) error, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.finishing {
		_ = set(time.Now().Add(d))
	}
}

// closeWrite tells the other end that nothing follows, and lets the reader wait for its end. Closing
// instead could make the kernel drop what was sent.
func (c *conn) closeWrite() error {
	if w, ok := c.raw.(interface{ CloseWrite() error }); ok && w.CloseWrite() == nil {
		<-c.over
	}
	return ErrClosed
}

// read tells the frames of the other end until the link ends.
func (c *conn) read() error {
	r := bufio.NewReaderSize(c.tls, earlyMax)
	for {
		c.extend(c.raw.SetReadDeadline, c.n.o.Times.Dead)
		k, b, err := readFrame(r, frameMax)
		if err != nil {
			return err
		}
		ev := Event{From: c.p.run}
		says, err := decodeFrame(k, b, &ev)
		if err != nil {
			return err
		}
		if says {
			c.n.tell(c.p, c, ev)
		}
	}
}
