package broker

import "sync"

// ensures are the topic creations under way, at most one for each name.
type ensures struct {
	mu sync.Mutex // guards of
	of map[string]*ensure
}

type ensure struct {
	done chan struct{}
	err  error // set before done is closed
}

// join returns the attempt for a name. With first, the caller makes the attempt and calls leave.
func (s *ensures) join(name string) (e *ensure, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.of[name]; e != nil {
		return e, false
	}
	if s.of == nil {
		s.of = map[string]*ensure{}
	}
	e = &ensure{done: make(chan struct{})}
	s.of[name] = e
	return e, true
}

func (s *ensures) leave(name string, e *ensure, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.err = err
	close(e.done)
	delete(s.of, name)
}
