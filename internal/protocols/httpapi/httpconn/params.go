package httpconn

import (
	"encoding/base64"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/base/input"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/record"
)

// Names of query parameters.
const (
	ParamTopic          = "topic-name"
	ParamPartition      = "partition"
	ParamOffset         = "offset"
	ParamMaxRecords     = "max-records"
	ParamMaxBytes       = "max-bytes"
	ParamMaxValueBytes  = "max-value-bytes"
	ParamWhere          = "where"
	ParamContains       = "contains"
	ParamMaxScanBytes   = "max-scan-bytes"
	ParamTimeout        = "timeout"
	ParamRead           = "read"
	ParamRole           = "role"
	ParamForce          = "force"
	ParamExpectedOffset = "expected-offset"
	ParamAtomic         = "atomic"
	ParamGroup          = "group" // of a consumer group
	ParamTransactional  = "transactional-id"
	ParamMembers        = "members"
	ParamWindow         = "window"
	ParamKey            = "key"
	ParamPrefix         = "prefix" // of keys
	ParamAfter          = "after"
	ParamBefore         = "before"
	ParamLimit          = "limit"
	ParamOrder          = "order"
	ParamMinOffset      = "min-offset"
	ParamIsolation      = "isolation"
	ParamOverlap        = "overlap" // of the tokens of a rotation
	ParamTime           = "time"
	ParamQuery          = "query" // of Riemann
	ParamSince          = "since"
	ParamUntil          = "until"
	ParamSample         = "sample"
	// The fields of rules.
	ParamPrincipal = "principal"
	ParamResource  = "resource"
	ParamPattern   = "pattern"
	ParamOperation = "operation"
	ParamDeny      = "deny"
	ParamHost      = "host"
	// Base64 is the suffix of parameters whose value is in base64.
	Base64 = "-base64"
)

// Params reads parameters and keeps the first fault. A parameter that is given twice is a fault.
// Params belongs to one goroutine.
type Params struct {
	Fault  *api.Problem // nil: no fault
	plain  string       // the query, if it has no escapes
	values url.Values   // nil: use plain
}

// ParseParams parses the query of a URL.
func ParseParams(query string) *Params {
	q := &Params{} // on the caller's stack, because the compiler inlines this function
	q.parse(query)
	return q
}

func (q *Params) parse(query string) {
	// Faster than ContainsAny, which looks at each byte.
	if strings.IndexByte(query, '%') < 0 && strings.IndexByte(query, '+') < 0 && strings.IndexByte(query, ';') < 0 {
		// The map of url.ParseQuery costs more than the few lookups of a request.
		q.plain = query
		return
	}
	var err error
	if q.values, err = url.ParseQuery(query); err != nil {
		q.Fault = problem.BadField("query", "%v", err)
	}
}

// Fail records a fault of a parameter or header, if it is the first.
func (q *Params) Fail(name, format string, args ...any) {
	if q.Fault == nil {
		q.Fault = problem.BadField(name, format, args...)
	}
}

// Text returns a parameter and whether it is given.
func (q *Params) Text(name string) (string, bool) {
	v, times := q.find(name)
	if times > 1 {
		q.Fail(name, "given %d times", times)
	}
	return v, times > 0
}

// Other returns the name of a parameter that is not one of known, or "".
func (q *Params) Other(known []string) string {
	for name := range q.values {
		if !slices.Contains(known, name) {
			return name
		}
	}
	for pair := range strings.SplitSeq(q.plain, "&") {
		if name, _, _ := strings.Cut(pair, "="); name != "" && !slices.Contains(known, name) {
			return name
		}
	}
	return ""
}

// find returns the first value of a parameter and the number of its values.
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

// KeyMax bounds the bytes of a key in a parameter, so that it fits into a request's head in base64.
const KeyMax = 8 << 10

// Key returns a parameter that is a key or part of one: as it is, or decoded from the parameter
// with the suffix Base64. Both alphabets of base64 are accepted, with or without padding. Key
// returns nil if neither parameter is given, because an empty key is valid.
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

// Number returns a parameter from 0 to limit, or otherwise if it is absent.
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

// Offset returns the required offset. Values from 2^63 on become 2^63-1, which is beyond the end of
// any partition.
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

// Partition returns the partition, or -1 if it is absent.
func (q *Params) Partition() int32 { return int32(q.Number(ParamPartition, -1, math.MaxInt32)) }

// NamedPartition returns the partition, which is required: a request that changes data gets no
// default.
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

// TransactionalID returns the checked transactional ID.
func (q *Params) TransactionalID() string {
	id, ok := q.Text(ParamTransactional)
	if !ok || id == "" {
		q.Fail(ParamTransactional, "required")
	} else if err := state.CheckTransactionalID(id); err != nil {
		q.Fail(ParamTransactional, "%v", err)
	}
	return id
}

// Duration returns a time span of at most limit, or otherwise if the parameter is absent.
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

// Time returns the required time in milliseconds since 1970: a number of milliseconds, or RFC 3339.
func (q *Params) Time() int64 {
	v, ok := q.Text(ParamTime)
	if !ok {
		q.Fail(ParamTime, "required")
		return 0
	}
	ms, ok := millis(v)
	if !ok {
		q.Fail(ParamTime, "want RFC 3339, milliseconds since 1970, earliest or latest, given %s", problem.Quote(v))
	}
	return ms
}

// TimeIf is Time for an optional parameter; given: it is there.
func (q *Params) TimeIf(name string) (ms int64, given bool) {
	v, given := q.Text(name)
	if !given {
		return 0, false
	}
	ms, ok := millis(v)
	if !ok {
		q.Fail(name, "want RFC 3339 or milliseconds since 1970, given %s", problem.Quote(v))
	}
	return ms, true
}

// millis parses a time, rounded up to milliseconds, because records have milliseconds: the first one
// that is not before the time.
func millis(v string) (ms int64, ok bool) {
	if ms, err := strconv.ParseUint(v, 10, 63); err == nil {
		return int64(ms), true
	}
	at, err := input.Time(v)
	if err != nil {
		return 0, false
	}
	ms = at.UnixMilli()
	if at.After(time.UnixMilli(ms)) {
		ms++
	}
	return max(ms, 0), true
}

// Force reports whether the request overrides a check.
func (q *Params) Force() bool { return q.Bool(ParamForce) }

// Bool returns a parameter that is true or false; absent means false.
func (q *Params) Bool(name string) bool {
	v, ok := q.Text(name)
	if ok && v != "true" && v != "false" {
		q.Fail(name, "want true or false, given %s", problem.Quote(v))
	}
	return v == "true"
}

// Latest reports whether the answer must include everything committed before the request.
func (q *Params) Latest() bool {
	v, ok := q.Text(ParamRead)
	if ok && v != "latest" && v != "committed" {
		q.Fail(ParamRead, "want latest or committed, given %s", problem.Quote(v))
	}
	return v == "latest"
}

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
