package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"golang.org/x/sync/semaphore"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/encoding"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/record"
)

// Reading is one read of a partition: the parameters and the progress. It collects an answer
// completely before the first byte is sent, so that an error has a status. Records that do not fit
// are left to the next read. A Reading belongs to the request's goroutine, which calls Done at the
// end.
type Reading struct {
	Topic     string
	Partition int32
	// Offset is the next wanted record. After collecting, it is behind the records and those that
	// compaction removed.
	Offset     int64
	Group      string // start at its committed offset; "": none
	Edge       string // start at Earliest or Latest; "": at Offset, or that of Group
	MaxRecords int64
	MaxBytes   int64            // of keys and values; 0: only the broker's bound
	ValueMax   int              // cuts longer values of JSON answers; 0: none
	Isolation  broker.Isolation // Committed or Uncommitted
	scan       *scan            // collect only what matches; nil: everything
	Timeout    time.Duration
	by         *caller // ends waits when it loses its rights; nil: nothing does
	streams    bool    // of an event stream
	displaced  bool    // a write has taken the connection's slot
	Waits      bool    // waits for memory instead of being refused or shortened
	// Condition is what the client has cached of this answer.
	Condition *httpconn.Condition
	Tagged    bool // set an entity tag if the answer is final

	Count int64 // collected records
	Bytes int64 // of their keys and values, as far as these are not cut
	End   int64 // of the partition, at the last fetch

	answer
	topicID  record.ID // zero: any topic with the name
	begun    int64     // start of the collection
	resumed  int64     // the committed offset of Group, or that of Edge
	stored   int64     // bytes of the keys and whole values of the collected records
	one      bool      // wants only the record at Offset
	leftOut  bool      // the record at begun is a marker, or of an aborted transaction
	full     bool      // no more fits
	short    bool      // more records are available, but not the memory for them
	inflated int64     // bytes reserved for r's own buffer
	r        record.Reader
	kept     budget.Arena  // of the matching records of a scan
	pinned   bool          // the answer has a value in the memory of the present fetch
	pins     []answer      // earlier fetches with such values
	value    record.Record // reused for reads that need only values

	gathers  bool   // buf is needed if there are records
	buf      []byte // of gatherSize, from memory
	acquired int64  // share of the semaphore
}

// New returns a reading of a partition; -1 means the first. The caller sets the other fields.
func (s *Source) New(topic string, partition int32) *Reading {
	a := s.newAnswer()
	return &Reading{answer: a, kept: a.memory, Topic: topic, Partition: max(partition, 0)}
}

// The names of moving offsets: the first of a partition, and the next to be written.
const (
	Earliest = "earliest"
	Latest   = "latest"
)

// Begin reads the parameters of the start: an offset, or a group, for its committed offset. One is
// required.
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

// isolationOf reads the parameter isolation.
func isolationOf(q *httpconn.Params) broker.Isolation {
	switch text, given := q.Text(httpconn.ParamIsolation); {
	case text == api.IsolationUncommitted:
		return broker.Uncommitted
	case given && text != api.IsolationCommitted:
		q.Fail(httpconn.ParamIsolation, "want %s or %s, given %s", api.IsolationCommitted, api.IsolationUncommitted, problem.Quote(text))
	}
	return broker.Committed
}

// Confirm looks up the partition, and the start if no offset is given. With latest the read
// includes everything that any broker committed before this request.
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
		g.Offset = p.End(g.Isolation)
	default:
		return g.resume(r, p.Start)
	}
	g.resumed = g.Offset
	return nil
}

