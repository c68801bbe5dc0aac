package faultproxy

import (
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// WireConfig sets the faults of a Wire. The zero value injects none.
type WireConfig struct {
	Rates    Rates
	DelayMax time.Duration // of one piece
	HoldMax  time.Duration // duration of a half-open connection
}

// WireKinds are the faults of a Wire.
var WireKinds = []Kind{Refused, CutUp, CutDown, AnswerLost, Delayed, HalfOpen, Trickled}

const (
	// strikeMax bounds the bytes that pass before a fault.
	strikeMax = 32 << 10
	// trickleBytes is how much of a connection is sent byte by byte.
	trickleBytes = 2 << 10
	pieceBytes   = 16 << 10
	dialTime     = 2 * time.Second
)

// Wire forwards connections to a broker. Its methods may be called concurrently.
type Wire struct {
	*chance
	listener net.Listener
	target   atomic.Pointer[string]
	config   atomic.Pointer[WireConfig]
	wg       sync.WaitGroup
	closed   chan struct{}
}

// NewWire listens on a free port. The caller calls Close.
func NewWire(seed uint64) (*Wire, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("fault proxy: %w", err)
	}
	w := &Wire{chance: newChance(seed), listener: l, closed: make(chan struct{})}
	w.config.Store(&WireConfig{})
	w.SetTarget("")
	w.wg.Go(w.accept)
	return w, nil
}

// Address returns its address.
func (w *Wire) Address() string { return w.listener.Addr().String() }

// SetTarget sets the address ("host:port") for new connections; "" refuses them.
func (w *Wire) SetTarget(address string) { w.target.Store(&address) }

// SetConfig sets the faults of new connections.
func (w *Wire) SetConfig(c WireConfig) { w.config.Store(&c) }

// Close cuts all connections and waits for them. Call it once.
func (w *Wire) Close() {
	close(w.closed)
	_ = w.listener.Close()
	w.wg.Wait()
}

func (w *Wire) accept() {
	for {
		conn, err := w.listener.Accept()
		if err != nil {
			return // closed
		}
		w.wg.Go(func() { w.serve(conn) })
	}
}

// serve forwards one connection.
func (w *Wire) serve(down net.Conn) {
	c := w.config.Load()
	kind := w.kind(c.Rates, WireKinds)
	target := *w.target.Load()
	if target == "" || kind == Refused {
		abort(down)
		return
	}
	up, err := net.DialTimeout("tcp", target, dialTime)
	if err != nil {
		abort(down)
		return
	}
	l := &link{w: w, c: c, kind: kind, strike: w.int(strikeMax), upward: w.coin(), cut: make(chan struct{})}
	var pumps sync.WaitGroup
	pumps.Go(func() { l.pump(up, down, true) })
	pumps.Go(func() { l.pump(down, up, false) })
	select {
	case <-l.cut:
	case <-w.closed:
		l.end(abort)
	}
	l.close(up)
	l.close(down)
	pumps.Wait()
}

// link is a connection with its fault.
type link struct {
	w      *Wire
	c      *WireConfig
	kind   Kind
	strike int64 // bytes in one direction before the fault
	upward bool  // the direction, for faults that have one
	once   sync.Once
	cut    chan struct{}  // closed at the end
	close  func(net.Conn) // how to close both sides
}

// end closes both sides of the connection in the same way.
func (l *link) end(how func(net.Conn)) {
	l.once.Do(func() {
		l.close = how
		close(l.cut)
	})
}

// part closes a side regularly, so that written data arrives.
func part(c net.Conn) { _ = c.Close() }

// pump forwards one direction until it ends or the fault ends it.
func (l *link) pump(to, from net.Conn, up bool) {
	buf := make([]byte, pieceBytes)
	passed := int64(0)
	for {
		n, err := from.Read(buf)
		if n > 0 && !l.pass(to, buf[:n], up, &passed) {
			l.end(abort)
			return
		}
		switch tcp, ok := to.(*net.TCPConn); {
		case err == nil:
			continue
		case err != io.EOF:
			l.end(abort)
		case ok && up:
			_ = tcp.CloseWrite() // the answer may still follow
			<-l.cut
		default:
			l.end(part)
		}
		return
	}
}

// pass forwards a piece; false ends the connection.
func (l *link) pass(to net.Conn, piece []byte, up bool, passed *int64) bool {
	left := int(max(0, l.strike-*passed))
	strikes := int64(len(piece)) > l.strike-*passed
	*passed += int64(len(piece))
	switch {
	case l.kind == CutUp && up && strikes, l.kind == CutDown && !up && strikes:
		_, _ = to.Write(piece[:min(left, len(piece))])
		return false
	case l.kind == AnswerLost && !up:
		return false
	case l.kind == HalfOpen && up == l.upward && strikes:
		l.pause(l.w.span(l.c.HoldMax))
		return false
	case l.kind == Delayed:
		l.pause(l.w.span(l.c.DelayMax))
	case l.kind == Trickled && *passed <= trickleBytes:
		for i := range piece {
			if _, err := to.Write(piece[i : i+1]); err != nil {
				return false
			}
		}
		return true
	}
	_, err := to.Write(piece)
	return err == nil
}

// pause waits, unless the connection ends.
func (l *link) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.cut:
	}
}
