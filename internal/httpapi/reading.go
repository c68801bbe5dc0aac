package httpapi

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/problem"
	"github.com/sebbroker/seb/record"
)

// Reading is one read of a partition: what is wanted, and how far it has come. An answer is collected as a whole before
// its first byte is sent, so that an error has a status, and what does not fit is left for the next read. It belongs to
// the request's goroutine, which calls Done at its end.
type Reading struct {
	Topic      string
	Partition  int32
	Offset     int64  // next record wanted; behind what was collected, and what compaction has removed after it
	Group      string // whose committed offset it begins at; "": none
	Edge       string // Earliest or Latest, where it begins; "": at Offset, or that of Group
	MaxRecords int64
	MaxBytes   int64 // of keys and values; 0 means no bound but the broker's
	Timeout    time.Duration
	Patient    bool // it waits for memory instead of being refused, or given less
	// Condition is what the client has already of answers to this request.
	Condition *httpconn.Condition
	Tagged    bool // the answer gets an entity tag if it is one that stays as it is

	Count int64 // records collected
	Bytes int64 // of their keys and values
	End   int64 // of the partition, as the last fetch saw it

	answer
	topicID  record.ID // of the topic that is read; zero: whichever has the name
	begun    int64     // where the collection began
	resumed  int64     // the committed offset of Group, or that of Edge
	full     bool      // no more fits
	short    bool      // there would have been more, but not the memory for it
	inflated int64     // bytes reserved for r's own buffer
	r        record.Reader
	value    record.Record // of r, where values are all that is wanted: an object for all of them

	gathers bool   // buf is needed if there are records
	buf     []byte // of gatherSize, of memory
	entered int64  // bytes of the gate
}

// New returns a reading of a partition, the first if it is not given (-1). What else is wanted is for the caller to set.
func (s *Source) New(topic string, partition int32) *Reading {
	return &Reading{answer: s.newAnswer(), Topic: topic, Partition: max(partition, 0)}
}

// The names of offsets that move: the first of a partition that is there, and the one that is written next.
const (
	Earliest = "earliest"
	Latest   = "latest"
)

// Begin reads the parameters that say where the read is to begin: at an offset, or with a group where that has got to.
// Either must be given.
func (g *Reading) Begin(q *httpconn.Params) {
	if _, ok := q.Text(httpconn.ParamGroup); !ok {
		if text, _ := q.Text(httpconn.ParamOffset); text == Earliest || text == Latest {
			g.Edge = text
		} else {
			g.Offset = q.Offset()
		}
		return
	}
	g.Group = q.Group()
	if _, both := q.Text(httpconn.ParamOffset); both {
		q.Fail(httpconn.ParamOffset, "not together with %s: the read begins at the committed offset", httpconn.ParamGroup)
	}
}

// Confirm looks the partition up, and finds where the read begins if no offset is given. latest makes sure that what was
// committed anywhere before this request is seen by it.
func (g *Reading) Confirm(r *http.Request, latest bool) error {
	if latest {
		if err := g.s.b.Confirm(r.Context()); err != nil {
			return err
		}
	}
	n, err := g.s.b.Partitions(g.Topic)
	switch {
	case err != nil:
		return err
	case int(g.Partition) >= n:
		return UnknownPartition(g.Topic, g.Partition, n)
	case g.Group == "" && g.Edge == "":
		return nil
	}
	p, err := g.s.b.Partition(g.Topic, g.Partition)
	if err != nil {
		return err
	}
	switch g.Edge {
	case Earliest:
		g.Offset = p.Start
	case Latest:
		g.Offset = p.Next
	default:
		return g.resume(r, p.Start)
	}
	g.resumed = g.Offset
	return nil
}

// resume looks up where the group has got to: its committed offset, or the partition's start if it has none.
func (g *Reading) resume(r *http.Request, start int64) error {
	g.Offset = start
	info, err := g.s.b.Group(r.Context(), g.Group, false)
	if err != nil && !errors.Is(err, broker.ErrUnknownGroup) {
		return err
	}
	for _, o := range info.Offsets {
		if o.Topic == g.Topic && o.Partition == g.Partition {
			g.Offset = o.Offset
		}
	}
	g.resumed = g.Offset
	return nil
}

// UnknownPartition is the problem of a partition that a topic of so many does not have.
func UnknownPartition(topic string, partition int32, partitions int) *api.Problem {
	p := problem.New(api.UnknownPartition, "topic %s has %d partitions, the first is 0; there is no %d", topic, partitions, partition)
	p.Partition = &partition
	return p
}

// Head sets the headers that every form has, and counts what was read. n is the length of the body, -1 if it is not
// known.
func (g *Reading) Head(w http.ResponseWriter, kind string, n int64) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if h.Get("ETag") != "" {
		h.Set("Cache-Control", "private, no-cache")
	}
	if n >= 0 {
		h.Set("Content-Length", strconv.FormatInt(n, 10))
	}
	h.Set(api.HeaderEpoch, strconv.FormatUint(uint64(g.s.b.Epoch()), 10))
	h.Set(api.HeaderNextOffset, strconv.FormatInt(g.End, 10))
	if g.Group != "" || g.Edge != "" {
		h.Set(api.HeaderOffset, strconv.FormatInt(g.resumed, 10))
	}
	g.Counted()
}

// headOfRecords is Head, and says where the next read goes on.
func (g *Reading) headOfRecords(w http.ResponseWriter, kind string, n int64) {
	w.Header().Set(api.HeaderResumeOffset, strconv.FormatInt(g.Offset, 10))
	g.Head(w, kind, n)
}

// Counted adds what was collected to the metrics.
func (g *Reading) Counted() {
	g.s.o.Records.AddInt64(g.Count)
	g.s.o.Bytes.AddInt64(g.Bytes)
}

// Again gives the memory of what was collected back and makes the reading ready to go on from Offset with at most n
// records.
func (g *Reading) Again(n int64) {
	g.release()
	g.Count, g.Bytes, g.full = 0, 0, false
	g.MaxRecords = n
}

// Done gives everything back.
func (g *Reading) Done() {
	g.release()
	if g.entered > 0 {
		g.s.gate.Release(g.entered)
		g.entered = 0
	}
}
