package log

import "sync"

const (
	// putsMax bounds the concurrent PUTs: the window, a snapshot, SEALs.
	putsMax = 12
	// getsMax bounds the concurrent GETs and LISTs: a walk reads up to 32 slots ahead.
	getsMax = 40
)

// pool runs functions in at most max goroutines; others wait in order. The core bounds the queue,
// because it has few requests at a time.
type pool struct {
	max int
	wg  sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	running int
	queue   []func()
}

func (p *pool) run(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == p.max {
		p.queue = append(p.queue, f)
		return
	}
	p.running++
	p.wg.Go(func() { p.work(f) })
}

func (p *pool) work(f func()) {
	for f != nil {
		f()
		f = p.next()
	}
}

func (p *pool) next() func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		p.running--
		return nil
	}
	f := p.queue[0]
	p.queue[0] = nil
	p.queue = p.queue[1:]
	return f
}

// wait waits for all functions.
func (p *pool) wait() { p.wg.Wait() }
