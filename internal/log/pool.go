package log

import "sync"

const (
	// putsMax bounds the concurrent PUTs: the window, a snapshot, SEALs.
	putsMax = 12
	// getsMax bounds the concurrent GETs and LISTs: a walk reads up to 32 slots ahead.
	getsMax = 40
)

// spareMax bounds the goroutines of a pool that wait for a function. Starting one for each request
// would grow its stack again each time.
const spareMax = 4

// pool runs functions in at most max goroutines; others wait in order. The core bounds the queue,
// because it has few requests at a time. One goroutine calls run and wait.
type pool struct {
	max   int
	given chan func() // to the spare goroutines; its capacity is spareMax
	wg    sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	running int
	spare   int // goroutines that receive from given
	queue   []func()
	ended   bool
}

func newPool(maximum int) *pool { return &pool{max: maximum, given: make(chan func(), spareMax)} }

func (p *pool) run(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.running == p.max:
		p.queue = append(p.queue, f)
		return
	case p.spare > 0:
		p.spare--
		p.given <- f // there is room: each spare goroutine receives once
	default:
		p.wg.Go(func() { p.work(f) })
	}
	p.running++
}

func (p *pool) work(f func()) {
	for f != nil {
		f()
		f = p.next()
	}
}

// next returns the next function, and waits for it if the goroutine is to be spare. nil ends it.
func (p *pool) next() func() {
	p.mu.Lock()
	if len(p.queue) > 0 {
		defer p.mu.Unlock()
		f := p.queue[0]
		p.queue[0] = nil
		p.queue = p.queue[1:]
		return f
	}
	p.running--
	if p.ended || p.spare == spareMax {
		p.mu.Unlock()
		return nil
	}
	p.spare++
	p.mu.Unlock()
	return <-p.given
}

// wait waits for all functions, after the last run.
func (p *pool) wait() {
	p.mu.Lock()
	p.ended = true
	close(p.given)
	p.mu.Unlock()
	p.wg.Wait()
}
