package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/trigger/rule"
)

const (
	namesDefault = 100
	namesMax     = 1000
	// sampleParts bounds the sampled partitions. The entities of events are spread evenly over them.
	sampleParts = 16
	// sampleWindow is the number of records of the first read of a partition. The log is read
	// forwards, so the newest records come window by window, each twice as large as the one before.
	sampleWindow = 16
)

// getEventNames answers with the names of the events in a topic: those of the newest events, with
// their properties, and the others that the trigger engine has seen.
func (a *API) getEventNames(w http.ResponseWriter, r *http.Request, _ *caller) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	topic := a.o.EventsTopic
	if _, given := q.Text(httpconn.ParamTopic); given {
		topic = q.Topic()
	}
	limit := cmp.Or(int(q.Number(httpconn.ParamLimit, namesDefault, namesMax)), namesDefault)
	prefix, _ := q.Text(httpconn.ParamPrefix)
	if len(prefix) > rule.NameBytesMax {
		q.Fail(httpconn.ParamPrefix, "%d bytes, the limit is %d", len(prefix), rule.NameBytesMax)
	}
	if q.Fault != nil {
		return q.Fault
	}
	ref, ok := a.b.TopicNamed(topic)
	if !ok {
		return broker.ErrUnknownTopic
	}
	select { // one sample at a time, which bounds memory and processor time
	case a.sampling <- struct{}{}:
		defer func() { <-a.sampling }()
	case <-r.Context().Done():
		return context.Cause(r.Context())
	}
	memory, err := a.fetch.Reserve(sampleMemory + 3*answerBytes)
	if err != nil {
		return err
	}
	defer memory.Release()
	s := eventSample{prefix: prefix, names: map[string]*sampledName{}}
	if err := a.sampleTopic(r.Context(), &ref, topic, &s); err != nil {
		return err
	}
	out := api.EventNames{Topic: topic, Records: a.b.RecordCount(ref.ID), Sampled: s.records, Names: []api.EventName{}, Truncated: s.full}
	if s.records > 0 {
		out.Since = new(instant(s.oldest))
	}
	list := s.list(out.Records)
	if e := a.triggers.o.Engine; e != nil {
		known, err := e.Names(r.Context(), ref.ID, prefix, limit+len(list)+1)
		if err != nil {
			return triggerFault(err)
		}
		for _, name := range known {
			if s.names[name] == nil {
				list = append(list, api.EventName{Name: name, Properties: []api.EventProperty{}})
			}
		}
	}
	size := 0
	for i := range list {
		if size += nameSize(&list[i]); i == limit || i > 0 && size > answerBytes {
			out.Truncated = true
			break
		}
		out.Names = append(out.Names, list[i])
	}
	return a.writeState(w, http.StatusOK, &out)
}

// nameSize estimates the memory of a name in an answer.
func nameSize(x *api.EventName) int {
	n := 256 + len(x.Name)
	for i := range x.Properties {
		n += 128 + len(x.Properties[i].Path)
	}
	return n
}

// sampleTopic reads the newest records of a topic.
func (a *API) sampleTopic(ctx context.Context, ref *broker.TopicRef, topic string, s *eventSample) error {
	n := min(ref.Partitions, sampleParts)
	for i := range n {
		err := a.samplePartition(ctx, ref, topic, int32(i*ref.Partitions/n), s, n-i)
		if err != nil && !errors.Is(err, broker.ErrBelowStart) { // trimmed meanwhile
			return err
		}
	}
	return nil
}

// samplePartition reads the newest records of a partition, one of parts that share the rest of the
// sample.
func (a *API) samplePartition(ctx context.Context, ref *broker.TopicRef, topic string, partition int32, s *eventSample, parts int) error {
	bounds, err := a.b.Bounds(ref.ID, partition)
	if err != nil {
		return err
	}
	left, bytesEnd := (sampleRecords-s.records)/int64(parts), s.bytes+(sampleBytes-s.bytes)/int64(parts)
	window := int64(sampleWindow)
	for end := bounds.Next; end > bounds.Start && left > 0 && s.bytes < bytesEnd; window *= 2 {
		from, err := a.b.OffsetBelow(ref.ID, partition, end, min(left, window))
		if err != nil {
			return err
		}
		g := a.source.New(topic, partition)
		g.topicID, g.Offset, g.MaxRecords, g.MaxBytes = ref.ID, from, min(end-from, left), bytesEnd-s.bytes
		err = g.Collect(ctx, s)
		g.Done()
		if err != nil {
			return err
		}
		left, end = left-g.Count, from
	}
	return nil
}
