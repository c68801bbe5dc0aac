package framed_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/protocols/framed"
	"github.com/sebbroker/seb/test/sebtest"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is a session that answers requests with their own bytes. The key of a request selects how,
// see Begin.
type echo struct {
	class         *budget.Class
	begun         *atomic.Int64
	authenticated atomic.Bool
	hold          chan struct{} // closed to answer waiting requests
	file          *os.File
	quota         *quota
	unsigned      bool // requests that are too large are answered
}

// headBytes is the smallest request.
const headBytes = 8

const (
	keyEcho  = 1
	keyWait  = 2 // waits for hold
	keyDone  = 3 // gets no answer
	keyBad   = 4 // Begin fails
	keyLast  = 5
	keyFile  = 6 // answered with a file
	keyTrust = 7
	keyFail  = 8 // Finish fails
	keyLarge = 9 // uses memory of the class instead of the allowance
	keyMuted = 10
	// keyRefused needs memory of the class, for which it does not wait
	keyRefused = 11
)

// keyOf is the key of a request.
func keyOf(b []byte) int16 { return int16(binary.BigEndian.Uint16(b)) }

var errBad = errors.New("bad")

func (e *echo) Close() {}

func (e *echo) Valid() bool { return !e.quota.revoked.Load() }

func (e *echo) Authenticated() bool { return e.authenticated.Load() }

func (e *echo) Admit(_ context.Context, head []byte, size int) (framed.Admission, error) {
	if size > 1<<20 {
		if e.unsigned {
			return framed.Admission{Last: refusal(keyLast)}, nil
		}
		return framed.Admission{}, errBad
	}
	if key := keyOf(head); key == keyRefused {
		return framed.Admission{Class: e.class, Wait: time.Nanosecond, Refuse: func(error) framed.Finish { return refusal(byte(key)) }}, nil
	}
	if keyOf(head) == keyLarge {
		return framed.Admission{Class: e.class}, nil
	}
	return framed.Admission{Spill: e.class}, nil
}

func (e *echo) Begin(_ context.Context, f *framed.Frame) (framed.Finish, error) {
	e.begun.Add(1)
	key := keyOf(f.Bytes)
	switch key {
	case keyBad:
		return nil, errBad
	case keyTrust:
		e.authenticated.Store(true)
	}
	return func(ctx context.Context) (framed.Answer, error) {
		if key == keyWait {
			select {
			case <-e.hold:
			case <-ctx.Done():
			}
		}
		a := framed.Answer{Head: append(make([]byte, 4), f.Bytes...), Last: key == keyLast}
		switch key {
		case keyDone:
			a.Head = nil
		case keyFail:
			return a, errBad
		case keyFile:
			info, err := e.file.Stat()
			if err != nil {
				return a, err
			}
			a.Parts = []framed.Part{{Bytes: []byte("<")}, {Section: &objstore.Section{File: e.file, Off: 1, Len: info.Size() - 1}}, {Bytes: []byte(">")}}
		}
		return a, nil
	}, nil
}

// server is a server with echo sessions.
type server struct {
	*framed.Server
	addr  string
	class *budget.Class
	begun atomic.Int64
	hold  chan struct{}
	done  chan error
	file  atomic.Pointer[os.File]
	quota quota
}

func start(t testing.TB, o framed.Options) *server {
	t.Helper()
	b := budget.New(64 << 20)
	s := &server{class: b.Class(budget.Produce), hold: make(chan struct{}), done: make(chan error, 1), quota: quota{changed: make(chan struct{})}}
	o.Name, o.HeadBytes, o.Buffers = "test", headBytes, b.Buffers()
	o.Buffers.Poison()
	o.Open = func(net.Conn, func()) framed.Session {
		return &echo{class: s.class, begun: &s.begun, hold: s.hold, file: s.file.Load(), quota: &s.quota, unsigned: o.Unsigned}
	}
	s.Server = framed.New(o)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s.addr = l.Addr().String()
	ctx := context.Background()
	go func() { s.done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		s.Drain()
		check.NoError(t, errors.Join(s.Close(context.Background()), <-s.done))
		check.Equalf(t, s.class.Used(), 0, "bytes are still reserved")
	})
	return s
}

func (s *server) dial(t testing.TB) *peer {
	t.Helper()
	c := must.Get(net.Dial("tcp", s.addr))(t)
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return &peer{t, c}
}

// refuses expects that a new connection is reset, possibly during the dial.
func (s *server) refuses(t testing.TB) {
	t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if errors.Is(err, syscall.ECONNRESET) {
		return
	}
	must.NoError(t, err)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	(&peer{t, c}).reset()
}

// peer is a client.
type peer struct {
	t testing.TB
	net.Conn
}

