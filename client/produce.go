package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/record"
)

// ProduceOptions select the partition of records.
type ProduceOptions struct {
	// Partition receives all records. If it is nil, a record with a key goes to the partition of
	// the key's hash, as in Kafka's Java client, and others go to partition 0.
	Partition *int32
	// ExpectedOffset, if not nil, is a condition: the broker refuses the records unless the first
	// one gets this offset (ErrOffsetMismatch).
	ExpectedOffset *int64
}

// ProduceResult is the position of the records of one partition, in the given order.
type ProduceResult struct {
	Partition int32
	First     int64 // offset of the first record, -1 if none was stored
	Count     int64
	Code      string // "": durable; in Error.Results the reason why the records are not stored
}

// Produce appends records to a topic and returns once they are durable, with their positions per
// partition. It ignores the Offset of records; a Timestamp of 0 means now. It does not use the
// records after it has returned.
func (c *Client) Produce(ctx context.Context, topic string, records []record.Record, o ProduceOptions) ([]ProduceResult, error) {
	if o.Partition == nil && anyKey(records) {
		return c.produceByKey(ctx, topic, records, o)
	}
	body, err := encodeBatches(records)
	if err != nil {
		return nil, rejected(err)
	}
	return c.ProduceBatches(ctx, topic, body, o)
}

// rejected returns the error for a request that was never sent.
func rejected(err error) *Error {
	return &Error{Outcome: OutcomeRejected, NextOffset: -1, Start: -1, Committed: -1, Err: err}
}

// ProduceValues appends records without keys and headers.
func (c *Client) ProduceValues(ctx context.Context, topic string, values [][]byte, o ProduceOptions) ([]ProduceResult, error) {
	records := make([]record.Record, len(values))
	for i, v := range values {
		records[i].Value = v
	}
	return c.Produce(ctx, topic, records, o)
}

// ProduceBatches appends one or more concatenated Kafka RecordBatch v2, such as record.Append
// returns, to one partition (0 if o names none). It is the fastest way to produce, because only the
// base offsets change. It does not use batches after it has returned.
func (c *Client) ProduceBatches(ctx context.Context, topic string, batches []byte, o ProduceOptions) ([]ProduceResult, error) {
	if o.Partition == nil {
		o.Partition = new(int32(0))
	}
	r := &request{header: map[string]string{"Content-Type": api.RecordBatch}, body: batches}
	span, own, ok := batchesSpan(batches)
	if c.producers == nil || !ok {
		r.idempotent = own
		return c.post(ctx, topic, r, span, o)
	}
	r.idempotent, r.bounded = true, true
	if own {
		return c.post(ctx, topic, r, span, o)
	}
	to := partitionName{topic, *o.Partition}
	p := c.producers.take(to)
	defer c.producers.give(to, p)
	p.header(r.header)
	produced, err := c.post(ctx, topic, r, span, o)
	p.settle(err, span)
	return produced, err
}

