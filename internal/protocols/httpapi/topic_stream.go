package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/encoding"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/record"
)

// allPartitions is the value of the parameter partition for an event stream of a whole topic.
const allPartitions = "all"

// topicStreamMax bounds the partitions of such a stream, because each event ID has an offset of
// every partition.
const topicStreamMax = 100

// topicStream reads all partitions of a topic for one event stream. An event ID has the next offset
// of each partition, such as "0:124,1:78", so that one resumes the whole stream. The turns of the
// stream are fair: each starts behind the last partition that had records in the turn before.
type topicStream struct {
	*Reading
	next  []int64 // by partition
	first int     // partition at which the next turn starts
	id    []byte
}

// asksForAll reports whether a request is for all partitions of a topic.
func asksForAll(q *httpconn.Params) bool {
	text, _ := q.Text(httpconn.ParamPartition)
	return text == allPartitions
}

// beginAll reads the parameters of the start. It fills next from the event ID, which overrides the
// offset.
func (t *topicStream) beginAll(q *httpconn.Params, r *http.Request) {
	if _, given := q.Text(httpconn.ParamGroup); given {
		q.Fail(httpconn.ParamGroup, "not together with %s=%s", httpconn.ParamPartition, allPartitions)
	}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		var ok bool
		if t.next, ok = positionsOf(last); !ok {
			q.Fail("Last-Event-ID", "want the offsets of all partitions, like 0:124,1:78, given %s", problem.Quote(last))
		}
		return
	}
	switch text, given := q.Text(httpconn.ParamOffset); {
	case !given:
		q.Fail(httpconn.ParamOffset, "required")
	case text != Earliest && text != Latest:
		q.Fail(httpconn.ParamOffset, "want %s or %s with %s=%s, given %s", Earliest, Latest, httpconn.ParamPartition, allPartitions, problem.Quote(text))
	default:
		t.Edge = text
	}
}

// positionsOf parses an event ID: the offsets of the partitions from 0 on.
func positionsOf(id string) (next []int64, ok bool) {
	for text := range strings.SplitSeq(id, ",") {
		partition, offset, _ := strings.Cut(text, ":")
		n, err := strconv.ParseUint(offset, 10, 63)
		if err != nil || partition != strconv.Itoa(len(next)) || len(next) == topicStreamMax {
			return nil, false
		}
		next = append(next, int64(n))
	}
	return next, true
}

// confirm looks up the topic and the start of partitions without a position.
func (t *topicStream) confirm(ctx context.Context) error {
	if err := t.s.b.Confirm(ctx); err != nil {
		return err
	}
	ref, ok := t.s.b.TopicNamed(t.Topic)
	switch {
	case !ok:
		return state.ErrUnknownTopic
	case ref.Partitions > topicStreamMax:
		return problem.BadField(httpconn.ParamPartition, "%s: at most %d partitions, topic %s has %d", allPartitions, topicStreamMax, t.Topic, ref.Partitions)
	case len(t.next) > ref.Partitions:
		return UnknownPartition(t.Topic, int32(len(t.next)-1), ref.Partitions)
	}
	t.topicID = ref.ID
	for i, offset := range t.next {
		t.Partition = int32(i)
		if err := t.s.b.Within(ctx, t.Topic, t.Partition, offset); err != nil {
			return err
		}
	}
	for i := len(t.next); i < ref.Partitions; i++ {
		p, err := t.s.b.Bounds(ref.ID, int32(i))
		if err != nil {
			return err
		}
		at := p.Start
		if t.Edge == Latest {
			at = p.End(t.Isolation)
		}
		t.next = append(t.next, at)
	}
	t.MaxBytes = cmp.Or(t.MaxBytes, fetchMax)
	t.Edge = "" // there is no single offset for the headers
	return nil
}

