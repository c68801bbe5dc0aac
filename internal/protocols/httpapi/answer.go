package httpapi

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/protocols/encoding"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
)

// textTags begin the entity tags of the encodings.
var textTags = map[encoding.TextForm]string{encoding.Array: `"a`, encoding.EachLine: `"l`}

// Text answers with records in JSON.
func (g *Reading) Text(w http.ResponseWriter, r *http.Request, kind string, form encoding.TextForm) error {
	t := &encoding.Text{Form: form, ValueMax: g.ValueMax}
	if err := g.Collect(r.Context(), t); err != nil {
		return err
	}
	if err := t.Finish(&g.memory); err != nil {
		return err
	}
	tag := textTags[form]
	if g.ValueMax > 0 {
		tag += strconv.Itoa(g.ValueMax) + "."
	}
	if g.unchanged(w, tag) {
		return nil
	}
	g.headOfRecords(w, kind, t.Out.Size)
	g.s.o.Timeout.ExtendWrite(w)
	w.WriteHeader(http.StatusOK)
	return Sent(g.s.o.Timeout.SendAll(w, &t.Out))
}

// Sent handles errors of writing after the status was sent. It aborts the connection, because a
// truncated answer must not look complete. The client is gone or too slow anyway.
func Sent(err error) error {
	if err != nil {
		return http.ErrAbortHandler
	}
	return nil
}

// Batches answers with batches as they are stored, with sendfile if they are in a file.
func (g *Reading) Batches(w http.ResponseWriter, r *http.Request) error {
	list, err := g.batches(r.Context())
	if err != nil {
		return err
	}
	size := int64(0)
	for i := range list {
		if c := &list[i]; c.Size > 0 && size == 0 {
			w.Header().Set(api.HeaderBaseOffset, strconv.FormatInt(c.Base, 10))
		}
		size += list[i].Size
	}
	g.Bytes = size
	g.headOfRecords(w, api.RecordBatch, size)
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	for i := range list {
		if err := sendChunk(g.s.o.Timeout, w, &list[i]); err != nil {
			return Sent(err)
		}
	}
	return nil
}

// batches returns the chunks of an answer with batches, and moves Offset behind them. It waits for the first batch,
// also across offsets whose batches are left out.
func (g *Reading) batches(ctx context.Context) ([]broker.Chunk, error) {
	for began := time.Now(); ; g.Done() {
		part, err := g.wait(ctx, max(0, g.Timeout-time.Since(began)))
		if err != nil {
			return nil, err
		}
		list, err := g.cut(part.Chunks)
		if err != nil {
			return nil, err
		}
		before, size := g.Offset, int64(0)
		for i := range list {
			g.Offset, size = list[i].End, size+list[i].Size
		}
		over := time.Since(began)
		if size > 0 || g.Offset == before || over >= g.Timeout && (g.Offset >= g.End || over >= tailTime) {
			return list, nil
		}
	}
}

func sendChunk(timeout httpconn.ProgressTimeout, w http.ResponseWriter, c *broker.Chunk) error {
	if c.Section != nil {
		return timeout.SendSection(w, c.Section)
	}
	for _, p := range c.Parts {
		if err := timeout.Send(w, p); err != nil {
			return err
		}
	}
	return nil
}

// entityTag identifies the bytes of an answer, or is "" if records may be added to it. An answer
// that ended before the end of its partition consists of the records of its topic from begun up to
// Offset that exist. They never change: a recreated topic has another ID, and an offset is assigned
// once. Compaction can only remove records; then their number is lower, or the answer ends at a
// higher offset. The answer of a scan has no tag, because its records depend on the filter. form is
// the begin of the tag.
func (g *Reading) entityTag(form string) string {
	if g.scan != nil || g.topicID.IsZero() || g.Count == 0 || g.short || g.Offset >= g.End {
		return ""
	}
	return fmt.Sprintf(`%s1-%s-%d-%x-%x-%x"`, form, g.topicID, g.Partition, g.begun, g.Offset, g.Count)
}

