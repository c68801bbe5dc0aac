package framed

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/sebbroker/seb/internal/engine/base/wake"
	"github.com/sebbroker/seb/internal/protocols/connlimit"
)

// Server serves the connections of a listener. Its methods may be called concurrently.
type Server struct {
	o     Options
	met   counters
	began time.Time

	large *large // nil: no bound

	ending  chan struct{} // closed by Drain
	slots   *connlimit.Listener
	serving sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	draining bool
	listener net.Listener
	links    map[*link]struct{}
}

// New creates a server; Serve starts it.
func New(o Options) *Server {
	s := &Server{o: o.withDefaults(), began: time.Now(), ending: make(chan struct{}), links: map[*link]struct{}{}}
	if s.o.LargeBytes > 0 {
		s.large = &large{size: s.o.LargeBytes, free: semaphore.NewWeighted(s.o.LargeBytes)}
	}
	s.met = newCounters(s.o.Metrics, s.o.Name)
	s.slots = s.o.Limits.Listen(connlimit.ListenerOptions{
		Name: s.o.Name, Bytes: linkBytes + s.o.TLSBytes, Max: s.o.Connections, Evict: s.evict, Metrics: s.o.Metrics,
	})
	return s
}

// Serve serves connections of l until Drain or Close, which close l, and then returns nil. Any
// other end of l is an error. It is called once. ctx must outlive Close.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	if s.draining {
		s.mu.Unlock()
		err := l.Close()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		return err
	}
	s.listener = l
	s.mu.Unlock()
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		select {
		case <-s.ending:
			cancel() // cancels waits and readers
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

// accept starts a connection, or closes it if there is no slot. It may wait for a slot; further
// connections then wait in the kernel.
func (s *Server) accept(ctx context.Context, c net.Conn) {
	slot := s.slots.Take()
	if slot == nil {
		slot = s.slots.Enter(time.Now().Add(s.unauthenticatedLeft()), s.ending)
	}
	s.mu.Lock()
	if slot == nil || s.draining {
		draining := s.draining
		s.mu.Unlock()
		if !draining {
			s.slots.Refuse(c.RemoteAddr().String())
		}
		slot.Close()
		reset(c)
		_ = c.Close()
		return
	}
	l := s.newLink(c)
	l.slot = slot
	ctx, l.end = context.WithCancel(ctx)
	s.links[l] = struct{}{}
	s.serving.Add(1)
	s.mu.Unlock()
	go func() {
		defer s.serving.Done()
		l.run(ctx)
		s.mu.Lock()
		delete(s.links, l)
		s.mu.Unlock()
		slot.Close()
	}()
}

// newLink creates a connection. The caller sets end.
func (s *Server) newLink(c net.Conn) *link {
	l := &link{
		s: s, c: c, cut: c.Close, since: time.Now(),
		queue: make(chan *pending, s.o.QueueRequests), room: wake.New(),
	}
	if tcp, ok := c.(*net.TCPConn); ok && s.o.Port.Secure() {
		l.tls = s.o.Port.Server(tcp)
		l.c, l.cut = l.tls, l.tls.Cut
	}
	l.r = bufio.NewReaderSize(l.c, readerBytes)
	l.session = s.o.Open(l.c, func() { _ = l.cut() })
	l.active.Store(s.clock())
	return l
}

const (
	// unauthenticatedGrace is the time for which an unauthenticated connection keeps its slot. A flood
	// of connections that never authenticate cannot displace one that does so in time: it waits for a
	// slot and then has this time.
	unauthenticatedGrace = 500 * time.Millisecond
	// overIdle is how long a connection beyond the limit may be idle.
	overIdle = 50 * time.Millisecond
)

// unauthenticatedLeft returns the time until an unauthenticated connection can be evicted; 0 if there
// is none.
func (s *Server) unauthenticatedLeft() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.oldestUnauthenticatedLocked(); l != nil {
		return time.Until(l.since.Add(unauthenticatedGrace))
	}
	return 0
}

// oldestUnauthenticatedLocked is the oldest unauthenticated connection; nil if there is none.
func (s *Server) oldestUnauthenticatedLocked() (oldest *link) {
	for l := range s.links {
		if !l.leaving && !l.authenticated.Load() && (oldest == nil || l.since.Before(oldest.since)) {
			oldest = l
		}
	}
	return oldest
}

// evict ends the oldest unauthenticated connection, or the one that has been idle longest, if that is
// long enough. Its client waits for no answer, and reconnects on demand.
func (s *Server) evict(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.oldestUnauthenticatedLocked(); l != nil && now.Sub(l.since) >= unauthenticatedGrace {
		s.leaveLocked(l)
		reset(l.c)
		_ = l.cut()
		return true
	}
	var idle *link
	for l := range s.links {
		after := s.o.EvictIdleAfter
		if l.slot.Over() {
			after = overIdle
		}
		if !l.leaving && l.authenticated.Load() && l.count.Load() == 0 && s.clock()-l.active.Load() >= int64(after) &&
			(idle == nil || l.active.Load() < idle.active.Load()) {
			idle = l
		}
	}
	if idle == nil {
		return false
	}
	s.leaveLocked(idle)
	idle.end()
	return true
}

// leaveLocked frees the slot of a connection that is about to end.
func (s *Server) leaveLocked(l *link) {
	s.met.evicted.Inc()
	l.leaving = true
	l.slot.Close()
}

// clock is the time since the server was created.
func (s *Server) clock() int64 { return int64(time.Since(s.began)) }

// Drain closes the listener, ends waits with the data so far, and stops reading requests. It does
// not wait, and may be called more than once.
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

// Close drains, waits until all begun requests are answered, and closes the connections. If ctx
// ends first, it cuts them and returns ctx's error. Calling it twice is safe.
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

// Connections is the number of open connections.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.links)
}
