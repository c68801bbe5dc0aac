package benchmark

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"net/url"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
)

// payload is the body of one request, which is sent repeatedly. Its records are pseudo-random, so
// that they do not compress.
type payload struct {
	records     int
	bytes       int64
	contentType string
	body        []byte
	data        []byte // the records' values
}

func newPayload(p *Params) (*payload, error) {
	data := make([]byte, p.RecordsPerBatch*p.RecordSize)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
	out := &payload{records: p.RecordsPerBatch, bytes: int64(len(data)), data: data}
	var err error
	if p.Format == RecordBatch {
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

// multipartBody returns a body like that of the original program's client: the records' sizes as
// JSON, then their bytes.
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

// writeRequest returns a worker's request that appends the payload.
func (t *target) writeRequest(pay *payload) request {
	var a answer
	return func(ctx context.Context, _ int) (int64, int64, error) {
		if pay.contentType == "" {
			placed, err := t.client.ProduceBatches(ctx, t.topic, pay.body, client.ProduceOptions{})
			if err == nil && (len(placed) != 1 || placed[0].Count != int64(pay.records)) {
				err = fmt.Errorf("answer has counts %v, want %d records", placed, pay.records)
			}
			return int64(pay.records), pay.bytes, err
		}
		resp, err := t.post(ctx, pay)
		if err != nil {
			return 0, 0, err
		}
		defer resp.Body.Close()
		n, err := a.offsets(resp.Body)
		if err != nil {
			return 0, 0, err
		}
		if n != pay.records {
			return 0, 0, fmt.Errorf("%d offsets for %d records", n, pay.records)
		}
		return int64(pay.records), pay.bytes, nil
	}
}

// post sends the payload.
func (t *target) post(ctx context.Context, pay *payload) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		t.url+"/records?"+url.Values{"topic-name": {t.topic}}.Encode(), bytes.NewReader(pay.body))
	if err != nil {
		return nil, err
	}
	if pay.contentType != "" {
		req.Header.Set("Content-Type", pay.contentType)
	}
	return t.do(req, http.StatusCreated)
}
