package httpapi

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/api"
	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/forms"
	"github.com/sebbroker/seb/internal/httpin"
)

// readTypes are the forms of GET /records in the order of preference where the client has none.
var readTypes = []string{api.Multipart, api.JSON, api.NDJSON, api.RecordBatch, api.EventStream}

const (
	maxRecordsDefault = 10
	timeoutDefault    = 10 * time.Second
	// timeoutMax bounds a long poll; who asks for longer waits so long.
	timeoutMax = 5 * time.Minute
)

func (a *API) getRecords(w http.ResponseWriter, r *http.Request) error {
	form := httpin.Negotiate(r.Header.Values("Accept"), readTypes)
	if form == "" {
		return api.NewProblem(api.NotAcceptable, "want one of %s", strings.Join(readTypes, ", "))
	}
	q := httpin.ParseParams(r.URL.RawQuery)
	g := &reading{answer: a.newAnswer(), topic: q.Topic(), partition: max(q.Partition(), 0)}
	latest := q.Latest()
	if form == api.EventStream {
		return a.follow(w, r, q, g)
	}
	g.starts(q)
	g.maxRecords = q.Number(httpin.ParamMaxRecords, maxRecordsDefault, math.MaxInt64)
	if g.maxRecords == 0 {
		g.maxRecords = maxRecordsDefault // as the original has it
	}
	g.maxBytes = q.Number(httpin.ParamMaxBytes, 0, math.MaxInt64)
	g.timeout = q.Duration(httpin.ParamTimeout, timeoutDefault, timeoutMax)
	if q.Fault != nil {
		return q.Fault
	}
	if latest || g.group != "" {
		if err := g.confirm(r, latest); err != nil {
			return err
		}
	}
	defer g.done()
	if form == api.RecordBatch {
		return g.asBatches(w, r)
	}
	g.maxRecords = min(g.maxRecords, int64(a.o.RecordsMax))
	switch form {
	case api.JSON:
		return g.asText(w, r, form, forms.Array)
	case api.NDJSON:
		return g.asText(w, r, form, forms.EachLine)
	}
	return g.asMultipart(w, r)
}

// confirm looks the partition up, and finds where the group has got to, if one is named. latest makes sure that what was
// committed anywhere before this request is seen by it.
func (g *reading) confirm(r *http.Request, latest bool) error {
	info, err := g.a.b.Topic(r.Context(), g.topic, latest)
	if err != nil {
		return err
	}
	if int(g.partition) >= len(info.Partitions) {
		return unknownPartition(g.topic, g.partition, len(info.Partitions))
	}
	if g.group != "" {
		return g.resume(r, info.Partitions[g.partition].Start)
	}
	return nil
}

// head sets the headers that every form has. n is the length of the body.
func (g *reading) head(w http.ResponseWriter, kind string, n int64) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if n >= 0 {
		h.Set("Content-Length", strconv.FormatInt(n, 10))
	}
	h.Set(api.HeaderEpoch, g.a.epoch())
	h.Set(api.HeaderNextOffset, strconv.FormatInt(g.end, 10))
	if g.group != "" {
		h.Set(api.HeaderOffset, strconv.FormatInt(g.resumed, 10))
	}
	g.a.metrics.read.AddInt64(g.count)
	g.a.metrics.readOut.AddInt64(g.bytes)
}

// epoch is the broker's, as the header has it.
func (a *API) epoch() string { return strconv.FormatUint(uint64(a.b.Epoch()), 10) }

// asText answers with records in JSON.
func (g *reading) asText(w http.ResponseWriter, r *http.Request, kind string, form forms.TextForm) error {
	t := &forms.Text{Form: form}
	if err := g.collect(r.Context(), t); err != nil {
		return err
	}
	if err := t.Finish(&g.memory); err != nil {
		return err
	}
	g.head(w, kind, t.Out.Size)
	g.a.pace.WriteStep(w)
	w.WriteHeader(http.StatusOK)
	return sent(g.a.pace.SendAll(w, &t.Out))
}

// sent is for errors of writing after the status went out: the client has gone or was too slow, and all that can be
// done is to let it see a broken connection instead of a short answer.
func sent(err error) error {
	if err != nil {
		return http.ErrAbortHandler
	}
	return nil
}

// asBatches answers with batches as they are stored, by sendfile if they are in a file.
func (g *reading) asBatches(w http.ResponseWriter, r *http.Request) error {
	part, err := g.wait(r.Context())
	if err != nil {
		return err
	}
	list, err := g.cut(part.Chunks)
	if err != nil {
		return err
	}
	size := int64(0)
	for i := range list {
		size += list[i].Size
	}
	g.bytes = size
	if len(list) > 0 {
		w.Header().Set(api.HeaderBaseOffset, strconv.FormatInt(list[0].Base, 10))
	}
	g.head(w, api.RecordBatch, size)
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	for i := range list {
		if err := g.a.sendChunk(w, &list[i]); err != nil {
			return sent(err)
		}
	}
	return nil
}

func (a *API) sendChunk(w http.ResponseWriter, c *broker.Chunk) error {
	if c.Section != nil {
		return a.pace.SendSection(w, c.Section)
	}
	for _, p := range c.Parts {
		if err := a.pace.Send(w, p); err != nil {
			return err
		}
	}
	return nil
}