// collect adds the records of one turn. It waits for the first one.
func (t *topicStream) collect(ctx context.Context, dst *encoding.Text) error {
	f, wants, err := t.fetchAll(ctx)
	if err != nil {
		return err
	}
	t.fetched = append(t.fetched, f)
	for i := range f.Parts {
		before, looked := t.Count, t.lookedAt()
		p := wants[i].Partition
		err := f.Parts[i].Err
		if err == nil {
			err = t.add(p, &f.Parts[i], dst)
		}
		if t.Count > before || t.lookedAt() > looked {
			t.first = int(p) + 1
		}
		switch {
		case err != nil && t.Count == 0:
			t.Partition = p
			return err
		case err != nil || t.Count >= t.MaxRecords || t.Bytes >= t.MaxBytes:
			return nil // the next turn starts at an error and reports it
		}
	}
	return nil
}

// fetchAll fetches from all partitions, also those that the topic got meanwhile.
func (t *topicStream) fetchAll(ctx context.Context) (*broker.Fetched, []broker.Want, error) {
	n, err := t.s.b.Partitions(t.Topic)
	if err != nil {
		return nil, nil, err
	}
	for len(t.next) < min(n, topicStreamMax) {
		t.next = append(t.next, 0)
	}
	volume := broker.Volume{Min: 1, Max: int(min(max(t.MaxBytes, fetchMin), fetchMax))}
	if t.scan != nil {
		volume.Max = t.scanFetchBytes()
	}
	wants := make([]broker.Want, len(t.next))
	for i := range wants {
		p := (t.first + i) % len(wants)
		wants[i] = broker.Want{Topic: t.Topic, ID: t.topicID, Partition: int32(p), Offset: t.next[p], MaxBytes: volume.Max, Isolation: t.Isolation}
	}
	limited, done := t.s.o.Drain.Until(ctx)
	defer done()
	slot := httpconn.SlotOf(ctx)
	if t.Timeout > 0 {
		if !slot.Wait(t.connection(), done) {
			return nil, nil, t.s.noReader()
		}
		defer slot.EndWait()
	}
	f, err := t.s.b.FetchWithin(limited, wants, volume, t.Timeout)
	if errors.Is(err, context.Canceled) && (t.s.o.Drain.Stopped() || slot.Displaced()) {
		f, err = t.s.b.FetchWithin(ctx, wants, volume, 0)
	}
	return f, wants, err
}

// add collects from the part that was fetched for a partition.
func (t *topicStream) add(partition int32, part *broker.FetchedPart, dst *encoding.Text) error {
	g := t.s.New(t.Topic, partition)
	defer g.Done()
	g.Offset, g.MaxRecords, g.ValueMax = t.next[partition], t.MaxRecords-t.Count, t.ValueMax
	g.MaxBytes, g.scan = max(1, t.MaxBytes-t.Bytes), t.scan
	err := g.part(part, &topicSink{t, partition, dst})
	t.Count += g.Count
	t.Bytes += g.Bytes
	t.next[partition] = g.Offset
	return err
}

// topicSink adds the records of a partition to the events of a turn. It takes their memory.
type topicSink struct {
	t         *topicStream
	partition int32
	dst       *encoding.Text
}

// ValuesOnly implements encoding.Sink.
func (s *topicSink) ValuesOnly() bool { return false }

// Take implements encoding.Sink.
func (s *topicSink) Take(_ *budget.Arena, rec *record.Record, volatile bool) error {
	t := s.t
	t.next[s.partition] = rec.Offset + 1
	s.dst.Partition, s.dst.ID = s.partition, t.position()
	return s.dst.Take(&t.memory, rec, volatile)
}

// position returns the event ID that resumes the stream here. It is valid until the next call.
func (t *topicStream) position() []byte {
	t.id = t.id[:0]
	for i, offset := range t.next {
		if i > 0 {
			t.id = append(t.id, ',')
		}
		t.id = append(strconv.AppendInt(t.id, int64(i), 10), ':')
		t.id = strconv.AppendInt(t.id, offset, 10)
	}
	return t.id
}

// lookedAt returns the number of records that the filter of the stream has looked at.
func (t *topicStream) lookedAt() int64 {
	if t.scan == nil {
		return 0
	}
	return t.scan.records
}
