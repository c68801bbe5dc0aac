package codec

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/pierrec/lz4/v4"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func lz4Frame(t testing.TB, content []byte, options ...lz4.Option) []byte {
	t.Helper()
	var b bytes.Buffer
	w := lz4.NewWriter(&b)
	must.NoError(t, w.Apply(options...))
	_ = must.Get(w.Write(content))(t)
	must.NoError(t, w.Close())
	return b.Bytes()
}

// inflate reads all of src through an Inflater, in reads of different sizes.
func inflate(src []byte, limit int64) ([]byte, error) {
	f, err := Open(LZ4, src, limit)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []byte
	for n := 1; ; n = n*3%70001 + 1 {
		buf := make([]byte, n)
		k, err := f.Read(buf)
		out = append(out, buf[:k]...)
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
	}
}

// TestLZ4Frames: frames of every size of block, with and without checksums and sizes, several in a
// row, and with skipped ones, give what the library reads.
func TestLZ4Frames(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []lz4.BlockSize{lz4.Block64Kb, lz4.Block256Kb, lz4.Block1Mb, lz4.Block4Mb} {
		for _, n := range []int{0, 1, 15, 16, 17, 1000, 64 << 10, 64<<10 + 1, 300_000, 5 << 20} {
			content := make([]byte, n)
			for i := range content {
				if content[i] = byte(r.IntN(4)); n == 1000 || n == 300_000 {
					content[i] = byte(r.IntN(256)) // cannot be compressed
				}
			}
			for set := range 8 {
				options := []lz4.Option{lz4.BlockSizeOption(size), lz4.ChecksumOption(set&1 != 0), lz4.BlockChecksumOption(set&2 != 0)}
				if set&4 != 0 {
					options = append(options, lz4.SizeOption(uint64(n)))
				}
				one := lz4Frame(t, content, options...)
				got := must.Get(inflate(one, int64(n)))(t)
				if !bytes.Equal(got, content) {
					t.Fatalf("%v, %d bytes, options %d: other content", size, n, set)
				}
				if set != 3 || n > 300_000 {
					continue
				}
				skipped := binary.LittleEndian.AppendUint32([]byte{0x57, 0x2a, 0x4d, 0x18}, 3)
				row := bytes.Join([][]byte{one, append(skipped, "abc"...), one}, nil)
				got = must.Get(inflate(row, int64(2*n)))(t)
				if !bytes.Equal(got, append(content, content...)) {
					t.Fatalf("%v, two frames of %d bytes: other content", size, n)
				}
			}
		}
	}
}

// dependent is a frame whose second block refers to bytes of the first.
var dependent = func() []byte {
	head := []byte{0x04, 0x22, 0x4d, 0x18, 0x40, 0x40}
	var h xxh32
	h.reset()
	h.write(head[4:])
	first := []byte("\x80abcdefgh")            // 8 literals
	second := []byte("\x1a!\x08\x00\x50vwxyz") // a literal, 14 bytes from 8 before, 5 literals
	b := append(head, byte(h.sum()>>8))        //nolint:gocritic // a new slice
	b = binary.LittleEndian.AppendUint32(b, uint32(len(first)))
	b = append(b, first...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(second)))
	b = append(b, second...)
	return append(b, 0, 0, 0, 0)
}()

func TestLZ4DependentBlocks(t *testing.T) {
	want := must.Get(io.ReadAll(lz4.NewReader(bytes.NewReader(dependent))))(t)
	got := must.Get(inflate(dependent, 1000))(t)
	check.Equal(t, string(got), string(want))
	check.Equal(t, len(got), 8+1+14+5)
}

// TestLZ4LargerFrameLater: memory was reserved for the blocks of the first frame.
func TestLZ4LargerFrameLater(t *testing.T) {
	small, large := lz4Frame(t, []byte("a"), lz4.BlockSizeOption(lz4.Block64Kb)), lz4Frame(t, []byte("b"), lz4.BlockSizeOption(lz4.Block4Mb))
	_, err := inflate(append(small, large...), 10)
	check.ErrorIs(t, err, errLZ4Frame)
	_, err = inflate(append(large, small...), 10)
	check.NoError(t, err)
}

// FuzzLZ4 compares what frames decompress to with the library's reader. Of what it accepts, only a
// frame after one of smaller blocks is refused.
func FuzzLZ4(f *testing.F) {
	for _, content := range []string{"", "a", "0123456789abcdef0123456789abcdef0123456789"} {
		f.Add(lz4Frame(f, []byte(content)))
		f.Add(lz4Frame(f, []byte(content), lz4.ChecksumOption(true), lz4.BlockChecksumOption(true), lz4.SizeOption(uint64(len(content))), lz4.BlockSizeOption(lz4.Block64Kb)))
	}
	f.Add(dependent)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 4 || binary.LittleEndian.Uint32(b) != lz4Magic {
			return
		}
		const limit = 1 << 20
		want, wantErr := io.ReadAll(io.LimitReader(lz4.NewReader(bytes.NewReader(b)), limit+1))
		got, err := inflate(b, limit)
		if len(want) > limit {
			check.ErrorIs(t, err, ErrLimit)
			return
		}
		if wantErr == nil && err != nil && !(err == errLZ4Frame && bytes.Count(b, b[:4]) > 1) {
			t.Fatalf("refused: %v", err)
		}
		if wantErr != nil && err == nil {
			t.Fatalf("accepted, the library: %v", wantErr)
		}
		if err == nil && !bytes.Equal(got, want) {
			t.Fatalf("%d bytes, want %d", len(got), len(want))
		}
	})
}
