package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/record"
)

// ProduceOptions say where records go.
type ProduceOptions struct {
	// Partition that all records go to. nil: records with a key go to the partition of their key's hash, as Kafka's Java
	// client has it, others to partition 0.
	Partition *int32
	// ExpectedOffset, if not nil, refuses the records unless the first gets this offset (ErrOffsetMismatch).
	ExpectedOffset *int64
}

// Placed is where the records of one partition are, in the order in which they were given.
type Placed struct {
	Partition int32
	First     int64 // offset of the first record, -1 if it has none
	Count     int64
	Code      string // "" means durable; in an Error.Results: why these records are not
}

// Produce appends records to a topic and returns once they are durable, with the place of each partition's records.
// Offsets of records are ignored; a Timestamp of 0 means now. The records are not touched after it returned.
func (c *Client) Produce(ctx context.Context, topic string, records []record.Record, o ProduceOptions) ([]Placed, error) {
	if o.Partition == nil && anyKey(records) {
		return c.spread(ctx, topic, records, o)
	}
	body, err := encodeBatches(records)
	if err != nil {
		return nil, rejected(err)
	}
	return c.ProduceBatches(ctx, topic, body, o)
}

// rejected is the error of what was never sent.
func rejected(err error) *Error {
	return &Error{Outcome: OutcomeRejected, NextOffset: -1, Start: -1, Committed: -1, Err: err}
}

// ProduceValues appends records that have nothing but a value.
func (c *Client) ProduceValues(ctx context.Context, topic string, values [][]byte, o ProduceOptions) ([]Placed, error) {
	records := make([]record.Record, len(values))
	for i, v := range values {
		records[i].Value = v
	}
	return c.Produce(ctx, topic, records, o)
}

// ProduceBatches appends one or more concatenated Kafka RecordBatch v2, such as record.Append makes, to one partition
// (0 if o names none). They are stored as they are, their base offsets aside: the fast way. batches is not touched after
// it returned.
func (c *Client) ProduceBatches(ctx context.Context, topic string, batches []byte, o ProduceOptions) ([]Placed, error) {
	if o.Partition == nil {
		o.Partition = new(int32(0))
	}
	r := &request{header: map[string]string{"Content-Type": api.RecordBatch}, body: batches}
	span, own, ok := batchesSpan(batches)
	if c.lanes == nil || !ok {
		r.harmless = own
		return c.post(ctx, topic, r, span, o)
	}
	r.harmless = true
	if own {
		return c.post(ctx, topic, r, span, o)
	}
	to := partitionOf{topic, *o.Partition}
	l := c.lanes.take(to)
	defer c.lanes.give(to, l)
	l.header(r.header)
	placed, err := c.post(ctx, topic, r, span, o)
	l.settle(err, span)
	return placed, err
}

// post sends a produce of so many records (0: not known) whose header says what its body is.
func (c *Client) post(ctx context.Context, topic string, r *request, records int64, o ProduceOptions) (list []Placed, err error) {
	q := url.Values{"topic-name": {topic}}
	if o.Partition != nil {
		q.Set("partition", strconv.Itoa(int(*o.Partition)))
	}
	if o.ExpectedOffset != nil {
		q.Set("expected-offset", strconv.FormatInt(*o.ExpectedOffset, 10))
		// The end only grows: an earlier attempt that found it where it should be would have been recognised.
		r.settled = func(e *Error) bool {
			return e.Code == string(api.OffsetMismatch) && e.NextOffset > *o.ExpectedOffset
		}
	}
	r.method, r.path, r.query, r.write = http.MethodPost, "/records", q, true
	// An answer that says 2xx and breaks off, or acknowledges something else, is for the caller the same as none.
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

// acknowledged is where the records are, if the answer says so of all of them.
func acknowledged(p *api.Produced, records int64) ([]Placed, error) {
	list := placed(p.Results)
	if p.Partition != nil && p.FirstOffset != nil {
		list = []Placed{{Partition: *p.Partition, First: *p.FirstOffset, Count: p.Count}}
	}
	sum := int64(0)
	for _, at := range list {
		if at.Code != "" || at.First < 0 || at.Count < 1 || at.Partition < 0 {
			return nil, fmt.Errorf("%w: it places %d records of partition %d at %d", errNotBroker, at.Count, at.Partition, at.First)
		}
		sum += at.Count
	}
	if sum == 0 || records > 0 && sum != records {
		return nil, fmt.Errorf("%w: it acknowledges %d of %d records", errNotBroker, sum, records)
	}
	return list, nil
}

func placed(results []api.PartitionResult) []Placed {
	var list []Placed
	for _, r := range results {
		p := Placed{Partition: r.Partition, First: -1, Count: r.Count, Code: string(r.Code)}
		if r.FirstOffset != nil {
			p.First = *r.FirstOffset
		}
		list = append(list, p)
	}
	return list
}

// encodeBatches makes batches of records; those without a time get the present one.
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

// lineRecord is a record as POST /records takes it in JSON.
type lineRecord struct {
	Key         *string      `json:"key,omitempty"`
	KeyBase64   *string      `json:"key_base64,omitempty"`
	Value       any          `json:"value,omitempty"` // a string or jsonNull; absent beside value_base64
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

func encodeJSONLines(records []record.Record) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for i := range records {
		r := &records[i]
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
		if err := enc.Encode(&line); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}
