package log

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/failpoint"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
)

// request performs a store request in a goroutine. The answer carries the OpID of this request, so
// the core ignores it if it no longer waits for it.
func (o *owner) request(ctx context.Context, effect *core.Effect) {
	e := *effect
	switch e.Kind {
	case core.EffPutData:
		o.putObject(ctx, &e)
	case core.EffPutSnapshot:
		var kept []byte
		if o.snapshot.op == e.Op {
			kept = o.snapshot.body
		}
		o.puts.run(func() { o.putSnapshot(ctx, &e, kept) })
	case core.EffPutMeta, core.EffPutSeal:
		o.puts.run(func() { o.reply(o.put(ctx, &e, objstore.NewBody(e.Body))) })
	case core.EffOwn:
		o.puts.run(func() { o.reply(o.own(ctx, &e)) })
	case core.EffCollect:
		o.gets.run(func() {
			ev := o.collect(ctx, e.View)
			ev.Op = e.Op
			o.reply(ev)
		})
	case core.EffScrub:
		o.gets.run(func() { o.reply(o.scrub(ctx, &e)) })
	case core.EffGetMeta:
		o.gets.run(func() { o.reply(o.getMeta(ctx, &e)) })
	case core.EffList:
		o.gets.run(func() { o.reply(o.list(ctx, &e)) })
	case core.EffGetSlot:
		size := o.sizeInFlight(e.Key)
		o.gets.run(func() { o.reply(o.getSlot(ctx, &e, size)) })
	case core.EffGetSnapshot:
		o.gets.run(func() { o.reply(o.getSnapshot(ctx, &e)) })
	default:
		panic(fmt.Sprintf("log: effect %d", e.Kind))
	}
}

func (o *owner) reply(ev *core.Event) {
	o.in.put(message{do: func(ctx context.Context, o *owner) { o.step(ctx, ev) }})
}

// putObject sends a slot. The attempt holds a reference to the object until the store has returned.
func (o *owner) putObject(ctx context.Context, e *core.Effect) {
	object := e.Frozen.Proposal.User.(*proposal).object
	if object == nil {
		return // settled while the attempt was delayed
	}
	object.Retain()
	o.puts.run(func() {
		defer object.Release()
		o.reply(o.put(ctx, e, object.body(o.opt.Checksums)))
	})
}

// sizeInFlight is the size of our unsettled object of that name, or -1.
func (o *owner) sizeInFlight(key string) int64 {
	for p := range o.open {
		if p.object != nil && p.object.Key == key {
			return p.object.Size
		}
	}
	return -1
}

func (l *Log) put(ctx context.Context, e *core.Effect, body objstore.Body) *core.Event {
	ctx, cancel := context.WithTimeout(ctx, l.opt.Timeouts.forBytes(l.opt.Timeouts.Put, body.Size))
	defer cancel()
	if failpoint.Enabled {
		failpoint.Hit(putName(e.Kind) + ".before")
	}
	begin := time.Now()
	err := l.opt.Store.Put(ctx, e.Key, body)
	if failpoint.Enabled {
		failpoint.Hit(putName(e.Kind) + ".after")
	}
	l.met.put(e.Kind, time.Since(begin), body.Size, err)
	l.recordHealth(ctx, "put", e.Key, err)
	ev := &core.Event{Kind: core.EvPut, Op: e.Op, Err: err}
	switch {
	case err == nil:
		ev.Outcome = core.OutcomeOK
	case errors.Is(err, objstore.ErrNoVerdict):
		ev.Outcome = core.OutcomeNoVerdict
	case errors.Is(err, objstore.ErrExists):
		ev.Outcome = core.OutcomeExists
	case errors.Is(err, objstore.ErrRefused):
		ev.Outcome = core.OutcomeRefused
	default:
		ev.Outcome = core.OutcomeNoVerdict
	}
	return ev
}

// own claims the folder of the new epoch for a journal. Without one the epoch has a file for each
// commit object, and a store that refuses writes also refuses the first of them.
func (l *Log) own(ctx context.Context, e *core.Effect) *core.Event {
	ctx, cancel := context.WithTimeout(ctx, l.opt.Timeouts.Put)
	defer cancel()
	ev := &core.Event{Kind: core.EvOwned, Op: e.Op, Outcome: core.OutcomeOK}
	store, ok := objstore.As[objstore.Journaler](l.opt.Store)
	if !ok {
		return ev
	}
	err := store.Own(ctx, e.Key)
	if ev.Journaled = err == nil; err != nil {
		l.opt.Logger.Info("epoch without a journal", "folder", e.Key, "err", err)
	}
	return ev
}

