package httpapi

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/encoding"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/record"
)

// producing is one POST /records. Nothing is submitted before the whole body is read and checked.
type producing struct {
	a         *API
	by        *caller
	in        httpconn.Body
	topic     string
	partition int32            // -1: absent
	expected  int64            // -1: absent
	producer  *record.Producer // nil: absent
	timeout   time.Duration
	kind      string
	boundary  string // of a multipart body

	spec broker.TopicSpec // of the topic, if it does not exist

	known      bool // the topic exists
	partitions int
	settings   state.Settings
	now        time.Time

	appends []broker.Append
	one     [1]broker.Append // appends of most requests
}

func (a *API) postRecords(w http.ResponseWriter, r *http.Request, by *caller) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	if q.Bool(httpconn.ParamAtomic) {
		return a.postAtomic(w, r, by, q)
	}
	p := producing{a: a, by: by, now: time.Now()}
	p.appends = p.one[:0]
	p.in = httpconn.Body{W: w, R: r, Timeout: a.pace, Memory: budget.Arena{Class: a.produce, Buffers: a.buffers}}
	if err := p.parse(q, r); err != nil {
		return err
	}
	if originalProduce(p.kind, r) {
		p.in.WaitForMemory(a.o.BudgetWait, a.stops)
	}
	defer p.in.Memory.Release()
	results, err := p.store(r, (*producing).readBody)
	if err != nil {
		return err
	}
	return p.answer(w, results)
}

func (p *producing) parse(q *httpconn.Params, r *http.Request) error {
	p.topic, p.partition = q.Topic(), q.Partition()
	p.expected = q.Number(httpconn.ParamExpectedOffset, -1, 1<<63-1)
	p.timeout = q.Duration(httpconn.ParamTimeout, p.a.o.AckTimeout, timeoutMax)
	if p.expected >= 0 && p.partition < 0 {
		q.Fail(httpconn.ParamExpectedOffset, "requires a partition")
	}
	p.producer = q.Producer(r.Header, p.partition)
	if q.Fault != nil {
		return q.Fault
	}
	var fault error
	p.kind, p.boundary, fault = contentType(r.Header.Get("Content-Type"))
	if fault != nil {
		return problem.BadField("Content-Type", "want one of multipart/form-data, application/octet-stream, text/plain, "+
			"application/x-ndjson, application/json, application/vnd.seb.recordbatch, given %s", problem.Quote(r.Header.Get("Content-Type")))
	}
	return identityEncoding(r.Header)
}

// identityEncoding returns the problem of a body that is compressed.
func identityEncoding(h http.Header) error {
	if encoding := h.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return problem.New(api.UnsupportedMediaType, "Content-Encoding %s is not supported", problem.Quote(encoding))
	}
	return nil
}

// contentType is mime.ParseMediaType with a fast path for the usual values.
func contentType(header string) (kind, boundary string, err error) {
	switch header {
	case api.OctetStream, api.RecordBatch, api.TextPlain, api.NDJSON, api.JSON:
		return header, "", nil
	}
	if b, ok := strings.CutPrefix(header, api.Multipart+"; boundary="); ok && b != "" && !strings.ContainsFunc(b, quotable) {
		return api.Multipart, b, nil
	}
	kind, params, err := mime.ParseMediaType(header)
	return kind, params["boundary"], err
}

// quotable reports whether a character may need quotes in a parameter of a media type.
func quotable(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
}

// store reads the body with read and stores the added appends. It returns a result for each append.
func (p *producing) store(r *http.Request, read func(*producing) error) ([]broker.Result, error) {
	if p.a.b.ReadOnly() {
		return nil, state.ErrReadOnly
	}
	if err := p.lookUp(); err != nil {
		return nil, err
	}
	if err := read(p); err != nil {
		return nil, err
	}
	p.in.Memory.Release() // the appends hold the rest
	if err := p.identify(); err != nil {
		return nil, p.withdraw(err)
	}
	check, err := p.by.checked(access.Write, access.Topic, p.topic)
	if err != nil {
		return nil, p.withdraw(err)
	}
	for i := range p.appends {
		p.appends[i].Check = check
	}
	ctx := r.Context()
	if !p.known || p.timeout == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.timeout)
		defer cancel()
	}
	if !p.known {
		if err := p.ensure(ctx); err != nil {
			return nil, p.withdraw(err)
		}
	}
	if err := p.checkAll(); err != nil {
		return nil, p.withdraw(err)
	}
	results := p.a.b.Submit(ctx, p.appends).WaitFor(ctx, p.timeout)
	if len(results) != len(p.appends) {
		return nil, errors.New("broker returned a wrong number of results")
	}
	return results, nil
}

// checkAll refuses all of several appends because of one, so that the records of the others are not
// stored.
func (p *producing) checkAll() error {
	if len(p.appends) == 1 {
		return nil // Submit checks it
	}
	for i := range p.appends {
		if err := p.a.b.CheckAppend(&p.appends[i]); err != nil {
			return p.atPartition(problemOf(err), i)
		}
	}
	return nil
}

// withdraw releases the appends, which were never submitted, and returns err.
func (p *producing) withdraw(err error) error {
	for _, ap := range p.appends {
		ap.Release()
	}
	return err
}