// unchanged sets the entity tag of the collected answer, and answers 304 if the client has it. A
// cache must ask each time, because a trim, compaction and the deletion of the topic remove
// records. No answer is immutable.
func (g *Reading) unchanged(w http.ResponseWriter, form string) bool {
	tag := g.entityTag(form)
	if tag == "" {
		return false
	}
	h := w.Header()
	h.Set("ETag", tag)
	for _, c := range httpconn.Codings {
		if coded := httpconn.EncodedTag(tag, c); g.Condition.Matches(coded) {
			tag = coded // the one that the client has
		}
	}
	if !g.Condition.Matches(tag) {
		return false
	}
	h.Set("ETag", tag)
	g.headOfRecords(w, "", -1)
	h.Del("Content-Type")
	w.WriteHeader(http.StatusNotModified)
	return true
}

// envelope surrounds the parts of one multipart answer.
type envelope struct{ kind, sizes, records, end string }

// newEnvelope draws a boundary. Call it when the records are collected: then their producers cannot
// know it, so that no record, and no two records together, end a part (RFC 2046, section 5.1.1).
func newEnvelope() envelope {
	boundary := rand.Text()
	return envelope{
		kind:    api.Multipart + "; boundary=" + boundary,
		sizes:   "--" + boundary + "\r\nContent-Disposition: form-data; name=\"sizes\"\r\n\r\n[",
		records: "]\r\n--" + boundary + "\r\nContent-Disposition: form-data; name=\"records\"\r\n\r\n",
		end:     "\r\n--" + boundary + "--\r\n",
	}
}

// Multipart answers with values only, as the original does: null and empty values look the same. Its
// entity tag is weak, because each answer has another boundary.
func (g *Reading) Multipart(w http.ResponseWriter, r *http.Request) error {
	g.gathers = true
	v, err := g.Values(r.Context())
	if err != nil {
		return err
	}
	f := newEnvelope()
	if g.Count == 0 {
		g.headOfRecords(w, f.kind, int64(len(f.end)))
		g.s.o.Timeout.ExtendWrite(w)
		w.WriteHeader(http.StatusPartialContent)
		_, err := w.Write([]byte(f.end))
		return Sent(err)
	}
	if g.unchanged(w, `W/"m`) {
		return nil
	}
	g.headOfRecords(w, f.kind, int64(len(f.sizes)+len(f.records)+len(f.end))+v.Sizes.Size+v.Sum)
	w.WriteHeader(http.StatusOK)
	out := gather{pace: g.s.o.Timeout, w: w, buf: g.buf[:0]}
	out.add([]byte(f.sizes))
	for _, b := range v.Sizes.List {
		out.add(b)
	}
	out.add([]byte(f.records))
	for _, b := range v.Refs {
		out.add(b)
	}
	out.add([]byte(f.end))
	return Sent(out.flush())
}

// gather copies small pieces together, so that the connection gets large writes.
type gather struct {
	pace httpconn.ProgressTimeout
	w    http.ResponseWriter
	buf  []byte
	err  error
}

// directMin is the size from which a piece is not copied.
const directMin = 16 << 10

func (g *gather) add(b []byte) {
	if len(b) > cap(g.buf)-len(g.buf) || len(b) >= directMin {
		_ = g.flush() // the error is kept in err
	}
	if len(b) >= directMin {
		g.write(b)
		return
	}
	g.buf = append(g.buf, b...)
}

func (g *gather) flush() error {
	if len(g.buf) > 0 {
		g.write(g.buf)
		g.buf = g.buf[:0]
	}
	return g.err
}

func (g *gather) write(b []byte) {
	if g.err == nil {
		g.err = g.pace.Send(g.w, b)
	}
}

// listBuffer is how much of a list is collected before it is sent. A shorter list has a
// Content-Length.
const listBuffer = 64 << 10

// pageMax bounds the elements of a page of a list.
const pageMax = 1000

// listPage selects elements of a list that is in the order of their names. The zero value selects all.
type listPage struct {
	most     int    // elements; 0: no limit
	after    string // only names after it
	contains string // only names with it, in lower case
}

