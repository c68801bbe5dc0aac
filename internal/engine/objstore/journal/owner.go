package journal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"sync"
	"syscall"

	"github.com/sebbroker/seb/internal/engine/base/failpoint"
)

// Body is the content of an object: parts in order. The journal holds no reference to them after
// Put.
type Body struct {
	Parts  [][]byte
	Size   int64
	CRC32C uint32 // Castagnoli checksum of all parts, valid if HasCRC
	HasCRC bool
}

// owner is what only the process that appends to a journal has.
//
// One flush runs at a time: the caller of Put that finds none running appends what waits, syncs, and
// then wakes the callers. The first object that arrived meanwhile begins the next flush. So a lone
// writer never waits for another goroutine.
type owner struct {
	writer   File // the current file
	size     int64
	position Mark // of PositionFile

	// guarded by Journal.mu
	waiting  []*request
	pending  map[string]*request // accepted and without a verdict
	flushing bool
	flushes  int       // finished ones
	idle     sync.Cond // a flush has finished
	err      error     // why nothing more is taken; ErrOver or ErrEnded
	next     *prepared

	// owned by the running flush
	head   []byte
	frames []frame
	parts  [][]byte
	record []byte
}

// request is one object on its way into the journal.
type request struct {
	frame frame
	parts [][]byte
	err   error
	wake  chan bool // receives true if the caller must flush, false if the verdict is there
}

// inline is how many bytes of the body lie in the journal file.
func (r *request) inline() int64 {
	if r.frame.kind != frameInline {
		return 0
	}
	return r.frame.size
}

// Claim claims a folder that does not exist and begins its journal. The claim and the first journal
// file are durable when it returns. ErrExists: the folder, or a claim, is there.
func Claim(sys System, folder string, opt Options) (*Journal, error) {
	var run Run
	_, _ = rand.Read(run[:]) // never fails
	j := newJournal(sys, folder, run)
	j.opt = opt.withDefaults()
	// The claim comes first: what exists without a claim belongs to nothing. A journal that is
	// claimed and has no files is empty.
	if err := sys.PutFile(folder, encodeClaim(run)); errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("claim %s: %w", folder, ErrExists)
	} else if err != nil {
		return nil, fmt.Errorf("claim %s: %w", folder, err)
	}
	failpoint.Hit("journal.claimed")
	if err := sys.MakeFolder(Files(folder)); err != nil {
		return nil, fmt.Errorf("claim %s: %w", folder, err)
	}
	failpoint.Hit("journal.folder")
	j.pos = Position{File: 1}
	w, err := j.prepare(1, j.opt.FirstBytes, func(int64) error { return nil })
	if errors.Is(err, fs.ErrNotExist) { // another process has ended the journal and removed the file
		return nil, fmt.Errorf("claim %s: %w", folder, ErrEnded)
	}
	if err != nil {
		return nil, fmt.Errorf("prepare %s: %w", j.fileName(1), err)
	}
	j.files = append(j.files, &file{number: 1})
	o := &owner{writer: w, size: j.opt.FirstBytes, pending: map[string]*request{}}
	o.idle.L = j.mu
	if o.position, err = sys.OpenMark(PositionFile(folder)); err != nil {
		_ = w.Close()
		return nil, fmt.Errorf("create %s: %w", PositionFile(folder), err)
	}
	if err := j.record(o, j.pos); err != nil {
		_, _ = w.Close(), o.position.Close()
		return nil, err
	}
	j.own = o
	j.preparing = newPrepared(j)
	j.own.next = j.preparing
	return j, nil
}

// Put appends an object. nil: it is durable, and no other process can have ended the journal before
// it. ErrExists: the journal holds the name. ErrEnded: the journal has ended and does not hold the
// name. ErrOver: see there. Other errors: the object is not stored, and a later Put may succeed.
func (j *Journal) Put(key string, body Body) error {
	crc := body.CRC32C
	if !body.HasCRC {
		for _, p := range body.Parts {
			crc = crc32.Update(crc, castagnoli, p)
		}
	}
	return j.put(&request{
		frame: frame{key: key, kind: frameInline, crc: crc, size: body.Size}, parts: body.Parts, wake: make(chan bool, 1),
	})
}