// frame is a request with a key, a correlation ID, and more bytes after the head.
func frame(key int16, number int32, more int) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(8+more))
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint32(append(b, 0, 0), uint32(number))
	for i := range more {
		b = append(b, byte(int(number)+i))
	}
	return b
}

func (p *peer) send(b []byte) {
	p.t.Helper()
	must.Get(p.Write(b))(p.t)
}

// asks sends a request and expects it back.
func (p *peer) asks(key int16, number int32) {
	p.t.Helper()
	f := frame(key, number, 0)
	p.send(f)
	p.expect(f)
}

func (p *peer) expect(want []byte) {
	p.t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(p, got); err != nil || !bytes.Equal(got, want) {
		p.t.Fatalf("got %.40x %v, want %.40x", got, err, want)
	}
}

// ended expects that the server has closed the connection.
func (p *peer) ended() {
	p.t.Helper()
	if n, err := io.Copy(io.Discard, p.Conn); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		p.t.Fatalf("%d bytes, %v: want the connection closed", n, err)
	}
}

// reset expects that the server has reset the connection, which clients do not take for a failed
// authentication.
func (p *peer) reset() {
	p.t.Helper()
	if n, err := io.Copy(io.Discard, p.Conn); n > 0 || !errors.Is(err, syscall.ECONNRESET) {
		p.t.Fatalf("%d bytes, %v: want a reset", n, err)
	}
}

// TestOrder: pipelined requests are answered in order, whatever their size and the pieces in which
// they arrive. A waiting request delays later ones on its connection, but no other connection.
func TestOrder(t *testing.T) {
	s := start(t, framed.Options{})
	p, other := s.dial(t), s.dial(t)
	var sent, want []byte
	for i := range int32(50) {
		key := int16(keyEcho)
		switch i {
		case 20:
			key = keyWait
		case 7, 30:
			key = keyDone
		}
		f := frame(key, i, int(i)*int(i)*50)
		sent = append(sent, f...)
		if key != keyDone {
			want = append(want, f...)
		}
	}
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		for n := 1; len(sent) > 0; n = n*5 + 1 {
			n = min(n, len(sent), 70_000)
			_, _ = p.Write(sent[:n]) // errors show as missing answers
			sent = sent[n:]
		}
	}()
	at := bytes.Index(want, frame(keyWait, 20, 20*20*50))
	p.expect(want[:at])
	other.send(frame(keyEcho, 99, 5))
	other.expect(frame(keyEcho, 99, 5))
	close(s.hold)
	p.expect(want[at:])
	<-wrote
}

// TestFiles: an answer contains a section of a file between bytes from memory.
func TestFiles(t *testing.T) {
	s := start(t, framed.Options{})
	content := bytes.Repeat([]byte("0123456789abcdef"), 50_000) // several pieces
	name := filepath.Join(t.TempDir(), "f")
	must.NoError(t, os.WriteFile(name, content, 0o600))
	file := must.Get(os.Open(name))(t)
	defer file.Close()
	s.file.Store(file)
	p := s.dial(t)
	f := frame(keyFile, 1, 3)
	p.send(f)
	want := append(append(append(f, '<'), content[1:]...), '>')
	binary.BigEndian.PutUint32(want, uint32(len(want)-4))
	p.expect(want)
	p.asks(keyEcho, 2)
}

// TestEnds: an invalid request ends its connection after earlier requests are answered.
func TestEnds(t *testing.T) {
	for name, b := range map[string][]byte{
		"begin fails":   frame(keyBad, 2, 0),
		"not admitted":  {0x47, 0x45, 0x54, 0x20, '/', ' ', 'H', 'T', 'T', 'P', '/', '1'}, // 1.2 GB
		"negative":      {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0},
		"too short":     {0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0},
		"finish fails":  frame(keyFail, 2, 0),
		"nothing":       {},
		"half a length": {0, 0},
		"half":          frame(keyEcho, 2, 100)[:50],
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, framed.Options{})
			p := s.dial(t)
			p.send(append(frame(keyEcho, 1, 10), b...))
			_ = p.Conn.(*net.TCPConn).CloseWrite()
			p.expect(frame(keyEcho, 1, 10))
			p.ended()
			sebtest.Eventually(t, "the connection is closed", func() bool { return s.Connections() == 0 })
		})
	}
	t.Run("last", func(t *testing.T) {
		s := start(t, framed.Options{})
		p := s.dial(t)
		p.send(append(frame(keyLast, 1, 10), frame(keyEcho, 2, 10)...))
		p.expect(frame(keyLast, 1, 10))
		p.ended()
	})
}

