package s3

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestPartsReader(t *testing.T) {
	parts := [][]byte{nil, []byte("01"), {}, []byte("23456"), []byte("7"), nil, []byte("89"), {}}
	whole := bytes.Join(parts, nil)
	must.NoError(t, iotest.TestReader(newPartsReader(objstore.NewBody(parts...)), whole))
	r := newPartsReader(objstore.NewBody(parts...))
	for offset := range len(whole) + 1 {
		if n, err := r.Seek(int64(offset), io.SeekStart); n != int64(offset) || err != nil {
			t.Fatal(n, err)
		}
		if got, err := io.ReadAll(r); string(got) != string(whole[offset:]) || err != nil {
			t.Fatalf("from %d: %q, %v", offset, got, err)
		}
	}
	for _, offset := range []int64{-1, int64(len(whole)) + 1} {
		must.Error(t, check.Err(r.Seek(offset, io.SeekStart)), "invalid seek succeeded, position %d", offset)
	}
	must.Get(r.Seek(0, io.SeekStart))(t)
	r.detach()
	if n, err := r.Read(make([]byte, 10)); n != 0 || !errors.Is(err, errDetached) {
		t.Fatalf("after detach: %d, %v", n, err)
	}
	if r.parts != nil {
		t.Fatal("the parts are still referenced")
	}
}