// PutLarge appends the name of an object whose body is in the file Large. It calls write, which
// makes that file durable, when the name is free, and before the name is appended: the journal
// alone decides whether the object exists.
func (j *Journal) PutLarge(key string, size int64, write func(file string) error) error {
	r := &request{frame: frame{key: key, kind: frameFile, size: size}, wake: make(chan bool, 1)}
	o, err := j.accept(r)
	if err != nil {
		return err
	}
	file := Large(j.folder, key)
	err = j.remove(file) // a file that is there belongs to no object
	if err == nil {
		err = write(file)
	}
	if err != nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(o.pending, key)
		o.idle.Broadcast()
		return err
	}
	if err = j.enqueue(o, r); err != nil && !errors.Is(err, ErrOver) {
		_ = j.sys.Remove(file) // no object; the folder is removed with the journal otherwise
	}
	return err
}

func (j *Journal) put(r *request) error {
	o, err := j.accept(r)
	if err != nil {
		return err
	}
	return j.enqueue(o, r)
}

// accept waits for the verdict on an earlier Put of the same name and then takes the name, or
// returns why it may not be appended.
func (j *Journal) accept(r *request) (*owner, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for {
		o := j.own
		switch _, known := j.objects.get(r.frame.key); {
		case j.over != nil:
			return nil, j.over
		case o == nil:
			return nil, ErrEnded // Find then also knows what others have deleted
		case known:
			return nil, ErrExists
		case o.err != nil:
			return nil, o.err
		case o.pending[r.frame.key] == nil:
			o.pending[r.frame.key] = r
			return o, nil
		}
		o.idle.Wait()
	}
}

// enqueue adds an accepted object to the next group, flushes the group if no flush is running, and
// returns the verdict.
func (j *Journal) enqueue(o *owner, r *request) error {
	j.mu.Lock()
	if o.err != nil { // the journal ended while the file of a large object was written
		defer j.mu.Unlock()
		delete(o.pending, r.frame.key)
		o.idle.Broadcast()
		return o.err
	}
	o.waiting = append(o.waiting, r)
	flush := !o.flushing
	o.flushing = true
	j.mu.Unlock()
	if flush || <-r.wake {
		j.flush(o)
	}
	failpoint.Hit("journal.decided")
	return r.err
}

