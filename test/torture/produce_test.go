package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/history"
	"github.com/sebbroker/seb/test/recordtest"
)

// recordsMax bounds the records of one append.
const recordsMax = 8

// next assigns numbers to an append and makes its values.
func (u *user) next(part int32, n int) (history.Event, [][]byte) {
	e := history.Event{Do: history.Append, Client: u.id, Part: part, Seq: u.seq, N: int64(n)}
	values := make([][]byte, n)
	for i := range values {
		values[i] = history.Value(u.id, u.seq+int64(i))
	}
	u.seq += int64(n)
	return e, values
}

func (u *user) partition() int32 { return int32(u.rng.IntN(u.r.p.parts)) }

// returned records the result of an append.
func (u *user) returned(op int64, e history.Event) {
	u.r.rec.Return(op, e)
	if e.Is == history.OK {
		u.r.acks.Add(1)
	}
}

// produceGo sends with the Go client until ctx ends.
func (u *user) produceGo(ctx context.Context, ordered, conditions bool) {
	for ctx.Err() == nil {
		part := u.partition()
		e, values := u.next(part, 1+u.rng.IntN(recordsMax))
		e.Ordered, e.Form = ordered, "go"
		o := client.ProduceOptions{Partition: &part}
		if conditions {
			e.Want = new(u.ends[part])
			o.ExpectedOffset = e.Want
		}
		op := u.r.rec.Invoke(e)
		call, cancel := u.timeout(context.WithoutCancel(ctx))
		call, by := withEpoch(call)
		produced, err := u.api.ProduceValues(call, topic, values, o)
		cancel()
		is := u.judge(produced, err, int64(len(values)), part)
		is.Epoch = by.epoch.Load()
		if is.Is == history.OK || is.Code == history.CodeMismatch {
			u.ends[part] = is.At
		}
		if is.Is == history.OK {
			u.ends[part] += int64(len(values))
		}
		u.returned(op, is)
		u.rest(ctx, err != nil)
	}
}

// judge converts the Go client's result into a return.
func (u *user) judge(results []client.ProduceResult, err error, n int64, part int32) history.Event {
	switch e := u.notedError(err); {
	case err == nil:
		if len(results) != 1 || results[0].Count != n || results[0].Partition != part {
			u.r.fault("client %d: %d records to partition %d are at %v", u.id, n, part, results)
			return history.Event{Is: history.Unknown}
		}
		return history.Event{Is: history.OK, At: results[0].First}
	case errors.Is(err, client.ErrOutcomeUnknown):
		return history.Event{Is: history.Unknown, Code: e.Code}
	case errors.Is(err, client.ErrOffsetMismatch):
		return history.Event{Is: history.Rejected, Code: history.CodeMismatch, At: e.NextOffset}
	case errors.Is(err, client.ErrRejected):
		return history.Event{Is: history.Rejected, Code: e.Code}
	}
	u.r.fault("client %d: a write ends with an error of no outcome: %v", u.id, err)
	return history.Event{Is: history.Unknown}
}

// produceRaw sends in all encodings of HTTP, without retries, until ctx ends.
func (u *user) produceRaw(ctx context.Context, conditions bool) {
	for ctx.Err() == nil {
		part := u.partition()
		n := 1 + u.rng.IntN(recordsMax)
		kind := pick(u.rng, api.TextPlain, api.NDJSON, api.JSON, api.OctetStream, api.Multipart, api.RecordBatch)
		if kind == api.OctetStream {
			n = 1
		}
		e, values := u.next(part, n)
		e.Form = kind
		q := url.Values{"topic-name": {topic}, "partition": {fmt.Sprint(part)}}
		if conditions {
			e.Want = new(u.ends[part])
			q.Set("expected-offset", fmt.Sprint(*e.Want))
		}
		if half(u.rng) {
			q.Set("timeout", span(u.rng, 20*time.Millisecond, 2*time.Second).String())
		}
		op := u.r.rec.Invoke(e)
		call, cancel := u.timeout(context.WithoutCancel(ctx))
		body, kind := u.body(kind, values)
		a := u.ask(call, http.MethodPost, "/records", q, map[string]string{"Content-Type": kind}, body)
		cancel()
		is := u.produced(a, int64(n))
		if is.Is == history.OK {
			u.ends[part] = is.At + int64(n)
		} else if is.Code == history.CodeMismatch {
			u.ends[part] = is.At
		}
		u.returned(op, is)
		u.rest(ctx, a.status == 0)
	}
}