func parsePage(q *httpconn.Params) (p listPage) {
	p.most = int(q.Number(httpconn.ParamLimit, 0, pageMax))
	p.after, _ = q.Text(httpconn.ParamAfter)
	p.contains, _ = q.Text(httpconn.ParamContains)
	p.contains = strings.ToLower(p.contains)
	return p
}

// pageOf reads the parameters of a list that has no others.
func pageOf(r *http.Request) (listPage, error) {
	q := httpconn.ParseParams(r.URL.RawQuery)
	p := parsePage(q)
	if q.Fault != nil {
		return p, q.Fault
	}
	return p, nil
}

// has reports whether the page may have the element with a name.
func (p *listPage) has(name string) bool { return name > p.after && p.names(name) }

// names reports whether one of several names of an element has what is searched.
func (p *listPage) names(names ...string) bool {
	return p.contains == "" || slices.ContainsFunc(names, func(n string) bool { return strings.Contains(strings.ToLower(n), p.contains) })
}

// small reserves memory for a small answer about the broker. It comes from a class that readers of
// records do not use, so that slow readers cannot make an operator blind, or else from theirs.
func (a *API) small(n int64) (*budget.Reservation, error) {
	if memory := a.answers.ReserveNow(n); memory != nil {
		return memory, nil
	}
	return a.fetch.Reserve(n)
}

// list is a JSON object with one array. It makes and sends one element after the other, so that
// only one takes memory.
type list struct {
	a    *API
	w    http.ResponseWriter
	buf  []byte
	n    int
	most int    // of a page; 0: no limit
	last string // the name of the last element
	sent bool   // the head is sent: an error can only cut the answer
}

// newList begins a list of at most this many elements; 0: of all.
func (a *API) newList(w http.ResponseWriter, member string, most int) *list {
	return &list{a: a, w: w, buf: fmt.Appendf(nil, "{%q:[", member), most: most}
}

// add appends an element and reserves size bytes while it is made. name is the parameter after of the
// elements behind it. element returns nil if the element no longer exists. After an error, which at the
// end of a page is errStop, the list is over: pass the error to end.
func (l *list) add(ctx context.Context, name string, size int64, element func() (any, error)) error {
	return l.addText(ctx, name, size, func(b []byte) ([]byte, error) {
		v, err := element()
		if err != nil || v == nil {
			return nil, err
		}
		text, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("encode answer: %w", err)
		}
		return append(b, text...), nil
	})
}

// addText is add for an element that appends its JSON to a buffer, or returns nil if it no longer exists.
func (l *list) addText(ctx context.Context, name string, size int64, element func(b []byte) ([]byte, error)) error {
	if l.most > 0 && l.n == l.most {
		return errStop
	}
	var err error
	memory := l.a.answers.ReserveNow(size + 2*listBuffer)
	if memory == nil {
		if memory, err = l.a.fetch.ReserveWait(ctx, size+2*listBuffer); err != nil {
			return err
		}
	}
	defer memory.Release()
	b := l.buf
	if l.n > 0 {
		b = append(b, ',')
	}
	if b, err = element(b); err != nil || b == nil {
		return err
	}
	l.last, l.buf = name, b
	if l.n++; len(l.buf) < listBuffer {
		return nil
	}
	if !l.sent {
		l.sent = true
		l.head().WriteHeader(http.StatusOK)
	}
	err = l.a.pace.Send(l.w, l.buf)
	if l.buf = l.buf[:0]; cap(l.buf) > 2*listBuffer {
		l.buf = nil
	}
	return err
}

func (l *list) head() http.ResponseWriter {
	h := l.w.Header()
	h.Set("Content-Type", api.JSON)
	h.Set("X-Content-Type-Options", "nosniff")
	return l.w
}

