package httpapi

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/httpapi/encoding"
	"github.com/sebbroker/seb/internal/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/keyindex"
	"github.com/sebbroker/seb/internal/problem"
)

// keyTypes are the media types of GET /key, in the order of preference.
var keyTypes = []string{api.OctetStream, api.JSON}

// staleMax bounds the index entries of removed records that are skipped before a key counts as
// absent.
const staleMax = 8

// getKey answers with the newest value of a key. A HEAD request uses only the index.
func (a *API) getKey(w http.ResponseWriter, r *http.Request) error {
	kind := httpconn.Negotiate(r.Header.Values("Accept"), keyTypes)
	if kind == "" {
		return problem.New(api.NotAcceptable, "want one of %s", strings.Join(keyTypes, ", "))
	}
	k := a.parseKeyed(r)
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
	g.End = k.bounds(e.Partition).Next
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