// produced converts an answer to an append into a return.
func (u *user) produced(a *answer, n int64) history.Event {
	u.noted(a.problem.Code, a.problem.Detail)
	is := history.Event{Is: a.outcome(), Code: string(a.problem.Code)}
	if a.status != 0 {
		is.Epoch = a.epoch()
	}
	switch {
	case is.Is == history.Rejected && a.problem.Code == api.OffsetMismatch:
		is.Code, is.At = history.CodeMismatch, *a.problem.NextOffset
	case is.Is == history.OK:
		var p api.Produced
		var list api.Offsets // in JSON encodings
		if err := errors.Join(json.Unmarshal(a.body, &p), json.Unmarshal(a.body, &list)); err != nil {
			u.r.fault("client %d: answer %q: %v", u.id, a.body, err)
			return history.Event{Is: history.Unknown}
		}
		first := p.FirstOffset
		if len(list.Offsets) > 0 {
			first, p.Count = &list.Offsets[0], int64(len(list.Offsets))
			for i, o := range list.Offsets {
				if o != *first+int64(i) {
					u.r.fault("client %d: offsets %v", u.id, list.Offsets)
				}
			}
		}
		if first == nil || p.Count != n {
			u.r.fault("client %d: answer %q to %d records", u.id, a.body, n)
			return history.Event{Is: history.Unknown}
		}
		is.At = *first
	}
	return is
}

// body encodes values.
func (u *user) body(kind string, values [][]byte) (body []byte, contentType string) {
	var b bytes.Buffer
	type one struct {
		Value string `json:"value"`
	}
	switch kind {
	case api.OctetStream:
		return values[0], kind
	case api.TextPlain:
		return append(bytes.Join(values, []byte("\n")), '\n'), kind
	case api.NDJSON:
		for _, v := range values {
			line, _ := json.Marshal(one{string(v)})
			b.Write(append(line, '\n'))
		}
	case api.JSON:
		var list []one
		for _, v := range values {
			list = append(list, one{string(v)})
		}
		text, _ := json.Marshal(list)
		return text, kind
	case api.Multipart:
		return form(values)
	case api.RecordBatch:
		return u.batch(values, nil), kind
	}
	return b.Bytes(), kind
}

func form(values [][]byte) (body []byte, contentType string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	sizes := make([]int, len(values))
	for i, v := range values {
		sizes[i] = len(v)
	}
	text, _ := json.Marshal(sizes)
	for _, part := range []struct {
		name string
		data []byte
	}{{"sizes", text}, {"records", bytes.Join(values, nil)}} {
		pw, _ := w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {fmt.Sprintf("form-data; name=%q", part.name)}})
		_, _ = pw.Write(part.data)
	}
	_ = w.Close()
	return b.Bytes(), w.FormDataContentType()
}

// batch encodes values like a Kafka client, compressed or not.
func (u *user) batch(values [][]byte, p *record.Producer) []byte {
	recs := make([]record.Record, len(values))
	for i, v := range values {
		recs[i] = record.Record{Value: v, Timestamp: time.Now().UnixMilli()}
	}
	b, _ := recordtest.Encode(recs, record.EncodeOptions{Compression: record.Compression(u.rng.IntN(int(record.Zstd) + 1)), Producer: p})
	return b
}

const (
	// windowMax bounds the requests of an idempotent producer in flight, as Kafka's producers do.
	windowMax = 5
	// windowTries bounds the retries of a request before the producer starts a new epoch.
	windowTries = 12
)

