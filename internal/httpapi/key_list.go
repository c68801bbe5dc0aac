package httpapi

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/httpapi/encoding"
	"github.com/sebbroker/seb/internal/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/keyindex"
	"github.com/sebbroker/seb/internal/problem"
)

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
