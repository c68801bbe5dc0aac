// Package problem creates problems of package api: the answers of a front end to invalid requests.
package problem

import (
	"fmt"
	"strconv"

	"github.com/sebbroker/seb/api"
)

// New returns a problem without type, title and status. The writer of the answer sets them from the
// code.
func New(code api.Code, format string, args ...any) *api.Problem {
	return &api.Problem{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// BadField returns a bad_request that names the invalid parameter, header, part or member of the
// body.
func BadField(field, format string, args ...any) *api.Problem {
	p := New(api.BadRequest, format, args...)
	p.Field, p.Detail = field, field+": "+p.Detail
	return p
}

// OverLimit returns a too_large with the field, the limit and the given size.
func OverLimit(field string, limit, given int64) *api.Problem {
	p := New(api.TooLarge, "%s: at most %d, given %d", field, limit, given)
	p.Field, p.Limit, p.Given = field, &limit, &given
	return p
}

// AtRecord adds the index of the invalid record in the request to p, from 0.
func AtRecord(p *api.Problem, i int64) *api.Problem {
	p.Record = &i
	p.Detail = fmt.Sprintf("record %d: %s", i, p.Detail)
	return p
}

// quotedMax bounds the client's data in an error.
const quotedMax = 64

// Quote quotes client data, shortened for an error.
func Quote(v string) string {
	if len(v) > quotedMax {
		return strconv.Quote(v[:quotedMax]) + "..."
	}
	return strconv.Quote(v)
}
