package httpconn

import (
	"encoding/base64"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/problem"
)

// The names of the query parameters.
const (
	ParamTopic          = "topic-name"
	ParamPartition      = "partition"
	ParamOffset         = "offset"
	ParamMaxRecords     = "max-records"
	ParamMaxBytes       = "max-bytes"
	ParamTimeout        = "timeout"
	ParamRead           = "read"
	ParamForce          = "force"
	ParamExpectedOffset = "expected-offset"
	ParamGroup          = "group" // a consumer group
	ParamKey            = "key"
	ParamPrefix         = "prefix" // of keys
	ParamAfter          = "after"
	ParamLimit          = "limit"
	ParamOrder          = "order"
	ParamMinOffset      = "min-offset"
	// Base64 ends the names of parameters that give in base64 what the others give as text.
	Base64 = "-base64"
)

// Params reads parameters and keeps the first fault. A parameter given twice is one. It belongs to one goroutine.
type Params struct {
	Fault  *api.Problem // nil: none so far
	plain  string       // the query, if nothing in it is escaped
	values url.Values   // nil: plain
}

// ParseParams parses the query of a URL.
func ParseParams(query string) *Params {
	if !strings.ContainsAny(query, "%+;") {
		return &Params{plain: query} // a map of slices would cost more than the few looks that a request takes
	}
	values, err := url.ParseQuery(query)
	q := &Params{values: values}
	if err != nil {
		q.Fault = problem.BadField("query", "%v", err)
	}
	return q
}

// Fail records a fault of the parameter or header of that name, if it is the first.
func (q *Params) Fail(name, format string, args ...any) {
	if q.Fault == nil {
		q.Fault = problem.BadField(name, format, args...)
	}
}

// Text returns a parameter as it is given, and whether it is.
func (q *Params) Text(name string) (string, bool) {
	v, times := q.find(name)
	if times > 1 {
		q.Fail(name, "given %d times", times)
	}
	return v, times > 0
}

// find returns the first value of a parameter, and how many there are.
func (q *Params) find(name string) (first string, times int) {
	if q.values != nil {
		v := q.values[name]
		if len(v) > 0 {
			first = v[0]
		}
		return first, len(v)
	}
	for pair := range strings.SplitSeq(q.plain, "&") {
		if key, v, _ := strings.Cut(pair, "="); key == name {
			if times++; times == 1 {
				first = v
			}
		}
	}
	return first, times
}

// KeyMax is the most bytes of a key in a parameter: in base64 it still fits into a request's head.
const KeyMax = 8 << 10

// Key returns the bytes of a parameter that is a key, or part of one: as they are, or, in the parameter whose name ends
// in Base64, in either alphabet of base64, padded or not. It is nil if neither is given: an empty key is one.
func (q *Params) Key(name string) []byte {
	v, given := q.Text(name)
	text, encoded := q.Text(name + Base64)
	key := []byte(v)
	switch {
	case given && encoded:
		q.Fail(name+Base64, "not together with %s", name)
	case !given && !encoded:
		return nil
	case encoded:
		var err error
		plain := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
		if key, err = base64.RawStdEncoding.AppendDecode([]byte{}, []byte(plain)); err != nil {
			q.Fail(name+Base64, "want base64: %v", err)
		}
	}
	if len(key) > KeyMax {
		q.Fail(name, "at most %d bytes, given %d", KeyMax, len(key))
	}
	return key
}

// Topic returns the checked name of a topic.
func (q *Params) Topic() string {
	name, ok := q.Text(ParamTopic)
	if !ok || name == "" {
		q.Fail(ParamTopic, "required")
	} else if err := state.CheckTopicName(name); err != nil {
		q.Fail(ParamTopic, "%v", err)
	}
	return name
}

// Number returns a parameter between 0 and limit, or otherwise if it is not given.
func (q *Params) Number(name string, otherwise, limit int64) int64 {
	v, ok := q.Text(name)
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil || n > uint64(limit) {
		q.Fail(name, "want a number from 0 to %d, given %s", limit, problem.Quote(v))
		return otherwise
	}
	return int64(n)
}

// Offset returns the required offset. One from 2^63 on is as good as the last before: behind the end of any partition.
func (q *Params) Offset() int64 {
	v, ok := q.Text(ParamOffset)
	if !ok {
		q.Fail(ParamOffset, "required")
		return 0
	}
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		q.Fail(ParamOffset, "want a number from 0 to %d, given %s", uint64(math.MaxUint64), problem.Quote(v))
	}
	return int64(min(n, math.MaxInt64))
}

// Partition returns the partition, or -1 if it is not given.
func (q *Params) Partition() int32 { return int32(q.Number(ParamPartition, -1, math.MaxInt32)) }

// NamedPartition returns the partition, which must be given: what changes or deletes something guesses none.
func (q *Params) NamedPartition() int32 {
	if _, ok := q.Text(ParamPartition); !ok {
		q.Fail(ParamPartition, "required")
	}
	return q.Partition()
}

// Group returns the checked name of a consumer group.
func (q *Params) Group() string {
	name, ok := q.Text(ParamGroup)
	if !ok || name == "" {
		q.Fail(ParamGroup, "required")
	} else if err := state.CheckGroupName(name); err != nil {
		q.Fail(ParamGroup, "%v", err)
	}
	return name
}

// Duration returns a time span, at most limit, or otherwise if it is not given.
func (q *Params) Duration(name string, otherwise, limit time.Duration) time.Duration {
	v, ok := q.Text(name)
	if !ok {
		return otherwise
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		q.Fail(name, "want a time span like 10s or 100ms, given %s", problem.Quote(v))
	}
	return min(d, limit)
}

// Force says whether something is to be done although a check is against it.
func (q *Params) Force() bool {
	v, ok := q.Text(ParamForce)
	if ok && v != "true" && v != "false" {
		q.Fail(ParamForce, "want true or false, given %s", problem.Quote(v))
	}
	return v == "true"
}

// Latest says whether the answer must show everything committed before the request.
func (q *Params) Latest() bool {
	v, ok := q.Text(ParamRead)
	if ok && v != "latest" && v != "committed" {
		q.Fail(ParamRead, "want latest or committed, given %s", problem.Quote(v))
	}
	return v == "latest"
}
