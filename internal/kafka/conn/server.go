package conn

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// Server serves the connections of a listener. Its methods may be called concurrently.
type Server struct {
	o     Options
	met   counters
	began time.Time

	ending  chan struct{} // closed by Drain
	left    chan struct{} // a connection has ended
	serving sync.WaitGroup

	mu       sync.Mutex // guards what follows
	draining bool
	listener net.Listener
	links    map[*link]struct{}
	leaving  int // of links: idle ones that have given their places away
}

// New makes a server; Serve starts it.
func New(o Options) *Server {
	s := &Server{o: o.withDefaults(), began: time.Now(), ending: make(chan struct{}), left: make(chan struct{}, 1), links: map[*link]struct{}{}}
	s.met = newCounters(s.o.Metrics)
	return s
}

// Serve serves what comes to l until Drain or Close, which close l, and then returns nil; or says why it can not go on. It is
// called once. ctx must outlive Close.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	if s.draining {
		s.mu.Unlock()
		return ignoreClosed(l.Close())
	}
	s.listener = l
	s.mu.Unlock()
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		select {
		case <-s.ending:
			cancel() // waits end, and reading
		case <-ctx.Done():
		}
	}()
	var failed error
	for {
		c, err := l.Accept()
		if err != nil {
			if !s.isDraining() {
				failed = err
			}
			break
		}
		s.accept(ctx, c)
	}
	if failed != nil {
		cancel()
	}
	s.serving.Wait()
	cancel()
	<-stop
	return failed
}

func (s *Server) isDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// accept starts a connection, or closes it if there is no place. It may wait for one, and those behind wait in the kernel.
func (s *Server) accept(ctx context.Context, c net.Conn) {
	s.mu.Lock()
	if !s.placeLocked() {
		s.mu.Unlock()
		s.met.refused.Inc()
		reset(c)
		_ = c.Close()
		return
	}
	l := &link{
		s: s, c: c, cut: c.Close, session: s.o.Open(c), since: time.Now(),
		queue: make(chan pending, s.o.QueueRequests), room: make(chan struct{}, 1),
	}
	if tcp, ok := c.(*net.TCPConn); ok && s.o.Port.Secure() {
		l.tls = s.o.Port.Server(tcp)
		l.c, l.cut = l.tls, l.tls.Cut
	}
	l.r = bufio.NewReaderSize(l.c, readerBytes)
	ctx, l.end = context.WithCancel(ctx)
	l.active.Store(s.clock())
	s.links[l] = struct{}{}
	s.serving.Add(1)
	s.mu.Unlock()
	s.met.open.Inc()
	go func() {
		defer s.serving.Done()
		l.run(ctx)
		s.met.open.Dec()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.links, l)
		if l.leaving {
			s.leaving--
		}
		select {
		case s.left <- struct{}{}:
		default:
		}
	}()
}

// strangerTime is how long a connection may keep its place undisturbed without having shown who it is. However many come that never will,
// one that does so soon is not in their way: it waits its turn.
const strangerTime = 500 * time.Millisecond

// placeLocked says whether there is a place for one more: a free one, that of the connection that has not shown who it is for longest, or
// that of an idle one, which is closed. It unlocks while it waits for either of the first two.
func (s *Server) placeLocked() bool {
	for !s.draining {
		if len(s.links)-s.leaving < s.o.Connections {
			return true
		}
		oldest := s.strangerLocked()
		if oldest == nil {
			return s.idleLocked()
		}
		left := time.Until(oldest.since.Add(strangerTime))
		if left <= 0 {
			s.met.evicted.Inc()
			delete(s.links, oldest)
			reset(oldest.c)
			_ = oldest.cut()
			return true
		}
		s.mu.Unlock()
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-s.left:
		case <-s.ending:
		}
		timer.Stop()
		s.mu.Lock()
	}
	return false
}

// strangerLocked is the connection that has not shown who it is for longest; nil if all have.
func (s *Server) strangerLocked() (oldest *link) {
	for l := range s.links {
		if !l.trusted.Load() && (oldest == nil || l.since.Before(oldest.since)) {
			oldest = l
		}
	}
	return oldest
}

// clock is the time since the server was made.
func (s *Server) clock() int64 { return int64(time.Since(s.began)) }

// idleLocked ends the connection that has asked for nothing for longest, if that is long enough. Its client has no answer to wait for, and
// connects again when it wants something.
func (s *Server) idleLocked() bool {
	var idle *link
	for l := range s.links {
		if !l.leaving && l.count.Load() == 0 && (idle == nil || l.active.Load() < idle.active.Load()) {
			idle = l
		}
	}
	if idle == nil || s.clock()-idle.active.Load() < int64(s.o.GiveWay) {
		return false
	}
	s.met.evicted.Inc()
	idle.leaving = true
	s.leaving++
	idle.end()
	return true
}

// Drain closes the listener and ends waits, with what they have, and the reading of requests. It does not wait, and may be
// called more than once.
func (s *Server) Drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return
	}
	s.draining = true
	close(s.ending)
	if s.listener != nil {
		_ = s.listener.Close()
	}
}

// Close drains, waits until the requests that have begun are answered, and closes the connections. When ctx ends first it cuts
// them and returns ctx's error. Closing twice waits again.
func (s *Server) Close(ctx context.Context) error {
	s.Drain()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.serving.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	for l := range s.links {
		_ = l.cut()
	}
	s.mu.Unlock()
	<-done
	return ctx.Err()
}

// Connections is how many are open.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.links)
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
