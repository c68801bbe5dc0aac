package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
)

// payload is one request's records, made once and sent again and again: pseudo-random, so nothing compresses it.
type payload struct {
	records     int
	bytes       int64
	contentType string
	body        []byte
}

func newPayload(p *benchParams) (*payload, error) {
	data := make([]byte, p.RecordsPerBatch*p.RecordSize)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
	out := &payload{records: p.RecordsPerBatch, bytes: int64(len(data))}
	var err error
	if p.Format == formatRecordBatch {
		records := make([]record.Record, p.RecordsPerBatch)
		for i := range records {
			records[i].Value = data[i*p.RecordSize : (i+1)*p.RecordSize]
		}
		out.body, _, err = record.Append(nil, records, record.EncodeOptions{})
		return out, err
	}
	out.contentType, out.body, err = multipartBody(p.RecordsPerBatch, p.RecordSize, data)
	return out, err
}

// multipartBody is what the original's client sends: the records' sizes as JSON, then their bytes in one piece.
func multipartBody(count, size int, data []byte) (contentType string, body []byte, err error) {
	sizes := make([]int, count)
	for i := range sizes {
		sizes[i] = size
	}
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	part, err := m.CreateFormField("sizes")
	if err != nil {
		return "", nil, err
	}
	if err := json.NewEncoder(part).Encode(sizes); err != nil {
		return "", nil, err
	}
	if part, err = m.CreateFormField("records"); err != nil {
		return "", nil, err
	}
	if _, err := part.Write(data); err != nil {
		return "", nil, err
	}
	if err := m.Close(); err != nil {
		return "", nil, err
	}
	return m.FormDataContentType(), b.Bytes(), nil
}

// writeRequest makes a worker's request that appends the payload.
func (t *benchTarget) writeRequest(pay *payload) request {
	return func(ctx context.Context, _ int) (int64, int64, error) {
		if pay.contentType == "" {
			placed, err := t.client.ProduceBatches(ctx, t.topic, pay.body, client.ProduceOptions{})
			if err == nil && (len(placed) != 1 || placed[0].Count != int64(pay.records)) {
				err = fmt.Errorf("answer counts %v, sent %d records", placed, pay.records)
			}
			return int64(pay.records), pay.bytes, err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost,
			t.url+"/records?"+url.Values{"topic-name": {t.topic}}.Encode(), bytes.NewReader(pay.body))
		if err != nil {
			return 0, 0, err
		}
		req.Header.Set("Content-Type", pay.contentType)
		resp, err := t.do(req, http.StatusCreated)
		if err != nil {
			return 0, 0, err
		}
		defer resp.Body.Close()
		var answer struct{ Offsets []int64 }
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
			return 0, 0, fmt.Errorf("read answer: %w", err)
		}
		if len(answer.Offsets) != pay.records {
			return 0, 0, fmt.Errorf("%d offsets for %d records", len(answer.Offsets), pay.records)
		}
		return int64(pay.records), pay.bytes, nil
	}
}

// do sends req and demands a status.
func (t *benchTarget) do(req *http.Request, want int) (*http.Response, error) {
	req.Header.Set("Authorization", "Bearer "+t.key)
	resp, err := t.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != want {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
		return nil, fmt.Errorf("status %s: %s", resp.Status, bytes.TrimSpace(text))
	}
	return resp, nil
}

// benchRead is what one reading worker asks for, and its buffers.
type benchRead struct {
	target *benchTarget
	count  int // records a request
	size   int // bytes of a record

	perBatch int // records of a batch

	sizes []int
	data  []byte
}

// multipart reads count records from offset the original's way.
func (r *benchRead) multipart(ctx context.Context, offset int64) (int64, int64, error) {
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
	m := multipart.NewReader(resp.Body, params["boundary"])
	part, err := m.NextPart()
	if err != nil {
		return 0, 0, fmt.Errorf("read sizes: %w", err)
	}
	r.sizes = r.sizes[:0]
	if err := json.NewDecoder(part).Decode(&r.sizes); err != nil {
		return 0, 0, fmt.Errorf("read sizes: %w", err)
	}
	if part, err = m.NextPart(); err != nil {
		return 0, 0, fmt.Errorf("read records: %w", err)
	}
	return r.body(part)
}

// body reads the bytes of the records whose sizes are known and compares.
func (r *benchRead) body(part io.Reader) (int64, int64, error) {
	var sum int
	for _, n := range r.sizes {
		if n != r.size {
			return 0, 0, fmt.Errorf("a record of %d bytes, want %d", n, r.size)
		}
		sum += n
	}
	if cap(r.data) < sum+1 {
		r.data = make([]byte, sum+1)
	}
	n, err := io.ReadFull(part, r.data[:sum+1])
	if err != io.ErrUnexpectedEOF || n != sum {
		return 0, 0, fmt.Errorf("read records: %d bytes, sizes add up to %d: %w", n, sum, err)
	}
	if len(r.sizes) != r.count {
		return 0, 0, fmt.Errorf("%d records, asked for %d", len(r.sizes), r.count)
	}
	return int64(r.count), int64(sum), nil
}

// batches reads count records from offset as RecordBatches. Whole batches come: how many bytes to ask for follows from the
// batches that were written, and what is left is asked for again.
func (r *benchRead) batches(ctx context.Context, offset int64) (records, bytes int64, err error) {
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

// recordOverhead is about what a record costs in a batch besides its value.
const recordOverhead = 16

// fetch gives at most want records to take, until that returns false.
func (r *benchRead) fetch(ctx context.Context, offset int64, take func(*record.Record) bool, want int64) error {
	bytes := (int(want) + r.perBatch) * (r.size + recordOverhead)
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
