package log

import "sync"

const (
	// putsMax bounds the PUTs that run at once: the window, a snapshot, SEALs.
	putsMax = 12
	// getsMax bounds the GETs and LISTs that run at once: a walk reads up to 32 slots ahead.
	getsMax = 40
)

// pool runs functions in at most max goroutines; the others wait in order. What waits is bounded by the core, which
// has few requests at a time.
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

// wait returns when everything that was run has returned.
func (p *pool) wait() { p.wg.Wait() }
