// Package problem makes problems of package api: what a front end and its parts answer with when a request is at fault.
package problem

import (
	"fmt"
	"strconv"

	"github.com/sebbroker/seb/api"
)

// New returns a problem without type, title and status: the writer of the answer sets them from the code.
func New(code api.Code, format string, args ...any) *api.Problem {
	return &api.Problem{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// BadField is a bad_request that names the parameter, header, part or member of the body at fault.
func BadField(field, format string, args ...any) *api.Problem {
	p := New(api.BadRequest, format, args...)
	p.Field, p.Detail = field, field+": "+p.Detail
	return p
}

// OverLimit is a too_large that names what is too large, the limit and what was given.
func OverLimit(field string, limit, given int64) *api.Problem {
	p := New(api.TooLarge, "%s: at most %d, given %d", field, limit, given)
	p.Field, p.Limit, p.Given = field, &limit, &given
	return p
}

// AtRecord adds to p the place in the request, from 0, of the record at fault.
func AtRecord(p *api.Problem, i int64) *api.Problem {
	p.Record = &i
	p.Detail = fmt.Sprintf("record %d: %s", i, p.Detail)
	return p
}

// quotedMax is how much of what a client sent comes back in an error.
const quotedMax = 64

// Quote quotes what a client sent, shortened to a length that fits into an error.
func Quote(v string) string {
	if len(v) > quotedMax {
		return strconv.Quote(v[:quotedMax]) + "..."
	}
	return strconv.Quote(v)
}
