package httpapi

import (
	"math"
	"net/url"
	"strconv"
	"time"

	"github.com/sebbroker/seb/internal/api"
	"github.com/sebbroker/seb/internal/state"
)

// The query parameters.
const (
	paramTopic          = "topic-name"
	paramPartition      = "partition"
	paramOffset         = "offset"
	paramMaxRecords     = "max-records"
	paramMaxBytes       = "max-bytes"
	paramTimeout        = "timeout"
	paramRead           = "read"
	paramExpectedOffset = "expected-offset"
)

const (
	maxRecordsDefault = 10
	timeoutDefault    = 10 * time.Second
	// timeoutMax bounds a long poll; who asks for longer waits so long.
	timeoutMax = 5 * time.Minute
)

// query reads parameters and keeps the first fault. A parameter given twice is one.
type query struct {
	values url.Values
	fault  *api.Problem
}

func parseQuery(raw string) *query {
	values, err := url.ParseQuery(raw)
	q := &query{values: values}
	if err != nil {
		q.fault = api.BadField("query", "%v", err)
	}
	return q
}

func (q *query) fail(name, format string, args ...any) {
	if q.fault == nil {
		q.fault = api.BadField(name, format, args...)
	}
}

func (q *query) text(name string) (string, bool) {
	v := q.values[name]
	if len(v) > 1 {
		q.fail(name, "given %d times", len(v))
	}
	if len(v) == 0 {
		return "", false
	}
	return v[0], true
}

// topic returns the checked name of a topic.
func (q *query) topic() string {
	name, ok := q.text(paramTopic)
	if !ok || name == "" {
		q.fail(paramTopic, "required")
	} else if err := state.CheckTopicName(name); err != nil {
		q.fail(paramTopic, "%v", err)
	}
	return name
}

// number returns a parameter between 0 and limit, or otherwise if it is not given.
func (q *query) number(name string, otherwise, limit int64) int64 {
	v, ok := q.text(name)
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil || n > uint64(limit) {
		q.fail(name, "want a number from 0 to %d, given %s", limit, api.Quote(v))
		return otherwise
	}
	return int64(n)
}

// offset returns the required offset. One from 2^63 on is as good as the last before: behind the end of any partition.
func (q *query) offset() int64 {
	v, ok := q.text(paramOffset)
	if !ok {
		q.fail(paramOffset, "required")
		return 0
	}
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		q.fail(paramOffset, "want a number from 0 to %d, given %s", uint64(math.MaxUint64), api.Quote(v))
	}
	return int64(min(n, math.MaxInt64))
}

// partition returns the partition, or -1 if it is not given.
func (q *query) partition() int32 { return int32(q.number(paramPartition, -1, math.MaxInt32)) }

// duration returns a time span, at most limit, or otherwise if it is not given.
func (q *query) duration(name string, otherwise, limit time.Duration) time.Duration {
	v, ok := q.text(name)
	if !ok {
		return otherwise
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		q.fail(name, "want a time span like 10s or 100ms, given %s", api.Quote(v))
	}
	return min(d, limit)
}

// latest says whether the answer must show everything committed before the request.
func (q *query) latest() bool {
	v, ok := q.text(paramRead)
	if ok && v != "latest" && v != "committed" {
		q.fail(paramRead, "want latest or committed, given %s", api.Quote(v))
	}
	return v == "latest"
}