// TestQueueIsBounded: the server does not read from the socket while the queue is full, in bytes or
// in requests.
func TestQueueIsBounded(t *testing.T) {
	for name, o := range map[string]framed.Options{"bytes": {QueueBytes: 10_000}, "requests": {QueueRequests: 8}} {
		t.Run(name, func(t *testing.T) {
			s := start(t, o)
			p := s.dial(t)
			var all []byte
			for i := range int32(100) {
				key := int16(keyEcho)
				if i == 0 {
					key = keyWait
				}
				all = append(all, frame(key, i, 992)...)
			}
			go func() { _, _ = p.Write(all) }() // errors show as missing answers
			// The finisher has the first request, and the reader may have read one more than the
			// queue holds.
			sebtest.Eventually(t, "the queue is full", func() bool { return s.begun.Load() >= 9 })
			if n := s.begun.Load(); n > 11 {
				t.Errorf("%d requests have begun, want 11 or fewer", n)
			}
			close(s.hold)
			p.expect(all)
		})
	}
}

// TestMemoryIsWaitedFor: a request without memory waits, unread, until memory is available.
func TestMemoryIsWaitedFor(t *testing.T) {
	s := start(t, framed.Options{})
	held := must.Get(s.class.Reserve(s.class.Limit() - 100))(t)
	p := s.dial(t)
	large := frame(keyEcho, 1, 500_000)
	go func() { _, _ = p.Write(large) }() // errors show as missing answers
	sebtest.Eventually(t, "the request waits for memory", func() bool { return s.class.Usage().Waiting == 1 })
	check.Equalf(t, s.begun.Load(), 0, "the request has begun without memory")
	held.Release()
	p.expect(large)
	sebtest.Eventually(t, "all memory is released", func() bool { return s.class.Used() == 0 })
}

// TestSlowRequestsAreEvicted: a large request that arrives slowly loses its memory and its
// connection when another request waits for memory.
func TestSlowRequestsAreEvicted(t *testing.T) {
	t.Parallel()
	s := start(t, framed.Options{})
	held := must.Get(s.class.Reserve(s.class.Limit() - 1_000_000))(t)
	defer held.Release()
	slow, other := s.dial(t), s.dial(t)
	slow.send(frame(keyLarge, 1, 900_000)[:100_000])
	sebtest.Eventually(t, "the slow request has its memory", func() bool { return s.class.Limit()-s.class.Used() < 500_000 })
	want := frame(keyLarge, 2, 500_000)
	go func() { _, _ = other.Write(want) }() // errors show as missing answers
	other.expect(want)
	slow.ended()
}

// TestSlowAndSilent: a client that does not authenticate, stops within a request or stays idle is
// disconnected.
func TestSlowAndSilent(t *testing.T) {
	short := 50 * time.Millisecond
	for name, c := range map[string]struct {
		o    framed.Options
		send []byte
	}{
		"silent":       {framed.Options{AuthTimeout: short}, nil},
		"never trusts": {framed.Options{AuthTimeout: short}, frame(keyEcho, 1, 0)},
		"idle":         {framed.Options{Idle: short}, frame(keyTrust, 1, 0)},
		"half":         {framed.Options{Step: short}, frame(keyTrust, 1, 100)[:60]},
		"half a head":  {framed.Options{Step: short}, frame(keyTrust, 1, 100)[:6]},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, c.o)
			p := s.dial(t)
			if c.send != nil {
				p.send(c.send)
			}
			if _, err := io.Copy(io.Discard, p.Conn); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection is still open")
			}
		})
	}
	t.Run("a client that waits for an answer is not idle", func(t *testing.T) {
		s := start(t, framed.Options{Idle: short})
		p := s.dial(t)
		p.send(append(frame(keyTrust, 1, 0), frame(keyWait, 2, 0)...))
		p.expect(frame(keyTrust, 1, 0))
		_ = p.SetReadDeadline(time.Now().Add(5 * short))
		must.ErrorIsf(t, check.Err(p.Read(make([]byte, 1))), os.ErrDeadlineExceeded, "disconnected while waiting")
		close(s.hold)
		_ = p.SetReadDeadline(time.Now().Add(time.Minute))
		p.expect(frame(keyWait, 2, 0))
	})
}

// TestClientThatDoesNotRead: a client that does not read its answers is disconnected.
func TestClientThatDoesNotRead(t *testing.T) {
	s := start(t, framed.Options{Step: 50 * time.Millisecond})
	p := s.dial(t)
	_ = p.Conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	for range 50 {
		if _, err := p.Write(frame(keyEcho, 1, 900_000)); err != nil {
			break
		}
	}
	sebtest.Eventually(t, "the connection is closed", func() bool { return s.Connections() == 0 })
}

