package broker

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/sebbroker/seb/internal/budget"
)

// memory is a chunk's memory: a reserved buffer, or an open file. It counts its users.
type memory struct {
	buf     []byte
	res     *budget.Reservation
	buffers *budget.Buffers
	file    io.Closer
	refs    atomic.Int32
}

func newMemory(file io.Closer) *memory {
	m := &memory{file: file}
	m.refs.Store(1)
	return m
}

// reserve returns a buffer of want bytes. If the budget has less, it halves want down to least.
func (r *Reader) reserve(want, least int64) (*memory, error) {
	class := r.opt.Budget.Class(budget.Fetch)
	for {
		res, err := class.Reserve(int64(budget.SizeFor(int(want))))
		if err == nil {
			m := &memory{buf: r.opt.Budget.Buffers().Get(int(want)), res: res, buffers: r.opt.Budget.Buffers()}
			m.refs.Store(1)
			return m, nil
		}
		if want == least {
			if _, ok := errors.AsType[*budget.OverError](err); ok {
				err = fmt.Errorf("%w: %w", ErrOverBudget, err)
			}
			return nil, err
		}
		want = max(want/2, least)
	}
}

func (m *memory) retain(n int) { m.refs.Add(int32(n)) }

// release drops one use. The last one frees the buffer or closes the file.
func (m *memory) release() {
	if m.refs.Add(-1) > 0 {
		return
	}
	if m.file != nil {
		m.file.Close()
		return
	}
	m.buffers.Put(m.buf)
	m.res.Release()
}
