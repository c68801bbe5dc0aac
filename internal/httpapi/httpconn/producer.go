package httpconn

import (
	"math"
	"net/http"
	"strconv"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/problem"
	"github.com/sebbroker/seb/record"
)

// Producer reads the headers of an idempotent produce request. It returns nil if there are none.
// The epoch is optional.
func (q *Params) Producer(h http.Header, partition int32) *record.Producer {
	id := q.header(h, api.HeaderProducerID, math.MaxInt64)
	epoch := q.header(h, api.HeaderProducerEpoch, math.MaxInt16)
	sequence := q.header(h, api.HeaderSequence, math.MaxInt32)
	switch {
	case id < 0 && epoch < 0 && sequence < 0:
		return nil
	case id < 0:
		q.Fail(api.HeaderProducerID, "required with the other producer headers")
	case sequence < 0:
		q.Fail(api.HeaderSequence, "required with %s", api.HeaderProducerID)
	case partition < 0:
		q.Fail(ParamPartition, "required with %s: a sequence belongs to one partition", api.HeaderProducerID)
	}
	return &record.Producer{ID: id, Epoch: int16(max(epoch, 0)), Sequence: int32(sequence)}
}

// header returns a header from 0 to limit, or -1 if it is absent.
func (q *Params) header(h http.Header, name string, limit int64) int64 {
	v := h.Values(name)
	if len(v) == 0 {
		return -1
	}
	n, err := strconv.ParseInt(v[0], 10, 64)
	if len(v) > 1 {
		q.Fail(name, "given %d times", len(v))
	} else if err != nil || n < 0 || n > limit {
		q.Fail(name, "want a number from 0 to %d, given %s", limit, problem.Quote(v[0]))
	}
	return n
}
