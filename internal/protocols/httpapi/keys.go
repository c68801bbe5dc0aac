package httpapi

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/views/keyindex"
	"github.com/sebbroker/seb/internal/protocols/encoding"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/record"
)

// KeyIndex finds the records of keys. *keyindex.View implements it and documents the promises. All
// methods may be called concurrently. Errors are keyindex.ErrNotIndexed, ErrInvalid, ErrClosed,
// ErrUnavailable and those of ctx.
type KeyIndex interface {
	// Get returns the newest record of a key in a partition, or in any (-1). It may be a tombstone.
	Get(ctx context.Context, topic record.ID, key []byte, partition int) (keyindex.Entry, bool, error)
	// List returns the next keys that have a value, with their newest records, in order of bytes.
	// No keys means the end.
	List(ctx context.Context, topic record.ID, q keyindex.ListQuery) ([]keyindex.Entry, error)
	// History returns the next records of a key. Fewer than requested means the end.
	History(ctx context.Context, topic record.ID, key []byte, q keyindex.HistoryQuery) ([]keyindex.Entry, error)
	// Forget removes entries whose records no longer exist.
	Forget(ctx context.Context, topic record.ID, gone []keyindex.Entry) error
	// Lag returns the number of committed records of a topic that are not in the index yet.
	Lag(topic record.ID) int64
	// WaitFor waits until the record at an offset is in the index, even if it is not committed yet.
	WaitFor(ctx context.Context, topic record.ID, partition uint32, offset int64) error
}

// keyed is a request about keys.
type keyed struct {
	a         *API
	by        *caller
	q         *httpconn.Params
	topic     string
	key       []byte // nil: none
	partition int32  // -1: any
	minOffset int64  // -1: absent
	latest    bool
	timeout   time.Duration

	info broker.TopicRef
}

// parseKeyed reads the parameters that all requests about keys share.
func (a *API) parseKeyed(r *http.Request, by *caller) *keyed {
	q := httpconn.ParseParams(r.URL.RawQuery)
	return &keyed{
		a: a, by: by, q: q, topic: q.Topic(), partition: q.Partition(), latest: q.Latest(),
		minOffset: q.Number(httpconn.ParamMinOffset, -1, math.MaxInt64), timeout: q.Duration(httpconn.ParamTimeout, timeoutDefault, timeoutMax),
	}
}

// needKey reads the required key.
func (k *keyed) needKey() {
	if k.key = k.q.Key(httpconn.ParamKey); k.key == nil {
		k.q.Fail(httpconn.ParamKey, "required; write an empty key as %s=", httpconn.ParamKey)
	}
}

// begin looks up the topic and waits until the index has what the request needs. From here on
// answers report the index's lag.
func (k *keyed) begin(w http.ResponseWriter, r *http.Request) error {
	if k.q.Fault != nil {
		return k.q.Fault
	}
	var err error
	if k.latest {
		err = k.a.b.Confirm(r.Context())
	}
	if err == nil {
		err = k.find()
	}
	if err != nil {
		return err
	}
	n := k.info.Partitions
	switch {
	case int(k.partition) >= n:
		return UnknownPartition(k.topic, k.partition, n)
	case !state.Resolve(k.info.Settings).KeyIndex:
		return problem.New(api.KeyIndexOff, `enable it with PUT /topic and {"settings":{"key-index":true}}, or `+
			"`seb topic update %s -s key-index=true`; topics with cleanup-policy compact have one", k.topic)
	case k.a.o.Keys == nil:
		return problem.New(api.KeyIndexOff, "this broker has no key index")
	}
	if k.minOffset >= 0 {
		p := k.partition
		if p < 0 && k.key == nil && n > 1 {
			return problem.BadField(httpconn.ParamMinOffset, "requires %s: the topic has %d partitions", httpconn.ParamPartition, n)
		} else if p < 0 {
			p = record.PartitionOf(k.key, n)
		}
		if err := k.wait(r.Context(), p, k.minOffset); err != nil {
			return err
		}
	}
	if k.latest {
		if err := k.catchUp(r.Context()); err != nil {
			return err
		}
	}
	w.Header().Set(api.HeaderKeyIndexLag, strconv.FormatInt(k.a.o.Keys.Lag(k.info.ID), 10))
	return nil
}

// find looks up the topic.
func (k *keyed) find() (err error) {
	known := false
	if k.info, known = k.a.b.TopicNamed(k.topic); !known {
		return state.ErrUnknownTopic
	}
	return nil
}

