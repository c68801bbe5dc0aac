package httpapi

import (
	"context"
	"net/http"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/httpapi/httpconn"
)

// offsetAnswerBytes bounds the memory of a partition in an answer about offsets by time.
const offsetAnswerBytes = 1 << 10

// getTopicOffsets answers with the first offset of each partition whose record time is at or after
// a time, as Kafka's ListOffsets does. It looks at one partition after the other.
func (a *API) getTopicOffsets(w http.ResponseWriter, r *http.Request, _ *caller) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	name, only, latest := q.Topic(), q.Partition(), q.Latest()
	edge, _ := q.Text(httpconn.ParamTime)
	millis := int64(0)
	if edge != Earliest && edge != Latest {
		edge, millis = "", q.Time()
	}
	if q.Fault != nil {
		return q.Fault
	}
	if latest || edge == Latest {
		// A leader that was deposed and has not noticed must not report an old end (rule R11).
		if err := a.b.Confirm(r.Context()); err != nil {
			return err
		}
	}
	ref, ok := a.b.TopicNamed(name)
	switch {
	case !ok:
		return broker.ErrUnknownTopic
	case int(only) >= ref.Partitions:
		return UnknownPartition(name, only, ref.Partitions)
	}
	first, end := int32(0), int32(ref.Partitions)
	if only >= 0 {
		first, end = only, only+1
	}
	a.readHeaders(w)
	l := a.newList(w, "partitions")
	for p := first; p < end; p++ {
		err := l.add(r.Context(), offsetAnswerBytes, func() (any, error) {
			out, err := a.offsetAt(r.Context(), &ref, p, edge, millis)
			return &out, err
		})
		if err != nil {
			return l.end(err)
		}
	}
	return l.end(nil)
}

// offsetAt finds the offset of one partition. It reads the bounds first: if no record up to that end
// has reached the time, a reader from that end on sees every later record that does.
func (a *API) offsetAt(ctx context.Context, ref *broker.TopicRef, partition int32, edge string, millis int64) (api.PartitionOffset, error) {
	out := api.PartitionOffset{Partition: partition}
	bounds, err := a.b.Bounds(ref.ID, partition)
	if err != nil {
		return out, err
	}
	switch edge {
	case Earliest:
		out.Offset = bounds.Start
		return out, nil
	case Latest:
		out.Offset = bounds.Next
		return out, nil
	}
	offset, at, err := a.b.OffsetSince(ctx, ref, partition, millis)
	if out.Offset = bounds.Next; offset >= 0 {
		out.Offset, out.Timestamp = offset, &at
	}
	return out, err
}