// TestConnectionsAreLimited: at the limit a new connection replaces the oldest unauthenticated one,
// or is closed, which is logged once a minute.
func TestConnectionsAreLimited(t *testing.T) {
	t.Parallel()
	var log sebtest.Log
	s := start(t, framed.Options{Connections: 2, Logger: log.Logger()})
	authenticated, stranger := s.dial(t), s.dial(t)
	authenticated.asks(keyTrust, 1)
	stranger.asks(keyEcho, 1)
	third := s.dial(t)
	third.asks(keyTrust, 2)
	stranger.reset()
	over := s.dial(t) // beyond the limit, while it has a request
	over.asks(keyTrust, 4)
	over.send(frame(keyWait, 5, 0))
	sebtest.Eventually(t, "the waiting request has begun", func() bool { return s.begun.Load() == 5 })
	for range 3 {
		s.refuses(t)
	}
	if lines := log.Lines(); len(lines) != 1 || !strings.Contains(lines[0], "open=3 limit=2 remote=127.0.0.1:") {
		t.Errorf("three refused connections were logged as %q", lines)
	}
	authenticated.asks(keyEcho, 3)
}

// TestIdleConnectionsAreEvicted: at the limit the connection that has been idle longest is evicted,
// if that is long enough. A connection with a request in progress is not idle.
func TestIdleConnectionsAreEvicted(t *testing.T) {
	const long = 300 * time.Millisecond
	s := start(t, framed.Options{Connections: 3, EvictIdleAfter: long})
	asking, waiting, idle := s.dial(t), s.dial(t), s.dial(t)
	for i, p := range []*peer{waiting, idle, asking} {
		p.asks(keyTrust, int32(i))
	}
	waiting.send(frame(keyWait, 5, 0))
	sebtest.Eventually(t, "the waiting request has begun", func() bool { return s.begun.Load() == 4 })
	time.Sleep(long)
	asking.asks(keyEcho, 6)
	more := s.dial(t)
	more.asks(keyTrust, 7)
	idle.ended()
	asking.asks(keyEcho, 8)
	close(s.hold)
	waiting.expect(frame(keyWait, 5, 0))
}

// TestDrain: waits end with the data so far, requests that have begun are answered, nothing more is
// read, and the port is free. An unauthenticated client is reset, so that it does not take the end
// for a failed authentication.
func TestDrain(t *testing.T) {
	s := start(t, framed.Options{})
	p, silent, stranger := s.dial(t), s.dial(t), s.dial(t)
	p.send(append(append(frame(keyTrust, 0, 0), frame(keyWait, 1, 0)...), frame(keyEcho, 2, 0)...))
	stranger.asks(keyEcho, 3)
	p.expect(frame(keyTrust, 0, 0))
	sebtest.Eventually(t, "all requests have begun", func() bool { return s.begun.Load() == 4 && s.Connections() == 3 })
	s.Drain()
	p.expect(append(frame(keyWait, 1, 0), frame(keyEcho, 2, 0)...))
	p.ended()
	silent.reset()
	stranger.reset()
	check.Error(t, check.Err(net.Dial("tcp", s.addr)), "the server still listens")
}

// FuzzFrames: for any bytes the complete requests before the first invalid one are answered in
// order, and the connection ends.
func FuzzFrames(f *testing.F) {
	f.Add(frame(keyEcho, 1, 3))
	f.Add(append(frame(keyEcho, 1, 0), frame(keyDone, 2, 9)...))
	f.Add(append(frame(keyLast, 1, 0), frame(keyEcho, 2, 9)...))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := start(t, framed.Options{})
		close(s.hold)
		p := s.dial(t)
		go func() {
			_, _ = p.Write(b)
			_ = p.Conn.(*net.TCPConn).CloseWrite()
		}()
		got, _ := io.ReadAll(p)
		if want := answers(b); !bytes.HasPrefix(want, got) || len(got) < len(want) && !bytes.Contains(b, []byte{0, keyFail}) && len(b) < 1<<16 {
			t.Fatalf("input %x: answer %x, want %x", b, got, want)
		}
	})
}

// answers is the expected answer to b.
func answers(b []byte) (want []byte) {
	for len(b) >= 12 {
		n := int(int32(binary.BigEndian.Uint32(b)))
		if n < 8 || n > 1<<20 || n > len(b)-4 {
			return want
		}
		one := b[:4+n]
		switch keyOf(one[4:]) {
		case keyBad, keyFail:
			return want
		case keyFile:
			return want // there is no file
		case keyLast:
			return append(want, one...)
		case keyDone:
		default:
			want = append(want, one...)
		}
		b = b[4+n:]
	}
	return want
}
