// Package benchmark measures the rates at which a broker stores and serves records over HTTP. It
// generates load, counts, and reports for people or as JSON.
package benchmark

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/engine/base/machine"
	"github.com/sebbroker/seb/internal/operate/progress"
	"github.com/sebbroker/seb/internal/protocols/encoding"
	"github.com/sebbroker/seb/record"
)

// Run measures p.Runs times, each with a new broker and a new topic, and reports. A request that
// fails, or returns fewer records than requested, ends it with an error. Run validates p first.
func Run(ctx context.Context, p Params, o Options) error {
	if err := p.Validate(); err != nil {
		return err
	}
	report := report{Benchmark: "write", Started: time.Now(), Version: o.Version, Machine: machine.Here(), Parameters: p}
	if p.Read != nil {
		report.Benchmark = "read"
	}
	if p.Bucket == "" && p.LocalBroker && p.Bare == "" {
		report.Parameters.Bucket = "temporary folder"
	}
	if !o.JSON {
		report.writeHead(o.Out)
	}
	pay, err := newPayload(&p)
	if err != nil {
		return err
	}
	for n := range p.Runs {
		r, err := p.runOnce(ctx, pay, &o)
		if err != nil {
			return fmt.Errorf("run %d failed: %w", n+1, err)
		}
		report.Runs = append(report.Runs, r)
		if !o.JSON {
			r.writeLine(o.Out, n+1)
		}
	}
	report.finish()
	if o.JSON {
		return report.writeJSON(o.Out)
	}
	report.writeTotal(o.Out)
	return nil
}

// job is one run against a target; bars as in Options.
type job struct {
	params  *Params
	target  *target
	payload *payload
	bars    io.Writer
}

func (p *Params) runOnce(ctx context.Context, pay *payload, o *Options) (r run, err error) {
	t, err := p.openTarget(ctx, pay, o.Start)
	if err != nil {
		return run{}, err
	}
	defer func() {
		if stopErr := t.stop(); err == nil && stopErr != nil {
			err = fmt.Errorf("stop: %w", stopErr)
		}
	}()
	j := job{params: p, target: t, payload: pay, bars: o.Bars}
	if p.Read != nil {
		return j.read(ctx)
	}
	return j.write(ctx)
}

func (j *job) write(ctx context.Context) (run, error) {
	bar := progress.New(j.bars, "writing", int64(j.params.Batches), nil)
	defer bar.Clear()
	l := load{workers: j.params.Workers, n: j.params.Batches, worker: func() request { return j.target.writeRequest(j.payload) }, bar: bar}
	if j.params.Bare != "" {
		l.worker = func() request { return j.target.bareRequest(j.payload) }
	}
	return l.run(ctx)
}

func (j *job) read(ctx context.Context) (run, error) {
	p := j.params
	if p.Bare == "" {
		if _, err := j.write(ctx); err != nil {
			return run{}, fmt.Errorf("write the records to read: %w", err)
		}
	}
	starts := int64(p.Batches*p.RecordsPerBatch - p.Read.RecordsPerRequest + 1)
	step := int64(1)
	if p.Format == RecordBatch {
		step = int64(p.RecordsPerBatch) // consumers continue at the start of a batch
	}
	worker := func() request {
		r := &reader{in: bufio.NewReaderSize(nil, encoding.HeadMax), target: j.target, count: p.Read.RecordsPerRequest, size: p.RecordSize}
		return func(ctx context.Context, i int) (int64, int64, error) {
			offset := p.Read.offset(i, starts, step)
			switch {
			case p.Bare != "":
				return r.bare(ctx, offset)
			case p.Format == RecordBatch:
				return r.batches(ctx, offset)
			}
			return r.multipart(ctx, offset)
		}
	}
	bar := progress.New(j.bars, "reading", int64(p.Read.Requests), nil)
	defer bar.Clear()
	l := load{workers: p.Workers, n: p.Read.Requests, worker: worker, bar: bar}
	return l.run(ctx)
}

// request sends request number i and returns the number of records and of their bytes. A worker
// calls its own request from one goroutine.
type request func(ctx context.Context, i int) (records, bytes int64, err error)

// load is n requests by a number of workers.
type load struct {
	workers, n int
	worker     func() request // returns the request of one worker
	bar        *progress.Bar
}

// run sends all requests; the first error ends it.
func (l *load) run(ctx context.Context) (run, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		sum  run
		next atomic.Int64
		mu   sync.Mutex // guards sum
		took = newLatencies()
		wg   sync.WaitGroup
	)
	cpu, heap, start := machine.CPUTime(), allocated(), time.Now()
	for w := range l.workers {
		wg.Go(func() {
			mine, err := l.loop(ctx, &next, took.of(w))
			if err != nil {
				cancel(err)
			}
			mu.Lock()
			defer mu.Unlock()
			sum.Requests += mine.Requests
			sum.Records += mine.Records
			sum.Bytes += mine.Bytes
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return run{}, err
	}
	sum.finish(time.Since(start), machine.CPUTime()-cpu)
	sum.Allocated = allocated().since(heap, sum.Requests)
	sum.Latency = took.info()
	return sum, nil
}

// loop is one worker.
func (l *load) loop(ctx context.Context, next *atomic.Int64, took *latencies) (run, error) {
	var r run
	send := l.worker()
	for ctx.Err() == nil {
		i := int(next.Add(1)) - 1
		if i >= l.n {
			break
		}
		start := time.Now()
		records, bytes, err := send(ctx, i)
		if err != nil {
			return r, fmt.Errorf("request %d: %w", i, err)
		}
		took.add(time.Since(start))
		r.Requests++
		r.Records += records
		r.Bytes += bytes
		l.bar.Add(1)
	}
	return r, nil
}

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
