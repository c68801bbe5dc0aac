package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/sebbroker/seb/internal/engine/objstore"
)

// Get opens a range of an object, from disk if it is cached. A missing block is fetched completely
// and cached. The errors are the store's. The body reads from disk or bucket; when the cache fails,
// the rest comes from the bucket. The body implements io.WriterTo, so that a TCP connection lets
// the kernel copy from the cache's files. It must be closed, and is not for concurrent use.
func (c *Cache) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	if r.Offset < 0 || r.Length == 0 || r.Offset/c.block > blockLast || ctx.Err() != nil || !c.cacheable(key) {
		return c.remote.Get(ctx, key, r)
	}
	s := span{key: key, first: uint32(r.Offset / c.block), last: blockLast}
	if r.Length > 0 && r.Length-1 <= blockLast*c.block-r.Offset {
		s.last = uint32((r.Offset + r.Length - 1) / c.block)
	}
	b, joined, err := c.acquire(ctx, s)
	switch {
	case errors.Is(err, errBypass) || joined && errors.Is(err, objstore.ErrNotFound):
		return c.remote.Get(ctx, key, r)
	case err != nil:
		return objstore.Object{}, err
	case joined && !b.admitted || r.Offset >= b.size:
		c.release(b)
		return c.remote.Get(ctx, key, r)
	}
	end := b.size
	if r.Length > 0 && r.Length < b.size-r.Offset {
		end = r.Offset + r.Length
	}
	body := &body{cache: c, ctx: ctx, key: key, size: b.size, pos: r.Offset, end: end}
	body.use(b)
	return objstore.Object{Size: b.size, Body: body}, nil
}

// blockLast is the highest block number in the cache.
const blockLast = 1<<32 - 1

// body reads a range block by block. At most one of block, data and rest is set.
type body struct {
	cache *Cache
	ctx   context.Context // of Get; governs reading, too
	key   string
	size  int64
	pos   int64 // position of the next byte in the object
	end   int64
	block *block        // pinned, contains pos
	data  []byte        // bytes from pos on of a block that is not on disk
	rest  io.ReadCloser // the whole rest, from the bucket
	done  bool          // closed
}

// use makes an acquired block the source of the next reads. A block in memory is copied and
// released, because few of them may exist at a time.
func (r *body) use(b *block) {
	if b.file != nil {
		r.block = b
		return
	}
	start := int64(b.name.number) * r.cache.block
	r.data = append([]byte(nil), b.data[r.pos-start:min(r.end-start, int64(b.length))]...)
	r.cache.release(b)
}

// next provides a source for the next bytes. It is called only before the end.
func (r *body) next() error {
	if r.done {
		return fmt.Errorf("read %s: %w: body is closed", r.key, objstore.ErrNoVerdict)
	}
	if err := r.ctx.Err(); err != nil {
		return fmt.Errorf("read %s: %w: %w", r.key, objstore.ErrNoVerdict, err)
	}
	if r.block != nil || len(r.data) > 0 || r.rest != nil {
		return nil
	}
	c := r.cache
	s := span{key: r.key, first: uint32(r.pos / c.block), last: uint32((r.end - 1) / c.block)}
	b, _, err := c.acquire(r.ctx, s)
	switch {
	case err == nil && b.size == r.size:
		r.use(b)
		return nil
	case err == nil:
		c.release(b)
		return fmt.Errorf("read %s: %w: object size changed", r.key, objstore.ErrNoVerdict)
	case errors.Is(err, errBypass):
		return r.bypass()
	}
	return noVerdict(err)
}

// bypass reads the whole rest from the bucket.
func (r *body) bypass() error {
	got, err := r.cache.remote.Get(r.ctx, r.key, objstore.Range{Offset: r.pos, Length: r.end - r.pos})
	if err != nil {
		return noVerdict(err)
	}
	r.rest = got.Body
	return nil
}

// noVerdict gives every error during a read the class ErrNoVerdict.
func noVerdict(err error) error {
	if errors.Is(err, objstore.ErrNoVerdict) {
		return err
	}
	return fmt.Errorf("continue reading: %w: %w", objstore.ErrNoVerdict, err)
}

