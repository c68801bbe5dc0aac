package httpconn

import "time"

// net/http watches for the end of a connection during a request by a read in another goroutine. For
// each request that costs the goroutine, a system call and two deadlines, up to a sixth of the CPU time
// of a small one. A request whose body has arrived is usually answered within milliseconds, so
// Connections watches it instead, if it lasts.

// watchInterval is how often Connections looks at the requests that it watches. It notices after one or
// two intervals that a client has left.
const watchInterval = 500 * time.Millisecond

// readsAhead reports whether a read is that of net/http during a request that Connections watches. It
// has no buffer but for one byte. Other reads have a larger one, because they fill a bufio.Reader.
func (g *guard) readsAhead(p []byte) bool { return len(p) == 1 && g.watched.Load() }

// watch looks at all requests, and again after watchInterval while there are connections.
func (c *Connections) watch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, slot := range c.slots {
		slot.watchLocked()
	}
	c.armLocked()
}

func (c *Connections) armLocked() {
	if c.watching = len(c.slots) > 0; c.watching {
		time.AfterFunc(watchInterval, c.watch)
	}
}

// watchLocked cancels the context of a request that is in progress since the last look, if its client
// has left.
func (p *ConnSlot) watchLocked() {
	g, ok := p.conn.(*guarded)
	if !ok || p.phase != serving || !g.watched.Load() {
		return
	}
	if p.looked && hungUp(p.conn) {
		p.cancel()
	}
	p.looked = true
}
