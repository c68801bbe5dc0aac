package sim

import (
	"context"
	"iter"
	"slices"
)

// task is an activity of a broker that can wait. It continues on the stack of its resumer, so that
// one activity runs at a time, and always in the same order.
type task struct {
	f      *frontend
	next   func() (struct{}, bool)
	yield  func(struct{}) bool
	parked bool
	over   bool
}

type taskKey struct{}

// taskOf returns the task of a context.
func taskOf(ctx context.Context) *task { return ctx.Value(taskKey{}).(*task) }

// begin starts a task and runs it until it waits.
func (f *frontend) begin(do func(ctx context.Context)) {
	t := &task{f: f, parked: true}
	t.next, _ = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		do(context.WithValue(context.Background(), taskKey{}, t))
	})
	f.tasks = append(f.tasks, t)
	t.resume()
}

// resume continues the task until it waits again or ends.
func (t *task) resume() {
	if t.over || !t.parked {
		return
	}
	t.parked = false
	if _, more := t.next(); !more {
		t.over = true
		t.f.tasks = slices.DeleteFunc(t.f.tasks, func(x *task) bool { return x == t })
	}
}

// until waits for a condition, which is checked whenever the task is resumed. A task of a dead
// broker does not wait.
func (t *task) until(done func() bool) {
	for !done() && !t.f.dead {
		t.parked = true
		t.yield(struct{}{})
	}
}

// wake resumes the task soon. If its broker is paused, it resumes with the broker.
func (t *task) wake() { t.f.r.n.w.after(0, func() { t.f.r.deliver(t.resume) }) }