// window is an idempotent HTTP producer with several requests in flight. It repeats a request
// unchanged until it is acknowledged. After a request that was not acknowledged it continues with
// the next epoch.
type window struct {
	u        *user
	part     int32
	producer record.Producer
	broken   atomic.Bool
	wg       sync.WaitGroup

	mu   sync.Mutex // guards the fields below
	open map[int]bool
	cond *sync.Cond
}

func (u *user) produceWindow(ctx context.Context) {
	w := &window{u: u, part: u.partition(), producer: record.Producer{ID: u.rng.Int64N(1<<62) + 1}, open: map[int]bool{}}
	w.cond = sync.NewCond(&w.mu)
	for n := 0; ctx.Err() == nil; n++ {
		w.room(n)
		if w.broken.Load() {
			w.wg.Wait()
			w.broken.Store(false)
			w.producer.Epoch++
			w.producer.Sequence = 0
		}
		e, values := u.next(w.part, 1+u.rng.IntN(recordsMax))
		e.Ordered, e.Form = true, "window"
		op := u.r.rec.Invoke(e)
		p := w.producer
		w.producer.Sequence += int32(len(values))
		body, kind := u.batch(values, &p), api.RecordBatch
		if half(u.rng) {
			body, kind = u.body(api.TextPlain, values)
		}
		w.wg.Go(func() {
			u.returned(op, w.send(ctx, p, body, kind, int64(len(values))))
			w.done(n)
		})
		u.rest(ctx, false)
	}
	w.wg.Wait()
}

// room waits until request n fits into the window.
func (w *window) room(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.open) > 0 && w.open[n-windowMax] || len(w.open) >= windowMax {
		w.cond.Wait()
	}
	w.open[n] = true
}

func (w *window) done(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, n)
	w.cond.Signal()
}

// send repeats a request until it is acknowledged or the retries are used up.
func (w *window) send(ctx context.Context, p record.Producer, body []byte, kind string, n int64) history.Event {
	q := url.Values{"topic-name": {topic}, "partition": {fmt.Sprint(w.part)}}
	header := map[string]string{
		"Content-Type": kind, api.HeaderProducerID: strconv.FormatInt(p.ID, 10),
		api.HeaderProducerEpoch: fmt.Sprint(p.Epoch), api.HeaderSequence: fmt.Sprint(p.Sequence),
	}
	end := history.Event{Is: history.Rejected}
	for try := 0; try < windowTries && !w.broken.Load(); try++ {
		limit := time.Duration(100+100*try) * time.Millisecond
		if w.u.r.calm.Load() {
			limit = calmTime
		}
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
		a := w.u.ask(call, http.MethodPost, "/records", q, header, body)
		cancel()
		is := w.u.produced(a, n)
		switch is.Is {
		case history.OK:
			return is
		case history.Unknown:
			end = is
			w.u.transport.CloseIdleConnections()
		default:
			if end.Is != history.Unknown {
				end = is
			}
		}
		sleep(context.WithoutCancel(ctx), time.Duration(5+10*try)*time.Millisecond)
	}
	w.broken.Store(true)
	return end
}

// trim trims the last partition at random times.
func (u *user) trim(ctx context.Context) {
	part := int32(u.r.p.parts - 1)
	for ctx.Err() == nil {
		sleep(ctx, 20*u.r.p.pause)
		start, end := u.r.rec.Ends(part)
		if end <= start {
			continue
		}
		to := start + u.rng.Int64N(end-start+1)
		op := u.r.rec.Invoke(history.Event{Do: history.Trim, Client: u.id, Part: part, To: to})
		call, cancel := u.timeout(context.WithoutCancel(ctx))
		call, by := withEpoch(call)
		p, err := u.api.Trim(call, topic, part, to)
		cancel()
		is := history.Event{Is: history.OK, Epoch: by.epoch.Load(), Start: p.Start, Code: u.notedError(err).Code}
		switch {
		case errors.Is(err, client.ErrRejected):
			is.Is = history.Rejected
		case err != nil:
			is.Is = history.Unknown
		}
		u.r.rec.Return(op, is)
	}
}
