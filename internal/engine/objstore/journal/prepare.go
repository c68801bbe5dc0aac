package journal

import (
	"errors"
	"math"
	"sync"

	"github.com/sebbroker/seb/internal/engine/base/failpoint"
)

// slackBytes is how far the preparation of the next file may be ahead of its share.
const slackBytes = 1 << 20

// prepared makes the journal file after the current one. Zeros are written beforehand, because
// writing into blocks that were never written costs a commit of the file system's journal for each
// sync. They are written slowly: the next file is complete when the current one is half full, so that
// an idle journal prepares nothing and a busy one never waits.
type prepared struct {
	j    *Journal
	done chan struct{} // closed when the goroutine has ended

	mu      sync.Locker // guards the fields below; taken after Journal.mu
	changed sync.Cond
	number  uint64 // of the file that is prepared next
	now     int64  // size of the current file
	filled  int64  // of that, bytes in use
	wakeAt  int64  // filled from which the goroutine can go on
	urgent  bool   // the current file is full
	ready   *nextFile
	err     error // of the last attempt
	closing bool
}

type nextFile struct {
	number uint64
	size   int64
	file   File
}

var errClosing = errors.New("journal is being closed")

func newPrepared(j *Journal) *prepared {
	p := &prepared{j: j, mu: j.sys.NewMutex(), number: 2, now: j.opt.FirstBytes, done: make(chan struct{})}
	p.changed.L = p.mu
	go p.run()
	return p
}

// used reports how much of the current file is in use. It wakes the goroutine only if that can go
// on: a lone writer calls it for each object.
func (p *prepared) used(filled, size int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.filled, p.now = filled, size
	if filled >= p.wakeAt {
		p.changed.Broadcast()
	}
}

// take returns the next file and waits for it if necessary. After an error the next call tries
// again.
func (p *prepared) take() (nextFile, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.urgent, p.err = true, nil
	p.changed.Broadcast()
	for p.ready == nil && p.err == nil && !p.closing {
		p.changed.Wait()
	}
	p.urgent = false
	switch {
	case p.ready != nil:
		next := *p.ready
		p.ready, p.filled, p.now = nil, 0, next.size
		p.number++
		p.changed.Broadcast()
		return next, nil
	case p.err != nil:
		return nextFile{}, p.err
	}
	return nextFile{}, errClosing
}

// close ends the goroutine and closes a file that was not taken. It does not wait.
func (p *prepared) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closing = true
	p.changed.Broadcast()
}

func (p *prepared) run() {
	defer close(p.done)
	for {
		number, size, ok := p.wanted()
		if !ok {
			return
		}
		f, err := p.j.prepare(number, size, func(written int64) error { return p.pace(written, size) })
		p.mu.Lock()
		if err == nil && p.closing {
			_ = f.Close()
		} else if err == nil {
			p.ready = &nextFile{number: number, size: size, file: f}
		}
		p.err = err
		p.changed.Broadcast()
		p.mu.Unlock()
	}
}

// prepare makes a journal file durable and opens it.
func (j *Journal) prepare(number uint64, size int64, pace func(written int64) error) (File, error) {
	name := j.fileName(number)
	if err := j.sys.Prepare(name, size, pace); err != nil {
		return nil, err
	}
	failpoint.Hit("journal.prepared")
	return j.sys.Open(name, true)
}

// wanted waits until a file should be prepared. ok is false when the journal closes.
func (p *prepared) wanted() (number uint64, size int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// After an error only take starts another attempt, which its caller waits for.
	for !p.closing && (p.ready != nil || p.err != nil || !p.urgent && p.filled <= min(slackBytes, p.now)/2) {
		p.wakeAt = min(slackBytes, p.now)/2 + 1
		if p.ready != nil || p.err != nil {
			p.wakeAt = math.MaxInt64 // only take goes on
		}
		p.changed.Wait()
	}
	if p.closing {
		if p.ready != nil {
			_ = p.ready.file.Close()
			p.ready = nil
		}
		return 0, 0, false
	}
	return p.number, min(2*p.now, max(p.j.opt.FileBytes, p.j.opt.FirstBytes)), true
}

// pace waits until so many bytes of the next file may be written.
func (p *prepared) pace(written, size int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.closing && !p.urgent && written > slackBytes+size/p.now*2*p.filled {
		p.wakeAt = p.filled + 1 + (written-slackBytes-size/p.now*2*p.filled)/(size/p.now*2+1)
		p.changed.Wait()
	}
	if p.closing {
		return errClosing
	}
	return nil
}