// flush appends one group, of which the caller's object is the first, and gives every object of it
// its verdict.
func (j *Journal) flush(o *owner) {
	j.mu.Lock()
	group := j.groupLocked(o)
	at, err := j.pos, o.err
	j.mu.Unlock()
	if err == nil {
		at, err = j.append(o, group)
	}
	if err == nil {
		err = j.look(o)
	}
	if err == nil {
		err = j.record(o, j.pos) // only a flush moves it
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.decideLocked(o, group, at, err)
	for _, r := range group[1:] {
		r.wake <- false
	}
	j.nextLocked(o)
}

// groupLocked takes the objects that go together.
func (j *Journal) groupLocked(o *owner) []*request {
	n, bytes := 0, int64(0)
	for _, r := range o.waiting {
		if bytes += r.inline(); n > 0 && (n == framesMax || bytes > j.opt.GroupBytes) {
			break
		}
		n++
	}
	group := o.waiting[:n:n]
	o.waiting = o.waiting[n:]
	return group
}

// append writes a group as one batch and syncs it. It returns where the batch is. Nothing of a
// later batch is written before this sync has returned, so a batch with another behind it is
// durable, and only the last one of a journal can be incomplete.
func (j *Journal) append(o *owner, group []*request) (Position, error) {
	o.frames, o.parts = o.frames[:0], o.parts[:0]
	need := int64(headBytes)
	for _, r := range group {
		o.frames = append(o.frames, r.frame)
		need += frameBytes + int64(len(r.frame.key)) + r.inline()
	}
	at, err := j.room(o, padded(need))
	if errors.Is(err, ErrEnded) {
		return Position{File: math.MaxUint64}, err // nothing was written, so it is before no end
	}
	if err != nil {
		return at, err
	}
	var length int64
	o.head, length = appendHead(o.head[:0], j.run, at, kindObjects, o.frames)
	o.parts = append(o.parts, o.head)
	for _, r := range group {
		o.parts = append(o.parts, r.parts...)
	}
	o.parts = append(o.parts, padding[:padded(length)-length])
	err = o.write(o.parts, at.Offset)
	clear(o.parts)
	if err != nil {
		return at, j.failed(o, fmt.Errorf("append to %s: %w", j.fileName(at.File), err))
	}
	j.mu.Lock()
	j.pos.Offset += padded(length)
	o.next.used(j.pos.Offset, o.size)
	j.mu.Unlock()
	return at, nil
}

var padding [BlockBytes]byte

func (o *owner) write(parts [][]byte, at int64) error {
	if err := o.writer.WriteAt(parts, at); err != nil {
		return err
	}
	failpoint.Hit("journal.written")
	if err := o.writer.Sync(); err != nil {
		return err
	}
	failpoint.Hit("journal.synced")
	return nil
}

// failed is the error of a write or sync. A process that has ended the journal removes the files
// behind the end and frees the space behind it, and nothing there exists. Otherwise the journal has
// failed.
func (j *Journal) failed(o *owner, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOSPC) {
		if ended := j.look(o); errors.Is(ended, ErrEnded) {
			return ended
		}
	}
	return fmt.Errorf("%w: %w", ErrOver, err)
}

// room returns where the next batch of so many bytes goes. It leaves the current file if that has
// no room for the batch and an end mark after it.
func (j *Journal) room(o *owner, need int64) (Position, error) {
	j.mu.Lock()
	at := j.pos
	j.mu.Unlock()
	if at.Offset+need+BlockBytes <= o.size {
		return at, nil
	}
	next, err := o.next.take()
	if errors.Is(err, fs.ErrNotExist) { // another process may have ended the journal and removed the file
		if ended := j.look(o); errors.Is(ended, ErrEnded) {
			return at, ended
		}
	}
	if err != nil {
		return at, fmt.Errorf("prepare a journal file after %s: %w", j.fileName(at.File), err)
	}
	if need+BlockBytes > next.size {
		panic(fmt.Sprintf("journal: a batch of %d bytes in a file of %d", need, next.size))
	}
	// The end mark is durable before anything is appended to the next file, so no file with a
	// successor can have lost an acknowledged batch without a trace.
	o.head, _ = appendHead(o.head[:0], j.run, at, kindEndOfFile, nil)
	if err := o.write([][]byte{o.head, padding[:BlockBytes-len(o.head)]}, at.Offset); err != nil {
		_ = next.file.Close()
		return at, j.failed(o, fmt.Errorf("end of %s: %w", j.fileName(at.File), err))
	}
	failpoint.Hit("journal.left")
	// The position leaves the file too, before the file can be removed.
	err = j.look(o)
	if err == nil {
		err = j.record(o, Position{File: next.number})
	}
	if err != nil {
		_ = next.file.Close()
		return at, err
	}
	_ = o.writer.Close()
	o.writer, o.size = next.file, next.size
	failpoint.Hit("journal.next")
	j.mu.Lock()
	defer j.mu.Unlock()
	j.files[len(j.files)-1].left = true
	j.files = append(j.files, &file{number: next.number})
	j.pos = Position{File: next.number}
	return j.pos, nil
}

