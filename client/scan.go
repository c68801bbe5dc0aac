package client

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/record"
)

// cutAt is the length from which the value of a match is read by itself. The broker's memory has the
// largest value once, and not beside its JSON.
const cutAt = 256 << 10

// filters reports whether the broker selects the records.
func (o *ReadOptions) filters() bool { return o.Where != "" || len(o.Contains) > 0 }

// scanOnce is fetchOnce for a read with a filter. Its answer is in JSON, because batches cannot be
// filtered.
func (r *reading) scanOnce(ctx context.Context, yield yieldFunc) (more bool, err error) {
	q := url.Values{
		"topic-name": {r.topic}, "partition": {strconv.Itoa(int(r.o.Partition))}, "offset": {strconv.FormatInt(r.from, 10)},
		"timeout": {"0s"}, "max-records": {strconv.Itoa(math.MaxInt32)}, "max-bytes": {strconv.Itoa(cmp.Or(r.o.MaxBytes, readBytesDefault))},
		"max-value-bytes": {strconv.Itoa(cutAt)},
	}
	if r.o.Follow {
		q.Set("timeout", followWait.String())
	}
	if r.o.Uncommitted {
		q.Set("isolation", api.IsolationUncommitted)
	}
	if r.o.Where != "" {
		q.Set("where", r.o.Where)
	}
	if len(r.o.Contains) > 0 {
		q.Set("contains", string(r.o.Contains))
	}
	var resp *http.Response
	err = r.c.do(ctx, &request{
		method: http.MethodGet, path: "/records", query: q, header: map[string]string{"Accept": api.NDJSON + ", " + api.ProblemJSON},
	}, func(got *http.Response) error { resp = got; return nil })
	if err != nil {
		return false, err
	}
	defer drain(resp.Body)
	var p scanPosition
	if err := p.read(resp.Header); err != nil {
		return false, err
	}
	if r.end < 0 && !r.o.Follow {
		r.end = p.end
	}
	before := r.from
	if err := r.scanned(ctx, resp.Body, yield); err != nil {
		return false, err
	}
	r.from = max(r.from, p.resume)
	if r.o.Progress != nil {
		r.looked.Records += p.records
		r.looked.Bytes += p.bytes
		r.looked.Offset, r.looked.NextOffset = new(r.from), new(p.end)
		r.o.Progress(r.looked)
	}
	return r.o.Follow || r.from > before && r.from < r.end, nil
}

// scanned yields the records of an answer.
func (r *reading) scanned(ctx context.Context, body io.Reader, yield yieldFunc) error {
	for lines := json.NewDecoder(body); ; {
		var in api.Record
		if err := lines.Decode(&in); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		rec, err := recordOf(&in)
		if err != nil {
			return fmt.Errorf("record from the broker: offset %d: %w", in.Offset, err)
		}
		if r.end >= 0 && rec.Offset >= r.end {
			return nil
		}
		if in.ValueBytes != nil {
			rec.Value, err = r.value(ctx, in.Offset)
			if errors.Is(err, codeError(api.OffsetCompacted)) || errors.Is(err, ErrBelowStart) {
				continue // removed meanwhile
			}
			if err != nil {
				return err
			}
		}
		r.from = rec.Offset + 1
		if !yield(rec, nil) {
			return errStopped
		}
	}
}

// value reads the value of one record.
func (r *reading) value(ctx context.Context, offset int64) (value []byte, err error) {
	err = r.c.do(ctx, &request{
		method: http.MethodGet, path: "/record", header: map[string]string{"Accept": api.OctetStream + ", " + api.ProblemJSON},
		query: url.Values{"topic-name": {r.topic}, "partition": {strconv.Itoa(int(r.o.Partition))}, "offset": {strconv.FormatInt(offset, 10)}},
	}, func(resp *http.Response) (err error) {
		defer drain(resp.Body)
		value, err = io.ReadAll(resp.Body)
		return err
	})
	return value, err
}

// scanPosition has the numbers in the head of an answer to a read with a filter.
type scanPosition struct{ resume, end, records, bytes int64 }

func (p *scanPosition) read(h http.Header) error {
	if h.Get(api.HeaderScannedRecords) == "" {
		return &Error{NextOffset: -1, Start: -1, Committed: -1, Err: errors.New("the broker ignores filters: it is of an older version")}
	}
	for name, to := range map[string]*int64{
		api.HeaderResumeOffset: &p.resume, api.HeaderNextOffset: &p.end, api.HeaderScannedRecords: &p.records, api.HeaderScannedBytes: &p.bytes,
	} {
		n, err := strconv.ParseInt(h.Get(name), 10, 64)
		if err != nil || n < 0 {
			return &Error{NextOffset: -1, Start: -1, Committed: -1, Err: fmt.Errorf("%w: header %s is %q", errNotBroker, name, h.Get(name))}
		}
		*to = n
	}
	return nil
}

// recordOf converts a record from its JSON form.
func recordOf(in *api.Record) (*record.Record, error) {
	rec := &record.Record{Offset: in.Offset, Timestamp: in.Timestamp}
	var failed error
	bytesOf := func(text, encoded *string) []byte {
		switch {
		case text != nil:
			return []byte(*text)
		case encoded == nil:
			return nil
		}
		b, err := base64.StdEncoding.AppendDecode([]byte{}, []byte(*encoded))
		failed = cmp.Or(failed, err)
		return b
	}
	rec.Key, rec.Value = bytesOf(in.Key, in.KeyBase64), bytesOf(in.Value, in.ValueBase64)
	for i := range in.Headers {
		h := &in.Headers[i]
		rec.Headers = append(rec.Headers, record.Header{Key: h.Key, Value: bytesOf(h.Value, h.ValueBase64)})
	}
	return rec, failed
}