// Read implements io.Reader.
func (r *body) Read(p []byte) (int, error) {
	if r.pos >= r.end {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	if err := r.next(); err != nil {
		return 0, err
	}
	p = p[:min(int64(len(p)), r.end-r.pos)]
	switch {
	case r.rest != nil:
		return r.readRest(p)
	case len(r.data) > 0:
		n := copy(p, r.data)
		r.data = r.data[n:]
		r.pos += int64(n)
		return n, nil
	}
	at, left := r.inBlock()
	p = p[:min(int64(len(p)), left)]
	n, err := r.readFile(p, at)
	r.advance(int64(n))
	if n == len(p) {
		return n, nil
	}
	if n > 0 {
		return n, nil // the next call gets the error again
	}
	r.abandonBlock(err)
	if err := r.bypass(); err != nil {
		return 0, err
	}
	return r.readRest(p)
}

func (r *body) readFile(p []byte, at int64) (int, error) {
	if err := r.cache.step("read"); err != nil {
		return 0, err
	}
	return r.block.file.ReadAt(p, at)
}

func (r *body) readRest(p []byte) (int, error) {
	n, err := r.rest.Read(p)
	r.pos += int64(n)
	if r.pos >= r.end {
		return n, nil
	}
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("read %s: %w: %w", r.key, objstore.ErrNoVerdict, io.ErrUnexpectedEOF)
	}
	return n, err
}

// inBlock returns the position of the next byte in its block, and how many bytes of the range
// remain in the block.
func (r *body) inBlock() (at, left int64) {
	start := int64(r.block.name.number) * r.cache.block
	return r.pos - start, min(r.end, start+int64(r.block.length)) - r.pos
}

// advance advances the position and releases a block that is read to its end.
func (r *body) advance(n int64) {
	r.pos += n
	if _, left := r.inBlock(); left == 0 {
		r.cache.release(r.block)
		r.block = nil
	}
}

// abandonBlock drops a block whose open file cannot be read any more.
func (r *body) abandonBlock(err error) {
	c, b := r.cache, r.block
	r.block = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	if b.indexed {
		c.countDamageLocked(b, err)
	}
	c.dropLocked(b)
	c.releaseLocked(b)
}

// WriteTo implements io.WriterTo for the unread bytes.
func (r *body) WriteTo(w io.Writer) (int64, error) {
	var sum int64
	var buf []byte
	defer func() { r.cache.buffers.Put(buf) }()
	for r.pos < r.end {
		if err := r.next(); err != nil {
			return sum, err
		}
		if r.block != nil {
			n, tried, err := r.sendFile(w)
			sum += n
			if err != nil {
				return sum, err
			}
			if tried {
				continue
			}
		}
		if buf == nil {
			buf = r.cache.buffers.Get(copyBytes)
		}
		n, err := r.Read(buf)
		if n > 0 {
			written, writeErr := w.Write(buf[:n])
			sum += int64(written)
			if writeErr != nil {
				return sum, writeErr
			}
		}
		if err != nil {
			return sum, err
		}
	}
	return sum, nil
}

const copyBytes = 64 << 10

// sendFile passes the rest of a block to a writer that reads from files itself. tried is false if
// that is impossible. It opens the file again, because a descriptor has only one position and other
// readers share the open one.
func (r *body) sendFile(w io.Writer) (n int64, tried bool, err error) {
	to, ok := w.(io.ReaderFrom)
	if !ok {
		return 0, false, nil
	}
	file := r.reopen()
	if file == nil {
		return 0, false, nil
	}
	defer file.Close()
	at, left := r.inBlock()
	if _, err := file.Seek(at, io.SeekStart); err != nil {
		return 0, false, nil
	}
	n, err = to.ReadFrom(&io.LimitedReader{R: file, N: left})
	r.advance(n)
	var ofFile *fs.PathError
	switch {
	case n == left:
	case err == nil:
		err = io.ErrUnexpectedEOF // the file shrank
		fallthrough
	case errors.As(err, &ofFile) && ofFile.Op == "read":
		r.abandonBlock(err)
		err = r.bypass()
	}
	return n, true, err
}

// reopen opens the block's file again, and returns nil if the name refers to another file now.
func (r *body) reopen() *os.File {
	if r.cache.step("reopen") != nil {
		return nil
	}
	file, err := r.cache.folder.root.Open(r.block.name.file())
	if err != nil {
		return nil
	}
	reopened, err := file.Stat()
	verified, err2 := r.block.file.Stat()
	if err != nil || err2 != nil || !os.SameFile(reopened, verified) {
		_ = file.Close()
		return nil
	}
	return file
}

// Close ends the read. It may be called twice.
func (r *body) Close() error {
	r.done = true
	r.data = nil
	if r.block != nil {
		r.cache.release(r.block)
		r.block = nil
	}
	if r.rest != nil {
		rest := r.rest
		r.rest = nil
		return rest.Close()
	}
	return nil
}