// bounds returns the current bounds of a partition, empty ones if it does not exist.
func (k *keyed) bounds(partition uint32) broker.Bounds {
	o, _ := k.a.b.Bounds(k.info.ID, int32(partition))
	return o
}

// wait waits until the index has the record at an offset.
func (k *keyed) wait(ctx context.Context, partition int32, offset int64) error {
	outer := ctx
	ctx, done := k.a.stops.Until(ctx)
	defer done()
	ctx, stop := k.by.until(ctx)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	err := k.a.o.Keys.WaitFor(ctx, k.info.ID, uint32(partition), offset)
	if err == nil || outer.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	p := problem.New(api.KeyIndexBehind, "waited %s for offset %d of partition %d; the index lacks %d records of the topic",
		k.timeout, offset, partition, k.a.o.Keys.Lag(k.info.ID))
	p.Partition, p.Offset = &partition, &offset
	return p
}

// catchUp waits until the index has everything that was committed when the topic was looked up.
func (k *keyed) catchUp(ctx context.Context) error {
	for i := range int32(k.info.Partitions) {
		if k.partition >= 0 && i != k.partition {
			continue
		}
		if p := k.bounds(uint32(i)); p.Stable > p.Start {
			if err := k.wait(ctx, i, p.Stable-1); err != nil {
				return err
			}
		}
	}
	return nil
}

// trimmed reports whether an entry's record is below its partition's start. A partition that was
// added after the lookup counts as not trimmed.
func (k *keyed) trimmed(e *keyindex.Entry) bool {
	return int(e.Partition) < k.info.Partitions && e.Offset < k.bounds(e.Partition).Start
}

// present removes entries whose records were trimmed, in place.
func (k *keyed) present(entries []keyindex.Entry) []keyindex.Entry {
	return slices.DeleteFunc(entries, func(e keyindex.Entry) bool { return k.trimmed(&e) })
}

// forget removes entries of deleted records from the index. An error does not affect the answer.
func (k *keyed) forget(ctx context.Context, gone []keyindex.Entry) {
	if len(gone) == 0 {
		return
	}
	if err := k.a.o.Keys.Forget(ctx, k.info.ID, gone); err != nil {
		k.a.log.Debug("removal of stale key index entries failed", "topic", k.topic, "err", err)
	}
}

// limit reads the maximum number of entries.
func (k *keyed) limit() int {
	n := k.q.Number(httpconn.ParamLimit, limitDefault, keyindex.LimitMax)
	n = cmp.Or(n, limitDefault)
	return int(n)
}

const limitDefault = 100

// keyTypes are the media types of GET /key, in the order of preference.
var keyTypes = []string{api.OctetStream, api.JSON}

// staleMax bounds the index entries of removed records that are skipped before a key counts as
// absent.
const staleMax = 8

// getKey answers with the newest value of a key. A HEAD request uses only the index.
func (a *API) getKey(w http.ResponseWriter, r *http.Request, by *caller) error {
	kind := httpconn.Negotiate(r.Header.Values("Accept"), keyTypes)
	if kind == "" {
		return problem.New(api.NotAcceptable, "want one of %s", strings.Join(keyTypes, ", "))
	}
	k := a.parseKeyed(r, by)
	k.needKey()
	if err := k.begin(w, r); err != nil {
		return err
	}
	for stale := 0; ; stale++ {
		e, ok, err := a.o.Keys.Get(r.Context(), k.info.ID, k.key, int(k.partition))
		if err != nil {
			return err
		}
		if !ok || e.Deleted || stale == staleMax {
			return k.notFound(&e, ok && e.Deleted)
		}
		err = k.answer(w, r, kind, &e)
		if !errors.Is(err, ErrGone) {
			return err
		}
		if stale == 0 {
			// Compaction keeps the newest record of a key, so the index does not have that record
			// yet.
			if err := k.refresh(r); err != nil {
				return err
			}
			continue
		}
		k.forget(r.Context(), []keyindex.Entry{e})
	}
}

// refresh waits until the index has everything that is committed now.
func (k *keyed) refresh(r *http.Request) (err error) {
	if err = k.find(); err != nil {
		return err
	}
	return k.catchUp(r.Context())
}