// look asks for the mark of another process. It comes after the sync and before any answer: a
// process that makes the mark later finds the batch, because it reads the journal after it has made
// the mark. ErrEnded: the mark is there, and the end is known.
func (j *Journal) look(o *owner) error {
	marked, err := j.sys.Exists(Late(j.folder))
	failpoint.Hit("journal.looked")
	if err != nil {
		return fmt.Errorf("%w: look for %s: %w", ErrOver, Late(j.folder), err)
	}
	if !marked {
		return nil
	}
	j.mu.Lock()
	known := j.pos
	j.mu.Unlock()
	if err := j.nameEnd(known); err != nil {
		return fmt.Errorf("%w: %w", ErrOver, err)
	}
	return ErrEnded
}

// decideLocked sets the verdict on each object of a group at a position, after append and look.
func (j *Journal) decideLocked(o *owner, group []*request, at Position, err error) {
	stored := err == nil || errors.Is(err, ErrEnded) && j.end != nil && at.Before(*j.end)
	if stored {
		o.frames = o.frames[:0]
		for _, r := range group {
			o.frames = append(o.frames, r.frame)
		}
		locate(at.Offset+headLen(o.frames), o.frames)
		j.addLocked(&batch{at: at, kind: kindObjects, frames: o.frames})
	}
	switch {
	case errors.Is(err, ErrEnded):
		o.err = err
	case errors.Is(err, ErrOver):
		// Whether the group is stored is for the disk to say: from now on this process reads the
		// journal as every other.
		o.err, j.over, j.pos = err, err, at
	}
	for _, r := range group {
		delete(o.pending, r.frame.key)
		if !stored {
			r.err = err
		}
	}
}

func headLen(frames []frame) int64 {
	n := int64(headBytes)
	for i := range frames {
		n += frameBytes + int64(len(frames[i].key))
	}
	return n
}

// nextLocked hands the flush to the first waiting object, or ends it.
func (j *Journal) nextLocked(o *owner) {
	o.flushes++
	if o.err != nil {
		for _, r := range o.waiting {
			delete(o.pending, r.frame.key)
			r.err = o.err
			r.wake <- false
		}
		o.waiting = nil
		j.disownLocked(o)
	}
	if len(o.waiting) > 0 {
		o.waiting[0].wake <- true
	} else {
		o.flushing = false
		o.waiting = nil
	}
	o.idle.Broadcast()
}

// disownLocked turns the owner of an ended or failed journal into a reader of it.
func (j *Journal) disownLocked(o *owner) {
	o.next.close()
	_, _ = o.writer.Close(), o.position.Close()
	j.own = nil
	if j.end != nil {
		j.leaveLocked()
	}
}

// Close ends an own journal, so that this run never continues it and a torn batch can be told from
// a damaged one. It waits for running Puts. It may be called twice.
func (j *Journal) Close() error {
	j.mu.Lock()
	preparing, over := j.preparing, j.over
	j.mu.Unlock()
	if preparing == nil {
		return nil
	}
	var err error
	if over == nil { // else another run finds out what the disk holds
		err = j.End()
	}
	preparing.close()
	<-preparing.done
	return err
}

// End ends the journal (J5): nothing is appended after it returns, by any process.
func (j *Journal) End() error {
	j.mu.Lock()
	o := j.own
	if o == nil {
		j.mu.Unlock()
		return j.endForeign()
	}
	for o.flushing {
		o.idle.Wait()
	}
	if j.own == nil { // ended or failed meanwhile
		defer j.mu.Unlock()
		return j.over
	}
	o.flushing = true
	known := j.pos
	j.mu.Unlock()
	err := j.nameEnd(known)
	j.mu.Lock()
	defer j.mu.Unlock()
	if o.err = ErrEnded; err != nil {
		o.err = fmt.Errorf("%w: %w", ErrOver, err)
		j.over = o.err
	}
	j.nextLocked(o)
	return err
}