// end sends the rest. With an error it cuts an answer that has begun, so that it does not look
// complete.
func (l *list) end(err error) error {
	switch {
	case err == errStop:
	case err != nil && l.sent:
		panic(http.ErrAbortHandler)
	case err != nil:
		return err
	}
	l.buf = append(l.buf, ']')
	if err != nil {
		l.buf = encoding.AppendString(append(l.buf, `,"next":`...), l.last)
	}
	l.buf = append(l.buf, '}')
	if l.sent {
		_ = l.a.pace.Send(l.w, l.buf)
		return nil
	}
	l.head()
	l.a.write(l.w, http.StatusOK, l.buf)
	return nil
}

const (
	// askedHeaders are the request headers that a page of another origin may set, and shownHeaders
	// those of answers that it may read.
	askedHeaders = "Authorization, Content-Type, Accept, If-Match, If-None-Match, Last-Event-ID, " +
		api.HeaderProducerID + ", " + api.HeaderProducerEpoch + ", " + api.HeaderSequence + ", " + api.HeaderAfter
	shownHeaders = "ETag, Retry-After, WWW-Authenticate, " + api.HeaderEpoch + ", " + api.HeaderBaseOffset + ", " + api.HeaderNextOffset + ", " +
		api.HeaderResumeOffset + ", " + api.HeaderOffset + ", " + api.HeaderPartition + ", " + api.HeaderTimestamp + ", " + api.HeaderKeyIndexLag + ", " +
		api.HeaderValueBytes + ", " + api.HeaderScannedRecords + ", " + api.HeaderScannedBytes + ", " + api.HeaderPosition + ", " + api.HeaderLeader
	// preflightSeconds is how long a browser may keep the answer to a preflight.
	preflightSeconds = "600"
)

// admitOrigin refuses the request of a web page of another origin, unless Options.Origins names it.
// Then it sets the headers that let the page read the answer.
func (a *API) admitOrigin(w http.ResponseWriter, r *http.Request) *api.Problem {
	given, ok := r.Header["Origin"]
	if !ok {
		return nil // not of a page, or of a page that may not read the answer
	}
	origin := strings.Join(given, " ")
	same, admitted := KnownOrigin(r, a.o.Origins)
	if same {
		return nil
	}
	if !admitted {
		return problem.New(api.Forbidden, "a page of origin %s may not use this broker; --cors-origin names those that may", problem.Quote(origin))
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", shownHeaders)
	return nil
}

// KnownOrigin reports whether a request with an Origin header comes from a page of this broker, or
// from one of the origins.
func KnownOrigin(r *http.Request, origins []string) (same, admitted bool) {
	origin := strings.Join(r.Header["Origin"], " ")
	_, host, _ := strings.Cut(origin, "://")
	same = host != "" && strings.EqualFold(host, r.Host)
	return same, slices.ContainsFunc(origins, func(o string) bool { return strings.EqualFold(o, origin) })
}

// isPreflight reports whether a browser asks which requests a page of another origin may send.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// servePreflight answers a preflight of an admitted origin.
func (a *API) servePreflight(w http.ResponseWriter, r *http.Request) error {
	methods := allowed(r)
	if methods == "" {
		return problem.New(api.NotFound, "no route %s; see /openapi.json", problem.Quote(r.URL.Path))
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", methods)
	h.Set("Access-Control-Allow-Headers", askedHeaders)
	h.Set("Access-Control-Max-Age", preflightSeconds)
	return a.noContent(w)
}

// hasKey reports whether a request to a route without a key has a valid one. Then it does not come
// from a page that only knows the broker's address.
func (a *API) hasKey(r *http.Request) bool {
	_, err := a.o.Auth.Bearer(r.Context(), r.Header["Authorization"], r.RemoteAddr)
	return err == nil
}

// KnownHost reports whether a Host header is an IP address, localhost or one of the names, with or
// without a port, or absent. A web page whose own name resolves to the broker's address sends
// another one, and must not read answers that need no key.
func KnownHost(host string, names []string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.Trim(name, "[]")
	if host == "" || strings.EqualFold(name, "localhost") || net.ParseIP(name) != nil {
		return true
	}
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}
