package watch

import (
	"context"
	"iter"
	"slices"
	"time"
)

// call is a broker's activity that can wait. It continues when it is resumed, on the stack of its
// resumer, so that one activity runs at a time and always in the same order.
type call struct {
	b      *Broker
	next   func() (struct{}, bool)
	yield  func(struct{}) bool
	parked bool
	over   bool
	waits  int // for the engine
}

type callKey struct{}

// callOf returns the call of a context.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// begin starts a call and runs it until it waits. Its context ends with the broker.
func (b *Broker) begin(f func(ctx context.Context, c *call)) *call {
	c := &call{b: b, parked: true}
	c.next, _ = iter.Pull(func(yield func(struct{}) bool) {
		c.yield = yield
		f(context.WithValue(b.ctx, callKey{}, c), c)
	})
	b.calls = append(b.calls, c)
	c.resume()
	return c
}

// resume continues the call until it waits again or ends.
func (c *call) resume() {
	if c.over || !c.parked {
		return
	}
	c.parked = false
	if _, more := c.next(); !more {
		c.over = true
		c.b.calls = slices.DeleteFunc(c.b.calls, func(x *call) bool { return x == c })
	}
}

// park waits until the call is resumed, for any reason. A call of a dead broker does not wait.
func (c *call) park() {
	if c.b.dead {
		return
	}
	c.parked = true
	c.yield(struct{}{})
}

// wake resumes the call after d. If its broker is paused, it resumes with the broker.
func (c *call) wake(d time.Duration) {
	c.b.s.w.After(d, func() { c.b.host.Do(c.resume) })
}

// until waits for done.
func (c *call) until(done *bool) {
	for !*done && !c.b.dead {
		c.park()
	}
}

// sleep waits for a time.
func (c *call) sleep(d time.Duration) {
	done := false
	c.b.s.w.After(d, func() {
		c.b.host.Do(func() {
			done = true
			c.resume()
		})
	})
	c.until(&done)
}
