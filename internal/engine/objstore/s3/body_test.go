package s3

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"strconv"
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
		must.Get(r.Seek(int64(offset), io.SeekStart))(t)
		var copied bytes.Buffer
		if n, err := r.WriteTo(&copied); int(n) != len(whole)-offset || copied.String() != string(whole[offset:]) || err != nil {
			t.Fatalf("copied from %d: %d, %q, %v", offset, n, &copied, err)
		}
		must.Get(r.Seek(int64(offset), io.SeekStart))(t)
		sum := sha256.New()
		if n, err := r.WriteTo(sum); int(n) != len(whole)-offset || [32]byte(sum.Sum(nil)) != sha256.Sum256(whole[offset:]) || err != nil {
			t.Fatalf("hash from %d: %d bytes, %v", offset, n, err)
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
	if n, err := r.WriteTo(sha256.New()); n != 0 || !errors.Is(err, errDetached) {
		t.Fatalf("hash after detach: %d, %v", n, err)
	}
	if r.parts != nil {
		t.Fatal("the parts are still referenced")
	}
}

// BenchmarkPut puts objects of the size of a commit and of a pack. The server is in the same process.
func BenchmarkPut(b *testing.B) {
	for _, size := range []int{27_000, 16 << 20} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			s := answering(b, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("ETag", `"x"`)
			})
			body := objstore.NewBody(make([]byte, size))
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				must.NoError(b, s.Put(b.Context(), "k", body))
			}
		})
	}
}

// A part that is larger than a step of the hash is hashed completely.
func TestHashOfLargeParts(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789"), 20_000)
	r := newPartsReader(objstore.NewBody(large[:3], large[3:150_000], nil, large[150_000:]))
	sum := sha256.New()
	if n, err := r.WriteTo(sum); int(n) != len(large) || [32]byte(sum.Sum(nil)) != sha256.Sum256(large) || err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
}