// ensure creates the topic.
func (p *producing) ensure(ctx context.Context) (err error) {
	if p.a.b.AutoCreates() {
		if ctx, err = p.by.changing(ctx, access.Create, access.Topic, p.topic); err != nil {
			return err
		}
	}
	if err := p.a.b.EnsureTopicAs(ctx, p.topic, p.spec); err != nil {
		return err
	}
	if n, err := p.a.b.Partitions(p.topic); p.byKey() && (err != nil || n != p.partitions) {
		return problem.New(api.StoreUnavailable, "topic %s was created by another request just now; try again", p.topic)
	}
	return nil
}

// byKey reports whether records may have keys, which choose their partitions.
func (p *producing) byKey() bool {
	return p.partition < 0 && (p.kind == api.NDJSON || p.kind == api.JSON || p.kind == api.RecordBatch)
}

// lookUp finds the topic. A missing topic is created only after the body was read.
func (p *producing) lookUp() error {
	var err error
	p.partitions, p.settings, err = p.a.b.Resolved(p.topic)
	switch {
	case errors.Is(err, state.ErrUnknownTopic):
		p.partitions, p.settings = cmp.Or(p.spec.Partitions, p.a.b.DefaultPartitions()), state.Resolve(p.spec.Settings)
	case err != nil:
		return err
	default:
		p.known = true
	}
	if int(p.partition) >= p.partitions {
		return UnknownPartition(p.topic, p.partition, p.partitions)
	}
	return nil
}

// readBody reads the body in its encoding and makes appends of it.
func (p *producing) readBody() error {
	var form func(*producing) error
	p.in.Max = p.a.requestMax
	switch p.kind {
	case api.Multipart:
		form = (*producing).multipart
		// Each length takes at most ten digits and a comma; the headers of the parts come in
		// addition.
		p.in.Max += int64(p.a.o.RecordsMax)*11 + 4*encoding.HeadMax
	case api.OctetStream:
		form = (*producing).octets
	case api.RecordBatch:
		p.in.Max += p.a.requestMax / broker.FramingShare
		form = (*producing).batches
	case api.TextPlain:
		form = (*producing).lines
	case api.NDJSON:
		form = (*producing).ndjson
	case api.JSON:
		form = (*producing).json
	default:
		return problem.New(api.UnsupportedMediaType, "%s is not one of multipart/form-data, application/octet-stream, text/plain, "+
			"application/x-ndjson, application/json, application/vnd.seb.recordbatch", problem.Quote(p.kind))
	}
	err := p.in.Declared()
	if err == nil {
		err = p.neverFits()
	}
	if err == nil {
		err = p.in.OpenFor(p.reserved())
	}
	if err != nil {
		return err
	}
	return form(p)
}

// neverFits returns why the body can never be stored, as far as its declared length and its first
// bytes tell, or nil. It is called before memory is reserved, because a client repeats a request for
// which there is none.
func (p *producing) neverFits() error {
	declared, plain := p.in.R.ContentLength, p.settings.Codec() == record.None
	switch {
	case p.kind == api.RecordBatch && (declared < 0 || declared > int64(p.settings.MaxBatchBytes)):
		head := make([]byte, 12) // base offset, length of the rest
		if p.in.Peek(head) != nil {
			return nil // reading the body finds the error again
		}
		return p.a.b.CheckBatchSize(p.topic, len(head)+int(binary.BigEndian.Uint32(head[8:])), true)
	case p.kind == api.OctetStream && plain && declared > 0:
		return p.checkSize(uint32(declared))
	case p.kind == api.OctetStream || p.kind == api.TextPlain && plain:
		return p.checkCopied(declared)
	}
	return nil
}

// checkSize returns the error of a record without compression that the topic does not allow.
func (p *producing) checkSize(n uint32) error {
	if size := record.FrameLen([]uint32{n}); size > p.settings.MaxBatchBytes {
		return p.a.b.CheckBatchSize(p.topic, size, false)
	}
	return nil
}

// checkCopied returns the error of a body of at least n bytes that is in memory while it is encoded, in
// at least as many bytes or with a buffer of as many.
func (p *producing) checkCopied(n int64) error {
	if c := p.in.Memory.Class; 2*n > c.Limit() {
		return &budget.OverError{Class: c.Kind(), Wanted: 2 * n, Limit: c.Limit()}
	}
	return nil
}

// reserved is how many bytes of the body to reserve memory for before it is read: all, unless its first
// part may tell that it can never be stored.
func (p *producing) reserved() int64 {
	if p.kind == api.Multipart && p.in.R.ContentLength > int64(p.settings.MaxBatchBytes) {
		return 0
	}
	return p.in.R.ContentLength
}

// target returns the partition of records without a key.
func (p *producing) target() int32 { return max(p.partition, 0) }

// add makes an append of batches at the start of a buffer of the body. clientMade reports that the
// client built them.
func (p *producing) add(partition int32, data []byte, sum record.Summary, clientMade bool) {
	p.appends = append(p.appends, broker.Append{
		Topic: p.topic, Partition: partition, Data: data, Summary: sum, ClientMade: clientMade, ExpectedOffset: p.expected,
		Release: p.in.Memory.Detach(data), Memory: p.in.Memory.Reservation(),
	})
}
