package httpapi

import (
	"context"
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/encoding"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/record"
)

// newestWindows bounds the reads of one answer, so that a long part without records, which
// compaction has removed, ends an answer and not a request.
const newestWindows = 32

const (
	// scanFirst is the number of records in the first window of a scan.
	scanFirst = 256
	// scanWindow bounds the bytes of a window of a scan. A window with more is incomplete, and a
	// narrower one follows.
	scanWindow = 4 * scanFetch
)

// newest is an answer with the records below an offset, newest first. The log is read forwards, so
// it collects one window of offsets after the other, each below the one before, and turns it round.
//
//	start      3rd window   2nd window   1st window   Offset
//	  |  ...  |------------|------------|------------|
type newest struct {
	*Reading
	pieces   [][]byte // the records in JSON, each with a line end, newest first
	windows  int      // read
	from     int64    // Offset at the start
	stop     int64    // of the scan
	until    time.Time
	memories []budget.Arena
	size     int64
}

// isNewest reads the parameter order.
func isNewest(q *httpconn.Params) bool {
	order, given := q.Text(httpconn.ParamOrder)
	if given && order != newestFirst && order != oldestFirst {
		q.Fail(httpconn.ParamOrder, "want %s or %s, given %s", newestFirst, oldestFirst, problem.Quote(order))
	}
	return order == newestFirst
}

// beginNewest reads the parameters of the start: the offset that the records are below.
func (g *Reading) beginNewest(q *httpconn.Params, form string) {
	if _, given := q.Text(httpconn.ParamGroup); given {
		q.Fail(httpconn.ParamGroup, "not together with %s=%s", httpconn.ParamOrder, newestFirst)
	}
	switch text, given := q.Text(httpconn.ParamOffset); {
	case !given, text == Latest:
		g.Edge = Latest
	default:
		g.Offset = q.Offset()
	}
	if form != api.JSON && form != api.NDJSON {
		q.Fail(httpconn.ParamOrder, "%s: only with %s and %s, not with %s", newestFirst, api.JSON, api.NDJSON, form)
	}
}

// newestText answers with records in JSON, newest first. It does not wait for records.
func (g *Reading) newestText(w http.ResponseWriter, r *http.Request, kind string) error {
	if err := g.s.b.Within(r.Context(), g.Topic, g.Partition, g.Offset); err != nil {
		return err
	}
	n := newest{Reading: g, from: g.Offset}
	if g.scan != nil {
		n.stop, n.until = g.scan.stop, g.scan.until
	}
	defer n.release()
	if err := n.collect(r.Context()); err != nil {
		return err
	}
	buf, err := g.memory.Get(gatherSize)
	if err != nil {
		return err
	}
	size := n.size
	if kind == api.JSON {
		size += n.arrayBytes()
	}
	g.headOfRecords(w, kind, size)
	g.s.o.Timeout.ExtendWrite(w)
	w.WriteHeader(http.StatusOK)
	out := gather{pace: g.s.o.Timeout, w: w, buf: buf[:0]}
	for i, piece := range n.pieces {
		if kind == api.JSON {
			out.add([]byte(arrayStart(i)))
			piece = piece[:len(piece)-1] // without the line end
		}
		out.add(piece)
	}
	if kind == api.JSON {
		if len(n.pieces) == 0 {
			out.add([]byte(arrayStart(0)))
		}
		out.add([]byte(arrayEnd))
	}
	return Sent(out.flush())
}

const arrayEnd = "]\n"

// arrayStart is the text in front of an element of an array.
func arrayStart(i int) string {
	if i == 0 {
		return "["
	}
	return ",\n"
}

// arrayBytes is the length that an array adds to the pieces.
func (n *newest) arrayBytes() int64 {
	if len(n.pieces) == 0 {
		return int64(len(arrayStart(0) + arrayEnd))
	}
	lines := int64(len(n.pieces))
	return int64(len(arrayStart(0)+arrayEnd)) + (lines-1)*int64(len(arrayStart(1))) - lines
}

func (n *newest) release() {
	for i := range n.memories {
		n.memories[i].Release()
	}
	n.Done()
}

