package httpapi

import (
	"context"
	"net/http"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/httpapi/httpconn"
)

// postTrim deletes the records of a partition below an offset.
func (a *API) postTrim(w http.ResponseWriter, r *http.Request) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	topic, partition, offset := q.Topic(), q.NamedPartition(), q.Offset()
	if q.Fault != nil {
		return q.Fault
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

// atOffset adds the position to an error.
func (a *API) atOffset(err error, topic string, partition int32, offset int64) error {
	p := *problemOf(err)
	if p.Code == api.Internal {
		return err // logged unchanged
	}
	p.Topic, p.Partition = topic, &partition
	if p.Code == api.OffsetBeyondEnd {
		p.Offset = &offset
	}
	return &p
}

func partitionOf(partition int32, p *broker.PartitionInfo) api.Partition {
	return api.Partition{
		Partition: partition, Start: p.Start, Next: p.Next, LatestCommit: p.LatestCommit.UTC(),
		Records: p.Records, Bytes: p.Bytes,
	}
}
