package httpapi

import (
	"context"
	"net/http"

	"github.com/sebbroker/seb/internal/api"
	"github.com/sebbroker/seb/internal/broker"
)

// postTrim deletes the records of a partition below an offset.
func (a *API) postTrim(w http.ResponseWriter, r *http.Request) error {
	q := parseQuery(r.URL.RawQuery)
	topic, partition, offset := q.topic(), q.namedPartition(), q.offset()
	if q.fault != nil {
		return q.fault
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.o.AckTimeout)
	defer cancel()
	info, err := a.b.Trim(ctx, topic, partition, offset)
	if err != nil {
		return a.atOffset(err, topic, partition, offset)
	}
	a.readHeaders(w)
	out := partitionOf(partition, &info)
	return a.writeJSON(w, http.StatusOK, &out)
}

// namedPartition returns the partition, which must be given: what changes or deletes something guesses none.
func (q *query) namedPartition() int32 {
	if _, ok := q.text(paramPartition); !ok {
		q.fail(paramPartition, "required")
	}
	return q.partition()
}

// atOffset adds to an error what the request was about.
func (a *API) atOffset(err error, topic string, partition int32, offset int64) error {
	p := *problemOf(err)
	if p.Code == api.Internal {
		return err // it goes to the log as it is
	}
	p.Topic, p.Partition = topic, &partition
	if p.Code == api.OffsetBeyondEnd {
		p.Offset = &offset
	}
	return &p
}

func partitionOf(partition int32, p *broker.PartitionInfo) api.Partition {
	return api.Partition{
		Partition: partition, StartOffset: p.Start, NextOffset: p.Next, LatestCommitAt: p.LatestCommit.UTC(), Bytes: p.Bytes,
	}
}
