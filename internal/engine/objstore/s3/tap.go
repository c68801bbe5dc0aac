package s3

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// operation is a kind of request.
type operation string

const (
	opPut        operation = "put"
	opGet        operation = "get"
	opList       operation = "list"
	opDelete     operation = "delete"
	opLifecycle  operation = "read lifecycle"
	opVersioning operation = "read versioning"
)

// root is the root element of a successful response's XML; "": an empty body.
func (op operation) root() string {
	switch op {
	case opList:
		return "ListBucketResult"
	case opLifecycle:
		return "LifecycleConfiguration"
	case opVersioning:
		return "VersioningConfiguration"
	case opPut, opGet, opDelete:
	}
	return ""
}

// Responses other than objects are read into memory. A listing of 1,000 keys is below 2 MiB.
const (
	answerBytesMax = 8 << 20
	errorBytesMax  = 64 << 10
)

// exchange is one request and response as seen on the wire. The client library alone is not
// reliable enough: it derives an error's code from the status if the body has none, and accepts any
// XML, or none, as an empty listing.
type exchange struct {
	op     operation
	sent   bool // passed to the transport: it may have taken effect
	status int  // 0: no response
	code   string
	header http.Header
	fault  error // why the response cannot be trusted
}

type exchangeKey struct{}

// tap is the HTTP client below the client library. It records each response in the exchange of the
// request's context.
type tap struct {
	client *http.Client
	clock  *storeClock
	sent   *sentRequests
}

// sentRequests counts requests as they are billed.
type sentRequests struct {
	put, list, get, delete atomic.Int64
}

func (s *sentRequests) count(op operation) {
	switch op {
	case opPut:
		s.put.Add(1)
	case opList:
		s.list.Add(1)
	case opDelete:
		s.delete.Add(1)
	case opGet, opLifecycle, opVersioning:
		s.get.Add(1)
	}
}

// Do sends the request and records the response.
func (t *tap) Do(request *http.Request) (*http.Response, error) {
	x, _ := request.Context().Value(exchangeKey{}).(*exchange)
	if x == nil {
		return nil, errors.New("objstore: request without an exchange")
	}
	begin := time.Now()
	x.sent = true
	t.sent.count(x.op)
	response, err := t.client.Do(request)
	if err != nil {
		return nil, err
	}
	t.clock.observe(begin, response.Header)
	x.status, x.header = response.StatusCode, response.Header
	success := x.status >= 200 && x.status < 300
	if x.op == opGet && success {
		return response, nil // the body is the object
	}
	limit := int64(answerBytesMax)
	if !success {
		limit = errorBytesMax
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, limit))
	_ = response.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("read response: %w", err)
	}
	x.read(body, success)
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// read checks the body of any response except an object.
func (x *exchange) read(body []byte, success bool) {
	root, code := rootAndCode(body)
	if root == "Error" {
		x.code = code
	}
	if !success {
		return
	}
	empty := len(bytes.TrimSpace(body)) == 0
	switch x.op {
	case opPut:
		// A store confirms a PUT with 200 and an ETag. Anything else may be a page of a proxy.
		if x.status != http.StatusOK || x.header.Get("ETag") == "" || !empty {
			x.fault = fmt.Errorf("not a PUT response: status %d, %d bytes", x.status, len(body))
		}
	case opDelete:
		if !empty && root != "DeleteResult" {
			x.fault = fmt.Errorf("not a DELETE response: status %d, element %q", x.status, root)
		}
	case opList, opLifecycle, opVersioning:
		if x.status != http.StatusOK || root != x.op.root() {
			x.fault = fmt.Errorf("not a %s response: status %d, element %q", x.op, x.status, root)
		}
	case opGet:
	}
}

// rootAndCode returns the name of the root element and the text of the element Code directly below
// it.
func rootAndCode(body []byte) (root, code string) {
	decoder := xml.NewDecoder(bytes.NewReader(body))
	depth, inCode := 0, false
	for {
		token, err := decoder.Token()
		if err != nil {
			return root, code
		}
		switch token := token.(type) {
		case xml.StartElement:
			depth++
			if depth == 1 {
				root = token.Name.Local
			}
			if root != "Error" {
				return root, ""
			}
			inCode = depth == 2 && token.Name.Local == "Code"
		case xml.EndElement:
			depth--
			if inCode && depth == 1 {
				return root, strings.TrimSpace(code)
			}
		case xml.CharData:
			if inCode {
				code += string(token)
			}
		}
	}
}

// send runs one request of the client library and returns its verdict.
func send[T any](ctx context.Context, op operation, call func(context.Context) (T, error)) (T, *exchange, error) {
	x := &exchange{op: op}
	out, err := call(context.WithValue(ctx, exchangeKey{}, x))
	if verdict := x.verdict(ctx, err); verdict != nil {
		var none T
		return none, x, verdict
	}
	return out, x, nil
}

// adaptiveTimeout is the time limit for responses of the store. With a fixed limit, a store that
// always needs longer would never succeed, and every request would be repeated permanently. So a
// timeout doubles the limit, up to three times base, and quick responses reduce it step by step.
// All methods may be called concurrently.
type adaptiveTimeout struct {
	base  time.Duration
	extra atomic.Int64 // nanoseconds beyond base
}

func (p *adaptiveTimeout) limit() time.Duration { return p.base + time.Duration(p.extra.Load()) }

// late records that there was no response within limit.
func (p *adaptiveTimeout) late(limit time.Duration) {
	// Concurrent requests with the same limit raise it once.
	p.extra.CompareAndSwap(int64(limit-p.base), int64(min(2*limit, 3*p.base)-p.base))
}

// answered records a response.
func (p *adaptiveTimeout) answered(took time.Duration) {
	if extra := p.extra.Load(); extra > 0 && took < p.base/2 {
		p.extra.CompareAndSwap(extra, max(0, extra-int64(p.base/2)))
	}
}

// wait returns a context for a request and a function to call after it. The context ends after the
// limit plus more, which is the time for the bytes to move.
func (p *adaptiveTimeout) wait(ctx context.Context, more time.Duration) (context.Context, func()) {
	limit, begin := p.limit(), time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, limit+more, errStalled)
	return ctx, func() {
		p.note(ctx, limit, begin)
		cancel()
	}
}

// note records the outcome of a request.
func (p *adaptiveTimeout) note(ctx context.Context, limit time.Duration, begin time.Time) {
	switch {
	case ctx.Err() == nil:
		p.answered(time.Since(begin))
	case errors.Is(context.Cause(ctx), errStalled):
		p.late(limit)
	}
}
