package httpapi

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/recordtest"
	"github.com/sebbroker/seb/test/sebtest"
)

// bombs are bodies of RecordBatches that claim to be, or become, much larger than they are.
func bombs() map[string][]byte {
	zeros := make([]byte, sebtest.Runs(96, 40)<<20)
	small := recordtest.HostileBatch(record.None, []byte("v"))
	of := func(codec record.Compression, records []byte) []byte {
		return recordtest.HostileWrap(small, codec, records)
	}
	all := map[string][]byte{}
	for codec := record.Gzip; codec <= record.Zstd; codec += record.Compression(sebtest.Runs(1, 3)) { // -short: gzip and Zstd
		n := len(zeros)
		if codec == record.Snappy {
			n = 16 << 20 // the best ratio is 21 to 1, and a batch has a limit of its own
		}
		all[codec.String()+", all in one record"] = recordtest.HostileBatch(codec, zeros[:n])
		all[codec.String()+", where no record is"] = of(codec, recordtest.HostileCompress(codec, zeros[:n]))
		// Each batch is allowed, but not all of them.
		all[codec.String()+", in many batches"] = bytes.Repeat(recordtest.HostileBatch(codec, zeros[:900<<10]), 40)
		all[codec.String()+", cut off"] = of(codec, recordtest.HostileCompress(codec, zeros[:1<<20])[:40])
		all[codec.String()+", something behind it"] = of(codec, append(recordtest.HostileCompress(codec, small[record.BatchHeadSize:]), "more"...))
		all[codec.String()+", twice"] = of(codec, bytes.Repeat(recordtest.HostileCompress(codec, small[record.BatchHeadSize:]), 2))
		all[codec.String()+", nothing"] = of(codec, nil)
	}
	all["zstd with a window of 64 MiB"] = of(record.Zstd, recordtest.HostileZstd(small[record.BatchHeadSize:], 64<<20))
	all["zstd whose second frame has a larger window"] = of(record.Zstd,
		append(recordtest.HostileZstd(small[record.BatchHeadSize:], 1<<10), recordtest.HostileZstd(zeros[:1<<20], 8<<20)...))
	all["zstd of frames to be skipped"] = of(record.Zstd, bytes.Repeat([]byte{0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4}, 1000))
	all["zstd that says 2^62 bytes"] = of(record.Zstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0x40, 1, 0, 0})
	all["snappy that says 4 GiB"] = of(record.Snappy, []byte("\xff\xff\xff\xff\x0f\x00a"))
	all["xerial chunk of 4 GiB"] = of(record.Snappy, []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\xff\xff\xff\xffabc"))
	all["gzip with a name without end"] = of(record.Gzip, append([]byte{0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 0xff}, bytes.Repeat([]byte("a"), 900<<10)...))
	count := slices.Clone(small)
	const lastDelta, records = 23, 57
	binary.BigEndian.PutUint32(count[lastDelta:], 1<<31-2)
	binary.BigEndian.PutUint32(count[records:], 1<<31-1)
	all["2^31-1 records"] = recordtest.HostileWrap(count, record.None, count[record.BatchHeadSize:])
	all["2^31-1 records, gzip"] = recordtest.HostileWrap(count, record.Gzip, recordtest.HostileCompress(record.Gzip, zeros[:1<<20]))
	all["a record of 2^62 bytes"] = of(record.None, append(binary.AppendVarint(nil, 1<<62), "abc"...))
	all["a record of 2^62 bytes, gzip"] = of(record.Gzip, recordtest.HostileCompress(record.Gzip, append(binary.AppendVarint(nil, 1<<62), "abc"...)))
	length := slices.Clone(small)
	binary.BigEndian.PutUint32(length[8:], 1<<31-1)
	all["a batch of 2^31-1 bytes"] = length
	return all
}

// TestDecompressionBombs checks that an oversized body, real or claimed, gives a client error,
// costs little memory and leaves none reserved. test/pressure does the same to a process with
// little memory and many clients.
func TestDecompressionBombs(t *testing.T) {
	most := uint64(sebtest.Runs(64, 24)) << 20 // allocations of one request, including the client
	s := start(t, func(c *setup) { c.limit = int64(most) })
	for name, body := range bombs() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		a := s.post("topic-name=t", api.RecordBatch, string(body))
		runtime.ReadMemStats(&after)
		if a.status != http.StatusBadRequest && a.status != http.StatusRequestEntityTooLarge {
			t.Errorf("%s, %d bytes: %s", name, len(body), a)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > most {
			t.Errorf("%s, %d bytes: %d bytes were allocated", name, len(body), n)
		}
	}
	if a := s.get("/topics"); string(a.body) != `{"topics":[]}` {
		t.Errorf("%s", a)
	}
	s.mustPost("topic-name=t", api.RecordBatch, string(recordtest.HostileBatch(record.Zstd, make([]byte, 900<<10))))
}

// TestNoContentEncoding checks that no route decompresses a whole body.
func TestNoContentEncoding(t *testing.T) {
	s := start(t)
	mp, kind := form("a")
	bodies := map[string]string{
		kind: mp, api.OctetStream: "a", api.TextPlain: "a", api.NDJSON: `{"value":"a"}`, api.JSON: `[{"value":"a"}]`,
		api.RecordBatch: string(recordtest.HostileBatch(record.None, []byte("a"))),
	}
	for _, encoding := range []string{"gzip", "x-gzip", "deflate", "br", "zstd", "identity, gzip", "GZIP"} {
		for kind, plain := range bodies {
			for _, target := range []string{"POST /records?topic-name=t", "PUT /topic?topic-name=t", "PUT /offsets?group=g&topic-name=t&partition=0"} {
				method, path, _ := strings.Cut(target, " ")
				packed := recordtest.HostileCompress(record.Gzip, []byte(plain))
				a := s.do(call{
					method: method, path: path, body: bytes.NewReader(packed),
					header: map[string]string{"Content-Type": kind, "Content-Encoding": encoding, "Accept": "*/*"},
				})
				want := http.StatusUnsupportedMediaType
				if method == "PUT" {
					want = http.StatusBadRequest // not valid JSON
				}
				if a.status != want {
					t.Errorf("%s, %s in %s: %s, want %d", target, kind, encoding, a, want)
				}
			}
		}
	}
}
