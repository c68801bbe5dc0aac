package benchmark

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"strconv"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/protocols/encoding"
	"github.com/sebbroker/seb/record"
)

// reader has the parameters and the buffers of one reading worker.
type reader struct {
	target *target
	count  int // records per request
	size   int // bytes per record

	in    *bufio.Reader
	sizes encoding.Sizes
	data  []byte
}

// multipart reads count records from offset in the original program's format.
func (r *reader) multipart(ctx context.Context, offset int64) (int64, int64, error) {
	q := url.Values{
		"topic-name": {r.target.topic}, "offset": {strconv.FormatInt(offset, 10)},
		"max-records": {strconv.Itoa(r.count)}, "timeout": {"10s"},
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.target.url+"/records?"+q.Encode(), nil)
	if err != nil {
		return 0, 0, err
	}
	req.Header.Set("Accept", "multipart/form-data")
	resp, err := r.target.do(req, http.StatusOK)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	_, params, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return 0, 0, fmt.Errorf("read answer: %w", err)
	}
	boundary := params["boundary"]
	if problem := encoding.CheckBoundary(boundary); problem != nil {
		return 0, 0, fmt.Errorf("read answer: %w", problem)
	}
	r.in.Reset(resp.Body)
	m := encoding.NewMultipartReader(r.in, boundary)
	r.sizes.Reset(r.count, nil)
	if err := m.ReadSizes(&r.sizes); err != nil {
		return 0, 0, fmt.Errorf("read sizes: %w", err)
	}
	for _, n := range r.sizes.Lengths {
		if int(n) != r.size {
			return 0, 0, fmt.Errorf("a record of %d bytes, want %d", n, r.size)
		}
	}
	if r.sizes.Count != int64(r.count) {
		return 0, 0, fmt.Errorf("%d records, want %d", r.sizes.Count, r.count)
	}
	if err := r.values(m.R, r.sizes.Sum); err != nil {
		return 0, 0, err
	}
	return int64(r.count), r.sizes.Sum, m.End(r.sizes.Sum)
}

// values reads n bytes of records.
func (r *reader) values(in io.Reader, n int64) error {
	if int64(cap(r.data)) < n {
		r.data = make([]byte, n)
	}
	if got, err := io.ReadFull(in, r.data[:n]); err != nil {
		return fmt.Errorf("read records: %d bytes of %d: %w", got, n, err)
	}
	return nil
}

// batches reads count records from offset, the start of a batch, as RecordBatches. Answers have
// whole batches, so the remaining records are requested again.
func (r *reader) batches(ctx context.Context, offset int64) (records, bytes int64, err error) {
	for records < int64(r.count) {
		before := records
		err := r.fetch(ctx, offset+records, func(rec *record.Record) bool {
			if rec.Offset != offset+records || len(rec.Value) != r.size {
				return false
			}
			records++
			bytes += int64(len(rec.Value))
			return true
		}, int64(r.count)-records)
		if err != nil {
			return 0, 0, err
		}
		if records == before {
			return 0, 0, fmt.Errorf("no record of %d bytes at offset %d", r.size, offset+records)
		}
	}
	return records, bytes, nil
}

// recordOverhead is the approximate size of a record in a batch without its value.
const recordOverhead = 16

// fetch passes at most want records to take, until take returns false.
func (r *reader) fetch(ctx context.Context, offset int64, take func(*record.Record) bool, want int64) error {
	bytes := int(want) * (r.size + recordOverhead)
	f, err := r.target.client.Fetch(ctx, r.target.topic, client.FetchOptions{Offset: offset, MaxBytes: bytes})
	if err != nil {
		return err
	}
	defer f.Close()
	for rec, err := range f.All() {
		if err != nil {
			return err
		}
		if !take(rec) {
			return nil
		}
		if want--; want == 0 {
			return nil
		}
	}
	return nil
}

// recentMean is the mean distance from the end with Recent, as a fraction of the topic.
const recentMean = 0.02

// offset returns the offset of read number i, a multiple of step below starts. It is the same in
// every run with the same parameters.
func (r *ReadParams) offset(i int, starts, step int64) int64 {
	rng := rand.New(rand.NewPCG(uint64(i), 1))
	at := int64(0)
	if r.Skew == Uniform {
		at = rng.Int64N(starts)
	} else {
		back := int64(rng.ExpFloat64() * recentMean * float64(starts))
		at = max(0, starts-1-back)
	}
	return at / step * step
}