// resume finds the group's position: its committed offset, or the partition's start.
func (g *Reading) resume(r *http.Request, start int64) error {
	g.Offset = start
	info, err := g.s.b.Group(r.Context(), g.Group, false)
	if err != nil && !errors.Is(err, state.ErrUnknownGroup) {
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

// UnknownPartition returns the problem of a partition that a topic does not have.
func UnknownPartition(topic string, partition int32, partitions int) *api.Problem {
	p := problem.New(api.UnknownPartition, "topic %s has %d partitions, the first is 0; there is no %d", topic, partitions, partition)
	p.Partition = &partition
	return p
}

// Head sets the headers of all encodings and counts the read. n is the length of the body, -1 if
// unknown.
func (g *Reading) Head(w http.ResponseWriter, kind string, n int64) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("X-Content-Type-Options", "nosniff")
	if g.displaced {
		h.Set("Connection", "close")
	}
	h.Set("Cache-Control", "no-store")
	if h.Get("ETag") != "" {
		h.Set("Cache-Control", "private, no-cache")
	}
	if n >= 0 {
		h.Set("Content-Length", strconv.FormatInt(n, 10))
	}
	h.Set(api.HeaderEpoch, strconv.FormatUint(uint64(g.s.b.Epoch()), 10))
	h.Set(api.HeaderNextOffset, strconv.FormatInt(g.End, 10))
	g.s.positions.set(h)
	if g.Group != "" || g.Edge != "" {
		h.Set(api.HeaderOffset, strconv.FormatInt(g.resumed, 10))
	}
	g.Counted()
}

// headOfRecords is Head with the start of the next read.
func (g *Reading) headOfRecords(w http.ResponseWriter, kind string, n int64) {
	w.Header().Set(api.HeaderResumeOffset, strconv.FormatInt(g.Offset, 10))
	if g.scan != nil {
		g.scan.headers(w.Header())
	}
	g.Head(w, kind, n)
}

// Counted adds the collected records to the metrics.
func (g *Reading) Counted() {
	g.s.o.Records.AddInt64(g.Count)
	g.s.o.Bytes.AddInt64(g.Bytes)
}

// Again releases the memory of the collected records. The reading can then continue at Offset with
// at most n records.
func (g *Reading) Again(n int64) {
	g.release()
	g.Count, g.Bytes, g.stored, g.full = 0, 0, 0, false
	g.MaxRecords = n
}

// Done releases everything.
func (g *Reading) Done() {
	g.release()
	if g.acquired > 0 {
		g.s.sem.Release(g.acquired)
		g.acquired = 0
	}
}

// readOptions configure NewSource. All fields are required.
type readOptions struct {
	// BudgetWait bounds the wait for memory of a reading with Waits.
	BudgetWait time.Duration
	// Drain ends waits for records and for memory.
	Drain *httpconn.DrainGroup
	// Timeout is the progress timeout of answers.
	Timeout httpconn.ProgressTimeout
	// Records and Bytes count what was read, before it is sent.
	Records, Bytes *metrics.Counter
}

// Source is the shared state of the readings of one broker. All methods may be called concurrently.
type Source struct {
	b          *broker.Broker
	o          readOptions
	fetch      *budget.Class
	buffers    *budget.Buffers
	requestMax int64
	// sem bounds the readings with Waits that are collected at once to gateSize bytes; others queue
	// in order. It estimates before the budget counts, so that an admitted reading finds memory and
	// need not stop half way.
	sem     *semaphore.Weighted
	semSize int64

	positions positions
}

// NewSource returns the source of readings of b.
func NewSource(b *broker.Broker, o readOptions) *Source {
	s := &Source{
		b: b, o: o, positions: positions{b: b}, fetch: b.Budget().Class(budget.Fetch), buffers: b.Budget().Buffers(), requestMax: b.Budget().RequestMax(),
	}
	// The rest is for readings that do not wait.
	s.semSize = s.fetch.Limit() / 4 * 3
	s.sem = semaphore.NewWeighted(s.semSize)
	return s
}

// gatherSize is the buffer in which small pieces of an answer are collected.
const gatherSize = 64 << 10

// Values collects values. If the reading waits for memory and its answer is short for lack of it,
// Values starts again with more. After Options.BudgetWait it returns what it has.
func (g *Reading) Values(ctx context.Context) (*encoding.Values, error) {
	if !g.Waits {
		return g.tryValues(ctx)
	}
	from, need := g.Offset, g.estimate()
	fits := need <= g.s.semSize
	if need > 0 {
		if err := g.acquire(ctx, need); err != nil && !lacksMemory(err) {
			return nil, err
		}
	}
	v, err := g.tryValues(ctx)
	for until := time.Now().Add(g.s.o.BudgetWait); lacksMemory(err) || err == nil && g.short && fits; {
		if need >= g.s.fetch.Limit() || time.Now().After(until) {
			break // the whole class is too small, or the deadline passed
		}
		need = min(max(2*need, windowSize), g.s.fetch.Limit())
		g.restart(from)
		if err := g.acquireAlone(ctx, need, until); err != nil && !lacksMemory(err) {
			return nil, err
		}
		v, err = g.tryValues(ctx)
	}
	g.settle()
	return v, err
}

// tryValues collects once.
func (g *Reading) tryValues(ctx context.Context) (*encoding.Values, error) {
	v := &encoding.Values{SizesMax: g.MaxBytes}
	err := g.Collect(ctx, v)
	if err == nil && g.Count > 0 && g.gathers {
		g.buf, err = g.memory.Get(gatherSize)
	}
	return v, err
}

// lacksMemory reports whether an error may disappear when other requests release memory.
func lacksMemory(err error) bool {
	return errors.Is(err, budget.ErrOver) || errors.Is(err, state.ErrOverBudget)
}

// estimate returns the approximate memory of the requested answer; 0 if no record is available.
func (g *Reading) estimate() int64 {
	p, err := g.s.b.Partition(g.Topic, g.Partition)
	if err != nil {
		return 0
	}
	end := p.End(g.Isolation)
	if g.Offset < p.Start || g.Offset >= end {
		return 0
	}
	const perRecord = 128 // overhead of a sink beside the value
	each := p.Bytes/max(p.Records, 1) + 1
	n := min(g.MaxRecords, end-g.Offset, p.Records)
	want := n * each
	if g.MaxBytes > 0 {
		want = min(want, g.MaxBytes) + each
		n = min(n, want/each)
	}
	// Whole batches are read into buffers that are not full, and the first and last batch are only
	// partly wanted.
	return 2*(want+min(p.Bytes, record.BatchTarget)) + n*perRecord + gatherSize
}

// acquire acquires a share of the semaphore.
func (g *Reading) acquire(ctx context.Context, need int64) error {
	ctx, done := g.s.waitContext(ctx, time.Now().Add(g.s.o.BudgetWait))
	defer done()
	need = min(need, g.s.semSize)
	if g.s.sem.Acquire(ctx, need) != nil {
		return tooLong(context.Cause(ctx))
	}
	g.acquired = need
	return nil
}

// acquireAlone waits until no other waiting read is running and need bytes of memory are free,
// which other reads then leave free. It holds no memory while it waits.
func (g *Reading) acquireAlone(ctx context.Context, need int64, until time.Time) error {
	ctx, done := g.s.waitContext(ctx, until)
	defer done()
	if g.acquired < g.s.semSize {
		g.s.sem.Release(g.acquired)
		g.acquired = 0
		if g.s.sem.Acquire(ctx, g.s.semSize) != nil {
			return tooLong(context.Cause(ctx))
		}
		g.acquired = g.s.semSize
	}
	room, err := g.s.fetch.ReserveWait(ctx, need)
	if err != nil {
		return tooLong(err)
	}
	room.Release() // the broker reserves part of it itself
	return nil
}

// waitContext returns the context of a wait for memory.
func (s *Source) waitContext(ctx context.Context, until time.Time) (context.Context, func()) {
	ctx, done := s.o.Drain.Until(ctx)
	ctx, cancel := context.WithDeadline(ctx, until)
	return ctx, func() { cancel(); done() }
}

// tooLong turns the deadline of a wait for memory into budget.ErrOver.
func tooLong(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", budget.ErrOver, err)
	}
	return err
}

// settle reduces the share of the semaphore to the real size of the collected answer, while it is
// sent.
func (g *Reading) settle() {
	used := g.memory.Reservation().Size()
	for _, f := range g.fetched {
		for i := range f.Parts {
			for j := range f.Parts[i].Chunks {
				if c := &f.Parts[i].Chunks[j]; c.Section == nil {
					used += c.Size
				}
			}
		}
	}
	if used < g.acquired {
		g.s.sem.Release(g.acquired - used)
		g.acquired = used
	}
}

// restart releases everything except the semaphore and starts the collection again.
func (g *Reading) restart(from int64) {
	g.release()
	g.Offset, g.Count, g.Bytes, g.full, g.short, g.buf = from, 0, 0, false, false, nil
}