// putName is the name of a PUT in failpoints.
func putName(kind core.EffectKind) string {
	switch kind {
	case core.EffPutMeta:
		return "put.meta"
	case core.EffPutSeal:
		return "put.seal"
	case core.EffPutSnapshot:
		return "put.snapshot"
	}
	return "put.data"
}

// putSnapshot encodes the view outside the owner goroutine and sends it. The answer carries the
// bytes to the owner, so that every attempt sends the same bytes (rule R1).
func (o *owner) putSnapshot(ctx context.Context, e *core.Effect, kept []byte) {
	body := kept
	if body == nil {
		body = state.EncodeSnapshot(e.View)
	}
	ev := o.put(ctx, e, objstore.NewBody(body))
	ev.Size = int64(len(body))
	if ev.Outcome == core.OutcomeOK || ev.Outcome == core.OutcomeExists {
		body = nil // settled: nothing to keep
	}
	o.in.put(message{do: func(ctx context.Context, o *owner) {
		if body != nil || ev.Op == o.snapshot.op {
			o.snapshot = snapshot{ev.Op, body}
		}
		o.step(ctx, ev)
	}})
}

// read returns the bytes [0, n) of an object, fewer if it is shorter, and its size, or -1 if the
// store does not report it.
func (l *Log) read(ctx context.Context, key string, n int64) (b []byte, size int64, err error) {
	return l.readFrom(ctx, l.opt.Store, key, n)
}

func (l *Log) readFrom(ctx context.Context, store objstore.Store, key string, n int64) (b []byte, size int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.opt.Timeouts.forBytes(l.opt.Timeouts.Read, n))
	defer cancel()
	failpoint.Hit("get.before")
	begin := time.Now()
	b, size, err = get(ctx, store, key, n)
	failpoint.Hit("get.after")
	l.met.get(time.Since(begin), err)
	l.recordHealth(ctx, "get", key, err)
	return b, size, err
}

func get(ctx context.Context, store objstore.Store, key string, n int64) (b []byte, size int64, err error) {
	obj, err := store.Get(ctx, key, objstore.Range{Length: n})
	if err != nil {
		return nil, 0, err
	}
	defer obj.Body.Close()
	if obj.Size < 0 {
		b, err = io.ReadAll(io.LimitReader(obj.Body, n))
	} else {
		b = make([]byte, min(n, obj.Size))
		_, err = io.ReadFull(obj.Body, b)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", key, err) // cut off or broken: no verdict
	}
	return b, obj.Size, nil
}

// readOutcome maps the error of a GET or LIST. Only ErrNotFound means that an object is missing
// (rule R3). A name that may be in a damaged part of the bucket is an unreadable object (rule R9): a
// retry would not end that.
func readOutcome(err error) core.Outcome {
	switch {
	case err == nil:
		return core.OutcomeOK
	case errors.Is(err, objstore.ErrNoVerdict):
		return core.OutcomeNoVerdict
	case errors.Is(err, objstore.ErrNotFound):
		return core.OutcomeNotFound
	case errors.Is(err, objstore.ErrDamaged):
		return core.OutcomeCorrupt
	case errors.Is(err, objstore.ErrRefused):
		return core.OutcomeRefused
	case errors.Is(err, record.ErrCorrupt):
		return core.OutcomeCorrupt
	case errors.Is(err, state.ErrNewer):
		return core.OutcomeNewer
	}
	return core.OutcomeNoVerdict
}

// recordHealth stores the result of a request for Ready, and logs when the store starts or stops to
// fail.
func (l *Log) recordHealth(ctx context.Context, op, key string, err error) {
	if err != nil && errors.Is(context.Cause(ctx), context.Canceled) {
		return // the log canceled it
	}
	if errors.Is(err, objstore.ErrExists) || errors.Is(err, objstore.ErrNotFound) || errors.Is(err, objstore.ErrDamaged) {
		err = nil // an answer of a store that works
	}
	if err == nil {
		l.verdict.Store(l.now())
	}
	if !l.health.note(err) {
		return
	}
	if err != nil {
		l.opt.Logger.Warn("object store request failed", "op", op, "key", key, "err", err)
		return
	}
	l.opt.Logger.Info("object store recovered", "op", op, "key", key)
}

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
