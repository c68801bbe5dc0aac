package httpapi

import (
	"fmt"

	"github.com/sebbroker/seb/internal/api"
)

// newProblem returns a problem without its fixed members (type, title, status), which are set when it is written.
func newProblem(code api.Code, format string, args ...any) *api.Problem {
	return &api.Problem{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// badField is a bad_request that names the parameter, header or member of the body at fault.
func badField(field, format string, args ...any) *api.Problem {
	p := newProblem(api.BadRequest, format, args...)
	p.Field, p.Detail = field, field+": "+p.Detail
	return p
}

// tooLarge names what is too large, the limit and what was given.
func tooLarge(field string, limit, given int64) *api.Problem {
	p := newProblem(api.TooLarge, "%s: at most %d, given %d", field, limit, given)
	p.Field, p.Limit, p.Given = field, &limit, &given
	return p
}

// atRecord adds the place in the request of the record at fault.
func atRecord(p *api.Problem, i int64) *api.Problem {
	p.Record = &i
	p.Detail = fmt.Sprintf("record %d: %s", i, p.Detail)
	return p
}
