package record_test

import (
	"bytes"
	"errors"
	"runtime"
	"testing"

	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/recordtest"
)

// TestDecompressedSize: the size is exactly the limit that a Reader needs, for every codec.
// Counting does not allocate the size, and a Reader with that limit allocates it once.
func TestDecompressedSize(t *testing.T) {
	value := bytes.Repeat([]byte("seb "), 1<<20)
	plain := int64(len(recordtest.HostileBatch(record.None, value)) - record.BatchHeadSize)
	for codec := record.None; codec <= record.Zstd; codec++ {
		t.Run(codec.String(), func(t *testing.T) {
			b := record.Batch(recordtest.HostileBatch(codec, value))
			if n, err := b.DecompressedSize(plain); n != plain || err != nil {
				t.Fatalf("%d, %v: want %d", n, err, plain)
			}
			if codec == record.None {
				return
			}
			check.ErrorIsf(t, check.Err(b.DecompressedSize(plain-1)), record.ErrTooLarge, "a byte less")
			check.ErrorIsf(t, check.Err(record.Batch(b[:len(b)-1]).DecompressedSize(plain)), record.ErrCorrupt, "cut short")
			own := codec != record.Gzip // blocks and windows, which can be as large as the records
			if n := allocated(func() { _, _ = b.DecompressedSize(plain) }); n > 1<<20 && !own {
				t.Errorf("%d bytes allocated for the size", n)
			}
			r := record.Reader{Limits: record.Limits{DecompressedBytes: plain, Ratio: 1 << 20}}
			n := allocated(func() {
				r.SetBuffer(make([]byte, 0, plain+1))
				r.Reset(b, 0)
				if !r.Next() || !bytes.Equal(r.Record().Value, value) || r.Next() || r.Err() != nil {
					t.Error("wrong record", r.Err())
				}
			})
			if n > uint64(plain)+1<<20 && !own {
				t.Errorf("%d bytes allocated for %d", n, plain)
			}
			r.Limits.DecompressedBytes = plain - 1
			if r.Reset(b, 0); r.Next() || !errors.Is(r.Err(), record.ErrTooLarge) {
				t.Errorf("a byte less: %v", r.Err())
			}
		})
	}
}

// allocated returns the bytes that the second call of do allocates, because decoders are pooled.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	do()
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