// collect adds records until there are enough or no older ones exist. Then Offset is the one below
// which the next answer continues, or 0 if there are no older records. An error means that there is
// no record: a later error only ends the answer.
func (n *newest) collect(ctx context.Context) error {
	ref, ok := n.s.b.TopicNamed(n.Topic)
	if !ok {
		return state.ErrUnknownTopic
	}
	var failed error
	widest := int64(math.MaxInt64) // offsets of a window; fewer if memory is short
	for ; n.continues(ctx); n.windows++ {
		left := n.MaxRecords - n.Count
		p, err := n.s.b.Bounds(ref.ID, n.Partition)
		if err != nil {
			return err
		}
		n.End = p.End(n.Isolation)
		if n.Offset = min(n.Offset, n.End); n.Offset <= p.Start {
			n.Offset = 0
			return nil
		}
		if left <= 0 || n.full {
			return nil
		}
		from, err := n.s.b.OffsetBelow(ref.ID, n.Partition, n.Offset, max(left, n.wide()))
		if err != nil {
			return err
		}
		from = max(from, n.Offset-widest)
		w := &offsetWindow{
			n: n, from: from, end: n.Offset, memory: n.s.newAnswer().memory, text: encoding.Text{Form: encoding.EachLine, ValueMax: n.ValueMax},
		}
		err = w.collect(ctx)
		switch failed = err; {
		case err == nil:
			n.take(w)
		case errors.Is(err, broker.ErrBelowStart): // trimmed meanwhile
			w.memory.Release()
		case (lacksMemory(err) || err == errIncomplete) && n.Offset-from > 1:
			w.memory.Release()
			widest = (n.Offset - from) / 2
		default:
			w.memory.Release()
			if n.Count > 0 || n.scan != nil && n.Offset < n.from {
				return nil // the next read starts at the error and reports it
			}
			return err
		}
	}
	if n.Count == 0 && n.scan == nil {
		return failed
	}
	return nil
}

// continues reports whether another window may be read.
func (n *newest) continues(ctx context.Context) bool {
	if n.scan == nil {
		return n.windows < newestWindows
	}
	if ctx.Err() != nil || n.s.o.Drain.Stopped() {
		return false
	}
	return n.windows == 0 || n.Offset == n.from || n.scan.bytes < n.stop && time.Now().Before(n.until)
}

// wide returns the number of records of the next window of a scan. Windows become wider, because
// the first ones show that few records match.
func (n *newest) wide() int64 {
	if n.scan == nil {
		return 0
	}
	each := int64(guess)
	if n.scan.records > 0 {
		each = n.scan.bytes/n.scan.records + 1
	}
	return min(scanFirst<<min(2*n.windows, 30), max(1, scanFetch/each))
}

// take adds the records of a window, newest first, as far as they are wanted.
func (n *newest) take(w *offsetWindow) {
	n.memories = append(n.memories, w.memory)
	for i := len(w.found) - 1; i >= 0; i-- {
		f := &w.found[i]
		if n.Count >= n.MaxRecords {
			return
		}
		if n.Count > 0 && n.MaxBytes > 0 && n.Bytes+f.bytes > n.MaxBytes {
			n.full = true
			return
		}
		n.pieces = append(n.pieces, f.piece)
		n.size += int64(len(f.piece))
		n.Count++
		n.Bytes += f.bytes
		n.Offset = f.offset
	}
	n.Offset = w.from
}

// offsetWindow has the records of the offsets [from, end). It is a Sink whose memory outlives the
// read.
type offsetWindow struct {
	n         *newest
	from, end int64
	text      encoding.Text
	memory    budget.Arena
	found     []found
	passed    bool // a record from end on was read
}

// found is a record of a window.
type found struct {
	piece  []byte
	offset int64
	bytes  int64 // of its key and value
}

// foundSize bounds the memory of a found and of its entry in an answer, while their slices grow.
const foundSize = 256

// errIncomplete reports that a window was read only in part.
var errIncomplete = errors.New("window is incomplete")

// collect reads the window.
func (w *offsetWindow) collect(ctx context.Context) error {
	g := w.n.s.New(w.n.Topic, w.n.Partition)
	defer g.Done()
	g.Offset, g.MaxRecords, g.ValueMax, g.Isolation = w.from, w.end-w.from, w.n.ValueMax, w.n.Isolation
	if s := w.n.scan; s != nil {
		g.scan, s.end, s.before = s, w.end, s.records
		s.stop, s.until = s.bytes+scanWindow, time.Now().Add(tailTime)
	}
	err := g.Collect(ctx, w)
	switch {
	case w.passed, err == nil && g.Offset >= w.end:
		return nil
	case err != nil:
		return err
	}
	return errIncomplete
}

// ValuesOnly implements encoding.Sink.
func (w *offsetWindow) ValuesOnly() bool { return false }

// Take implements encoding.Sink.
func (w *offsetWindow) Take(_ *budget.Arena, rec *record.Record, volatile bool) error {
	if rec.Offset >= w.end {
		w.passed = true
		return encoding.ErrFull
	}
	if err := w.memory.Hold(foundSize); err != nil {
		return err
	}
	before := w.text.Out.Size
	if err := w.text.Take(&w.memory, rec, volatile); err != nil {
		return err
	}
	last := w.text.Out.List[len(w.text.Out.List)-1]
	value := len(rec.Value)
	if most := w.n.ValueMax; most > 0 {
		value = min(value, most)
	}
	w.found = append(w.found, found{
		piece: last[len(last)-int(w.text.Out.Size-before):], offset: rec.Offset, bytes: int64(len(rec.Key) + value),
	})
	return nil
}
