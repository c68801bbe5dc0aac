package compact

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestCopyFile copies within one file system and, where possible, across two, from files that are
// long enough and too short.
func TestCopyFile(t *testing.T) {
	source := make([]byte, 3<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(source)
	from := writeTemp(t, t.TempDir(), source)
	folders := map[string]string{"the same": t.TempDir()}
	if memory, err := os.MkdirTemp("/dev/shm", "copy-"); err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(memory) })
		folders["memory"] = memory
	}
	for name, dir := range folders {
		for how, copied := range map[string]func(*os.File, int64, *os.File, int64, int64) error{"kernel": copyFile, "bytes": copyBytes} {
			t.Run(name+"/"+how, func(t *testing.T) {
				to := writeTemp(t, dir, []byte("0123456789"))
				for _, c := range []struct{ at, pos, n int64 }{{5, 7, 2 << 20}, {0, 1, 3}, {8 << 20, 0, 1}, {3, 0, 0}} {
					must.NoErrorf(t, copied(to, c.at, from, c.pos, c.n), "%+v", c)
					got := make([]byte, c.n)
					if _, err := to.ReadAt(got, c.at); err != nil || !bytes.Equal(got, source[c.pos:c.pos+c.n]) {
						t.Errorf("%+v: other bytes, %v", c, err)
					}
				}
				check.ErrorIsf(t, copied(to, 0, from, int64(len(source))-5, 6), io.ErrUnexpectedEOF, "source too short")
				closed := writeTemp(t, dir, nil)
				_ = closed.Close()
				check.ErrorIsf(t, copied(closed, 0, from, 0, 1), os.ErrClosed, "closed destination")
			})
		}
	}
}

func writeTemp(t *testing.T, dir string, content []byte) *os.File {
	t.Helper()
	f := must.Get(os.CreateTemp(dir, "f"))(t)
	t.Cleanup(func() { _ = f.Close() })
	must.Get(f.Write(content))(t)
	return f
}