// head sets the headers of a single record.
func (k *keyed) head(w http.ResponseWriter, g *Reading, kind string, n int64, e *keyindex.Entry) {
	g.Head(w, kind, n)
	h := w.Header()
	h.Set(api.HeaderPartition, strconv.FormatUint(uint64(e.Partition), 10))
	h.Set(api.HeaderOffset, strconv.FormatInt(e.Offset, 10))
	h.Set(api.HeaderTimestamp, strconv.FormatInt(e.Timestamp, 10))
}

func (k *keyed) notFound(e *keyindex.Entry, deleted bool) error {
	p := problem.New(api.KeyNotFound, "topic %s has no record of this key", k.topic)
	if k.partition >= 0 {
		p = problem.New(api.KeyNotFound, "partition %d of topic %s has no record of this key", k.partition, k.topic)
		p.Partition = &k.partition
	}
	if deleted {
		partition := int32(e.Partition)
		p = problem.New(api.KeyNotFound, "the newest record of the key is a tombstone")
		p.Partition, p.Offset = &partition, &e.Offset
	}
	p.Topic = k.topic
	return p
}

// answer sends the record of an entry. After ErrGone nothing was sent.
func (k *keyed) answer(w http.ResponseWriter, r *http.Request, kind string, e *keyindex.Entry) error {
	if k.trimmed(e) || int(e.Partition) >= k.info.Partitions {
		return ErrGone // of a new partition; the next lookup finds it
	}
	g := k.a.source.New(k.topic, int32(e.Partition))
	defer g.Done()
	g.Offset = e.Offset
	g.End = k.bounds(e.Partition).Stable
	if r.Method == http.MethodHead {
		k.head(w, g, kind, -1, e)
		w.WriteHeader(http.StatusOK)
		return nil
	}
	if kind == api.JSON {
		t := encoding.Text{Form: encoding.Single, Partition: g.Partition}
		if err := g.One(r.Context(), &t); err != nil {
			return err
		}
		k.head(w, g, kind, t.Out.Size, e)
		k.a.pace.ExtendWrite(w)
		w.WriteHeader(http.StatusOK)
		return Sent(k.a.pace.SendAll(w, &t.Out))
	}
	var v encoding.Values
	if err := g.One(r.Context(), &v); err != nil {
		return err
	}
	k.head(w, g, kind, v.Sum, e)
	k.a.pace.ExtendWrite(w)
	w.WriteHeader(http.StatusOK)
	return Sent(k.a.pace.Send(w, v.Refs[0]))
}

const (
	// entryBytes bounds the memory of an index entry and of its answer, without the key. keyTimes
	// is the number of copies of the key. listBytes bounds the keys that the index returns.
	entryBytes = 512
	keyTimes   = 8
	listBytes  = 4 << 20
	// escapedMax bounds a key as text in a URL, where it takes up to three times its length. A key
	// in base64 always fits.
	escapedMax = httpconn.KeyMax
)

// getKeys answers with a page of the keys that have a value, in order of their bytes.
func (a *API) getKeys(w http.ResponseWriter, r *http.Request, by *caller) error {
	k := a.parseKeyed(r, by)
	q := keyindex.ListQuery{Prefix: k.q.Key(httpconn.ParamPrefix), After: k.q.Key(httpconn.ParamAfter), Limit: k.limit()}
	if k.partition >= 0 && k.minOffset < 0 {
		k.q.Fail(httpconn.ParamPartition, "only allowed with %s: keys are listed from all partitions", httpconn.ParamMinOffset)
	}
	if err := k.begin(w, r); err != nil {
		return err
	}
	memory, err := a.fetch.Reserve(listBytes + int64(q.Limit)*entryBytes)
	if err != nil {
		return err
	}
	defer memory.Release()
	out := api.Keys{Keys: []api.KeyEntry{}}
	for {
		last, err := k.page(r.Context(), q, memory, &out)
		if err != nil {
			return err
		}
		if out.Next, out.NextBase64 = keyText(last); out.Next != nil && len(url.QueryEscape(*out.Next)) > escapedMax {
			out.Next, out.NextBase64 = nil, new(base64.StdEncoding.EncodeToString(last))
		}
		if len(last) <= httpconn.KeyMax {
			break
		}
		q.After = last // too long for the parameter after, so the page ends later
	}
	return a.writeState(w, http.StatusOK, &out)
}