// post sends a produce of the given number of records (0: unknown). The header of r has the media
// type of the body.
func (c *Client) post(ctx context.Context, topic string, r *request, records int64, o ProduceOptions) (list []ProduceResult, err error) {
	q := url.Values{"topic-name": {topic}}
	if o.Partition != nil {
		q.Set("partition", strconv.Itoa(int(*o.Partition)))
	}
	if o.ExpectedOffset != nil {
		q.Set("expected-offset", strconv.FormatInt(*o.ExpectedOffset, 10))
		// The end offset only grows. If it is beyond the expected offset, no earlier attempt can
		// succeed any more, and one that did would have been recognized.
		r.settled = func(e *Error) bool {
			return e.Code == string(api.OffsetMismatch) && e.NextOffset > *o.ExpectedOffset
		}
	}
	r.method, r.path, r.query, r.write = http.MethodPost, "/records", q, true
	// For the caller, an answer with a 2xx status that is incomplete or invalid counts as no
	// answer.
	err = c.ask(ctx, r, func(resp *http.Response) error {
		var p api.Produced
		if err := json.NewDecoder(resp.Body).Decode(&p); err != nil {
			return err
		}
		list, err = acknowledged(&p, records)
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// acknowledged returns the positions of the records. It returns an error unless the answer covers
// all of them.
func acknowledged(p *api.Produced, records int64) ([]ProduceResult, error) {
	list := produced(p.Results)
	if p.Partition != nil && p.FirstOffset != nil {
		list = []ProduceResult{{Partition: *p.Partition, First: *p.FirstOffset, Count: p.Count}}
	}
	sum := int64(0)
	for _, at := range list {
		if at.Code != "" || at.First < 0 || at.Count < 1 || at.Partition < 0 {
			return nil, fmt.Errorf("%w: %d records of partition %d at offset %d", errNotBroker, at.Count, at.Partition, at.First)
		}
		sum += at.Count
	}
	if sum == 0 || records > 0 && sum != records {
		return nil, fmt.Errorf("%w: %d of %d records acknowledged", errNotBroker, sum, records)
	}
	return list, nil
}

func produced(results []api.PartitionResult) []ProduceResult {
	var list []ProduceResult
	for _, r := range results {
		p := ProduceResult{Partition: r.Partition, First: -1, Count: r.Count, Code: string(r.Code)}
		if r.FirstOffset != nil {
			p.First = *r.FirstOffset
		}
		list = append(list, p)
	}
	return list
}

// encodeBatches returns batches with the records. A Timestamp of 0 becomes the current time.
func encodeBatches(records []record.Record) ([]byte, error) {
	now := time.Now().UnixMilli()
	for i := range records {
		if records[i].Timestamp == 0 {
			stamped := slices.Clone(records)
			for j := i; j < len(stamped); j++ {
				if stamped[j].Timestamp == 0 {
					stamped[j].Timestamp = now
				}
			}
			records = stamped
			break
		}
	}
	body, _, err := record.Append(nil, records, record.EncodeOptions{})
	return body, err
}

func anyKey(records []record.Record) bool {
	for i := range records {
		if records[i].Key != nil {
			return true
		}
	}
	return false
}

// lineRecord is a record in the JSON form of POST /records.
type lineRecord struct {
	Key       *string `json:"key,omitempty"`
	KeyBase64 *string `json:"key_base64,omitempty"`
	// a string or jsonNull; absent with value_base64
	Value       any          `json:"value,omitempty"`
	ValueBase64 *string      `json:"value_base64,omitempty"`
	Headers     []lineHeader `json:"headers,omitempty"`
	Timestamp   int64        `json:"timestamp,omitempty"`
}

type lineHeader struct {
	Key         string  `json:"key"`
	Value       *string `json:"value,omitempty"`
	ValueBase64 *string `json:"value_base64,omitempty"`
}

var jsonNull = json.RawMessage("null")

func lineOf(r *record.Record) lineRecord {
	line := lineRecord{Timestamp: r.Timestamp}
	line.Key, line.KeyBase64 = api.TextOrBase64(r.Key)
	switch text, b64 := api.TextOrBase64(r.Value); {
	case b64 != nil:
		line.ValueBase64 = b64
	case text != nil:
		line.Value = *text
	default:
		line.Value = jsonNull
	}
	for _, h := range r.Headers {
		text, b64 := api.TextOrBase64(h.Value)
		line.Headers = append(line.Headers, lineHeader{Key: h.Key, Value: text, ValueBase64: b64})
	}
	return line
}

func encodeJSONLines(records []record.Record) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for i := range records {
		line := lineOf(&records[i])
		if err := enc.Encode(&line); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// sentBody is a request body that records whether the transport has read all of it. Until the last
// byte is read the broker cannot have acted on the request, because it reads a body of announced
// length to the end first. After detach no goroutine accesses the data, even if the transport reads
// late.
type sentBody struct {
	data []byte

	mu       sync.Mutex // guards detached and whole
	detached bool
	whole    bool
}

// smallBytes is the size up to which a body is copied, so that net/http knows that it is in memory and
// sends it in one packet with the head.
const smallBytes = 64 << 10

// attach returns req with s as its body.
func (s *sentBody) attach(req *http.Request) *http.Request {
	if len(s.data) == 0 {
		if req.Method == http.MethodGet {
			return req
		}
		return s.watch(req)
	}
	req.ContentLength = int64(len(s.data))
	if len(s.data) <= smallBytes {
		data := bytes.Clone(s.data)
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
		req.Body, _ = req.GetBody()
		return s.watch(req)
	}
	req.Body = &bodyReader{s: s}
	req.GetBody = func() (io.ReadCloser, error) { return &bodyReader{s: s}, nil }
	return req
}

// watch notes when there is a connection. From then on all of a small request may have been sent.
func (s *sentBody) watch(req *http.Request) *http.Request {
	return req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		s.mu.Lock()
		s.whole = true
		s.mu.Unlock()
	}}))
}

// detach ends all access to the data and reports whether all of it may have been sent.
func (s *sentBody) detach() (whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detached = true
	return s.whole
}

// bodyReader reads a sentBody once. The transport opens another one if a pooled connection was
// closed before it wrote to it.
type bodyReader struct {
	s   *sentBody
	pos int
}

func (r *bodyReader) Read(p []byte) (int, error) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.s.detached {
		return 0, errDetached
	}
	if r.pos == len(r.s.data) {
		return 0, io.EOF
	}
	n := copy(p, r.s.data[r.pos:])
	r.pos += n
	if r.pos == len(r.s.data) {
		r.s.whole = true
	}
	return n, nil
}

func (r *bodyReader) Close() error { return nil }

var errDetached = errors.New("request has ended")
