package objstore

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestMemoryBodyOutlivesItsObject checks that an object deleted during a read can be read to its
// end, but not after Close.
func TestMemoryBodyOutlivesItsObject(t *testing.T) {
	m := NewMemory()
	value := bytes.Repeat([]byte{3, 1, 2}, 1<<20)
	must.NoError(t, m.Put(t.Context(), "a", NewBody(value[:7], value[7:])))
	o := must.Get(m.Get(t.Context(), "a", Whole))(t)
	must.NoError(t, m.Delete(t.Context(), "a", "none"))
	if got, err := io.ReadAll(o.Body); err != nil || !bytes.Equal(got, value) {
		t.Errorf("%d bytes of an object deleted while it was read, %v", len(got), err)
	}
	for range 2 {
		check.NoError(t, o.Body.Close())
	}
	if n, err := o.Body.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed body gives %d bytes, %v", n, err)
	}
	if n, err := o.Body.(io.WriterTo).WriteTo(io.Discard); n != 0 || !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed body writes %d bytes, %v", n, err)
	}
}