// page adds a page of the index to out and returns its last key, or nil at the end.
func (k *keyed) page(ctx context.Context, q keyindex.ListQuery, memory *budget.Reservation, out *api.Keys) ([]byte, error) {
	entries, err := k.a.o.Keys.List(ctx, k.info.ID, q)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	size := int64(0)
	for i := range entries {
		if entries[i].Key == nil {
			entries[i].Key = []byte{} // the empty key; nil means none
		}
		size += entryBytes + keyTimes*int64(len(entries[i].Key))
	}
	if err := memory.Grow(size); err != nil {
		return nil, err
	}
	last := entries[len(entries)-1].Key
	for _, e := range k.present(entries) {
		entry := api.KeyEntry{Partition: int32(e.Partition), Offset: e.Offset, Timestamp: e.Timestamp}
		entry.Key, entry.KeyBase64 = keyText(e.Key)
		out.Keys = append(out.Keys, entry)
	}
	return last, nil
}

// keyText returns a key for JSON: as text if it is valid UTF-8, else in base64. Both are nil
// without a key.
func keyText(key []byte) (text, encoded *string) {
	switch {
	case key == nil:
		return nil, nil
	case utf8.Valid(key):
		return new(string(key)), nil
	}
	return nil, new(base64.StdEncoding.EncodeToString(key))
}

// The orders of GET /key/history.
const (
	newestFirst = "newest"
	oldestFirst = "oldest"
)

// getKeyHistory answers with a page of the records of a key, including tombstones.
func (a *API) getKeyHistory(w http.ResponseWriter, r *http.Request, by *caller) error {
	k := a.parseKeyed(r, by)
	k.needKey()
	q := keyindex.HistoryQuery{Partition: int(k.partition), NewestFirst: true, After: k.after(), Limit: k.limit()}
	switch order, given := k.q.Text(httpconn.ParamOrder); {
	case order == oldestFirst:
		q.NewestFirst = false
	case given && order != newestFirst:
		k.q.Fail(httpconn.ParamOrder, "want %s or %s, given %s", newestFirst, oldestFirst, problem.Quote(order))
	}
	bytesMax := k.q.Number(httpconn.ParamMaxBytes, 0, 1<<62)
	if err := k.begin(w, r); err != nil {
		return err
	}
	memory, err := a.fetch.Reserve(int64(q.Limit) * (entryBytes + int64(len(k.key))))
	if err != nil {
		return err
	}
	defer memory.Release()
	entries, err := a.o.Keys.History(r.Context(), k.info.ID, k.key, q)
	if err != nil {
		return err
	}
	p := a.source.RecordsOf(k.topic, encoding.Page)
	p.BytesMax, p.Timeout = bytesMax, k.timeout
	defer p.Memory.Release()
	if err := k.records(r.Context(), p, entries, q.Limit); err != nil {
		return err
	}
	a.readHeaders(w)
	w.Header().Set("Content-Type", api.JSON)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	return p.Send(w)
}

// records collects the records of entries.
func (k *keyed) records(ctx context.Context, p *Records, entries []keyindex.Entry, limit int) error {
	more := len(entries) == limit
	var last *keyindex.Entry // the last entry on the page
	if n := len(entries); n > 0 {
		last = new(entries[n-1])
	}
	entries = k.present(entries)
	places := make([]RecordID, len(entries))
	for i, e := range entries {
		places[i] = RecordID{Partition: int32(e.Partition), Offset: e.Offset}
	}
	done, missing, err := p.Collect(ctx, places)
	if err != nil {
		return err
	}
	gone := make([]keyindex.Entry, len(missing))
	for i, at := range missing {
		gone[i] = entries[at]
	}
	k.forget(ctx, gone)
	if done < len(entries) {
		more, last = true, &entries[done-1]
	}
	if more {
		p.Out.Next = strconv.FormatUint(uint64(last.Partition), 10) + ":" + strconv.FormatInt(last.Offset, 10)
	}
	return p.Out.Finish(&p.Memory)
}

// after reads the start of a page of a history: after the record "<partition>:<offset>".
func (k *keyed) after() *keyindex.RecordID {
	text, given := k.q.Text(httpconn.ParamAfter)
	if !given {
		return nil
	}
	partition, offset, ok := strings.Cut(text, ":")
	p, err := strconv.ParseUint(partition, 10, 31)
	o, fault := strconv.ParseUint(offset, 10, 63)
	if !ok || err != nil || fault != nil {
		k.q.Fail(httpconn.ParamAfter, "want the value of next, like 0:17, given %s", problem.Quote(text))
	}
	return &keyindex.RecordID{Partition: uint32(p), Offset: int64(o)}
}
