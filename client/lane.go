package client

import (
	"math"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/record"
)

// lane is one idempotent producer of one partition. One request has it at a time: its sequences are then in order
// whatever connections they go over. Calls that run side by side get lanes of their own, as their order is open anyway.
type lane struct {
	id       int64
	epoch    int16
	sequence int32
}

// lanesIdleMax bounds the lanes that wait for their next request. All are dropped when it is reached: a new lane is a
// new producer, which is always allowed.
const lanesIdleMax = 4096

// partitionOf names a partition.
type partitionOf struct {
	topic     string
	partition int32
}

// lanes are the idle lanes of a client.
type lanes struct {
	mu   sync.Mutex // guards what follows
	idle map[partitionOf][]*lane
	n    int
}

// take returns a lane that nobody else has. The one given back last comes first, so that there are as many as calls at
// the same time, and no more.
func (l *lanes) take(p partitionOf) *lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.idle[p]
	if len(list) == 0 {
		return newLane()
	}
	l.idle[p] = list[:len(list)-1]
	l.n--
	return list[len(list)-1]
}

func (l *lanes) give(p partitionOf, one *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.idle == nil || l.n >= lanesIdleMax {
		l.idle, l.n = map[partitionOf][]*lane{}, 0
	}
	l.idle[p] = append(l.idle[p], one)
	l.n++
}

// newLane draws an id: among so many no two producers draw the same.
func newLane() *lane { return &lane{id: rand.Int64N(math.MaxInt64) + 1} }

// header names the next request of the lane.
func (l *lane) header(h map[string]string) {
	h[api.HeaderProducerID] = strconv.FormatInt(l.id, 10)
	h[api.HeaderProducerEpoch] = strconv.Itoa(int(l.epoch))
	h[api.HeaderSequence] = strconv.Itoa(int(l.sequence))
}

// settle moves the lane on after a request of so many records that ended with err. What was refused took no sequence.
// After an unknown outcome nobody knows what sequence is next, so the lane begins anew with its next epoch; that also
// shuts out the request that may still be under way.
func (l *lane) settle(err error, span int64) {
	e, failed := err.(*Error)
	switch {
	case !failed:
		l.sequence = int32((int64(l.sequence) + span) & math.MaxInt32)
	case e.Outcome != OutcomeRejected || e.Code == string(api.SequenceGap) || e.Code == string(api.ProducerFenced):
		l.sequence = 0
		if l.epoch++; l.epoch < 0 {
			*l = *newLane()
		}
	}
}

// batchesSpan counts the offsets that batches take; own says that they name a producer already. ok is false for what is
// no batches.
func batchesSpan(b []byte) (span int64, own, ok bool) {
	for len(b) > 0 {
		batch, rest, err := record.Split(b)
		if err != nil {
			return 0, false, false
		}
		own = own || batch.ProducerID() >= 0
		span += batch.Span()
		b = rest
	}
	return span, own, span > 0
}
