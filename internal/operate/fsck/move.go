package fsck

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
)

// transit is a verified object between its stores. Its bytes are
//
//	in memory                              a small object
//	in a file that becomes the object      the target is a folder
//	in the file of the source              the source is a folder
//	in a temporary file                    neither
type transit struct {
	key     string
	size    int64
	kind    record.Kind // zero if it is not an object of the log
	content io.ReaderAt
	memory  *bytes.Buffer    // the content, or nil
	staged  *objstore.Staged // has the content, or nil
	file    io.Closer        // closed with the transit; may be nil
}

func (t *transit) close() {
	if t.file != nil {
		_ = t.file.Close()
	}
}

// one verifies an object and copies it.
func (c *copier) one(ctx context.Context, e objstore.Entry) error {
	var t *transit
	err := objstore.Retry(ctx, retryPause, func() (err error) {
		t, err = c.receive(ctx, e)
		return err
	})
	forgotten := c.contents.forgotten(e.Key)
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		return fmt.Errorf("%s: %w", e.Key, errCollected)
	case forgotten && errors.Is(err, record.ErrCorrupt):
		return nil // it holds no record
	case err != nil:
		return fmt.Errorf("%s: %w", e.Key, err)
	}
	defer t.close()
	if c.o.To != nil && (t.kind == record.KindSeal || !forgotten) { // otherwise it is garbage
		if err := c.store(ctx, t); err != nil {
			return err
		}
	}
	c.step(e.Size, true)
	return nil
}

// receive reads an object once and verifies it. The caller closes the result.
func (c *copier) receive(ctx context.Context, e objstore.Entry) (_ *transit, err error) {
	got, err := c.get(ctx, e.Key, objstore.Whole)
	if err != nil {
		return nil, err
	}
	t := &transit{key: e.Key, size: e.Size}
	defer func() {
		if t.file != got.Body {
			_ = got.Body.Close()
		}
		if err != nil {
			t.close()
		}
	}()
	to, err := c.hold(ctx, t, got.Body)
	if err != nil {
		return nil, err
	}
	read := &counter{w: to}
	from := bufio.NewReaderSize(io.TeeReader(io.LimitReader(got.Body, e.Size+1), read), bufferOf(e.Size))
	if t.kind, err = c.verify(e.Key, from, got.Size); err == nil {
		_, err = io.Copy(io.Discard, from)
	}
	if err != nil {
		return nil, corrupt(err)
	}
	if size := max(got.Size, read.n); size != e.Size || read.n < size {
		return nil, &record.CorruptError{What: objectLength, Want: e.Size, Got: min(size, read.n)}
	}
	return t, nil
}

// hold decides where the bytes of an object that is read from body are until it is stored. It
// returns their writer.
func (c *copier) hold(ctx context.Context, t *transit, body io.ReadCloser) (io.Writer, error) {
	if c.o.To == nil { // it is only verified
		return io.Discard, nil
	}
	if t.size <= c.o.MemoryBytes/int64(c.o.Workers) {
		t.memory = bytes.NewBuffer(make([]byte, 0, t.size))
		return t.memory, nil
	}
	if stager, ok := c.o.To.(objstore.Stager); ok {
		staged, err := stager.Stage(ctx, t.size)
		if err != nil {
			return nil, err
		}
		t.staged, t.content, t.file = staged, staged.File, staged
		return staged.File, nil
	}
	if s, ok := body.(*objstore.Section); ok {
		t.content, t.file = io.NewSectionReader(s.File, s.Off, s.Len), body
		return io.Discard, nil
	}
	f, err := os.CreateTemp("", "seb-copy-*")
	if err != nil {
		return nil, fmt.Errorf("temporary file (its folder is $TMPDIR): %w", err)
	}
	t.content, t.file = f, f
	if err := os.Remove(f.Name()); err != nil { // the file is deleted however this process ends
		return nil, fmt.Errorf("temporary file: %w", err)
	}
	return f, nil
}

// counter counts the bytes that are written to w.
type counter struct {
	w io.Writer
	n int64
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// verify reads an object and checks the checksums and the name of a slot or pack. Copies of views
// have their own checksums, which the broker verifies before use.
func (c *checker) verify(key string, from io.Reader, size int64) (record.Kind, error) {
	n, slot := parseSlot(c.o.Shard, strings.TrimSuffix(key, state.RecoverySuffix))
	if !slot {
		var pack bool
		if n, pack = parsePack(c.o.Shard, key); !pack {
			return 0, nil
		}
	}
	o := object{key: key}
	if err := c.decode(&o, from, size); err != nil {
		return 0, err
	}
	return o.head.Kind, errors.Join(o.body, c.place(&o.head, n))
}

// put stores an object in To.
func (c *copier) put(ctx context.Context, key string, b []byte) error {
	return c.store(ctx, &transit{key: key, size: int64(len(b)), memory: bytes.NewBuffer(b)})
}

// store stores an object in To. An existing object must hold the same bytes, from an earlier attempt.
func (c *copier) store(ctx context.Context, t *transit) error {
	err := objstore.Retry(ctx, retryPause, func() error {
		switch {
		case t.memory != nil:
			return c.o.To.Put(ctx, t.key, objstore.NewBody(t.memory.Bytes()))
		case t.staged != nil:
			return t.staged.Publish(ctx, t.key)
		}
		return objstore.PutFile(ctx, c.o.To, t.key, io.NewSectionReader(t.content, 0, t.size))
	})
	if !errors.Is(err, objstore.ErrExists) {
		return err
	}
	to := newChecker(Options{Store: c.o.To, Shard: c.o.Shard})
	same := false
	err = objstore.Retry(ctx, retryPause, func() error {
		got, err := to.get(ctx, t.key, objstore.Whole)
		if err != nil {
			return err
		}
		defer got.Body.Close()
		if t.memory != nil {
			t.content = bytes.NewReader(t.memory.Bytes())
		}
		same, err = equal(got.Body, io.NewSectionReader(t.content, 0, t.size))
		return corrupt(err)
	})
	if err == nil && !same {
		err = fmt.Errorf("%s: %s holds other bytes: delete it, and run this again", c.o.To, t.key)
	}
	return err
}

// equal reports whether two readers have the same bytes.
func equal(a, b io.Reader) (bool, error) {
	x, y := make([]byte, bodyBuffer), make([]byte, bodyBuffer)
	for {
		n, err := io.ReadFull(a, x)
		if err != nil && !ended(err) {
			return false, err
		}
		m, end := io.ReadFull(b, y)
		if end != nil && !ended(end) {
			return false, end
		}
		if !bytes.Equal(x[:n], y[:m]) {
			return false, nil
		}
		if err != nil {
			return true, nil
		}
	}
}
