package httpapi

import (
	"net/http"
	"strconv"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/problem"
)

// answer tells the client what became of its records.
func (p *producing) answer(w http.ResponseWriter, results []broker.Result) error {
	for _, r := range results {
		if r.Err != nil {
			return p.failed(results)
		}
	}
	duplicate := results[0].Duplicate // a producer's request has one append
	if !duplicate {
		p.countProduced()
	}
	p.a.readHeaders(w)
	if p.kind == api.Multipart {
		return p.answerOffsets(w, results[0])
	}
	out := api.Produced{Topic: p.topic, Duplicate: duplicate}
	for i := range p.appends {
		out.Count += p.appends[i].Summary.Span
	}
	if len(results) == 1 {
		out.Partition, out.FirstOffset = &p.appends[0].Partition, &results[0].Base
	} else {
		out.Results = p.results(results)
	}
	return p.a.writeJSON(w, http.StatusCreated, &out)
}

// countProduced counts what was stored.
func (p *producing) countProduced() {
	for i := range p.appends {
		p.a.metrics.produced.AddInt64(p.appends[i].Summary.Span)
		p.a.metrics.producedIn.AddInt64(int64(len(p.appends[i].Data)))
	}
}

func (p *producing) results(results []broker.Result) []api.PartitionResult {
	list := make([]api.PartitionResult, len(results))
	for i, r := range results {
		list[i] = api.PartitionResult{Partition: p.appends[i].Partition, Count: p.appends[i].Summary.Span}
		if r.Err == nil {
			base := r.Base
			list[i].FirstOffset = &base
		} else {
			fault := problemOf(r.Err)
			list[i].Code, list[i].Detail = fault.Code, fault.Detail
		}
	}
	return list
}

// failed is the error of a request with appends that failed. Rejected means that none of the records can appear, so if
// some are stored, or may be, the request as a whole is unknown, and its results tell more (rule R4).
func (p *producing) failed(results []broker.Result) error {
	if len(results) == 1 {
		return p.atPartition(problemOf(results[0].Err), 0)
	}
	first, maybe := -1, false
	for i, r := range results {
		if r.Err == nil || unknownOutcome(r.Err) {
			maybe = true
		} else if first < 0 {
			first = i
		}
	}
	if !maybe {
		fault := p.atPartition(problemOf(results[first].Err), first)
		fault.Results = p.results(results)
		return fault
	}
	fault := problem.New(api.OutcomeUnknown, "the partitions ended differently, see results")
	fault.Results = p.results(results)
	return fault
}

func (p *producing) atPartition(fault *api.Problem, i int) *api.Problem {
	c := *fault
	c.Topic, c.Partition = p.topic, &p.appends[i].Partition
	return &c
}

// unknownOutcome says whether an append with this error may have been stored.
func unknownOutcome(err error) bool {
	status := api.Statuses[problemOf(err).Code]
	return status == http.StatusGatewayTimeout || status == http.StatusInternalServerError
}

// netHTTPCounts is what net/http certainly holds back until a handler returns, and gives a length itself. The body is
// 2 KiB there.
const netHTTPCounts = 1 << 10

// answerOffsets writes {"offsets":[...]}, in pieces: the list may be long.
func (p *producing) answerOffsets(w http.ResponseWriter, r broker.Result) error {
	const longest = 48 // a comma, 19 digits, and the end
	buf := p.a.buffers.Get(int(min(httpconn.StepBytes, longest*(1+r.Span))))[:0]
	defer func() { p.a.buffers.Put(buf) }()
	h := w.Header()
	h["Content-Type"] = jsonType
	buf = append(buf, `{"offsets":[`...)
	started := false
	flush := func() {
		if !started {
			started = true
			w.WriteHeader(http.StatusCreated)
		}
		_ = p.a.pace.Send(w, buf) // the client has gone: nothing is left to do
		buf = buf[:0]
	}
	for i := range r.Span {
		if len(buf)+longest > cap(buf) {
			flush()
		}
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = strconv.AppendInt(buf, r.Base+i, 10)
	}
	buf = append(buf, ']')
	if r.Duplicate {
		buf = append(buf, `,"duplicate":true`...)
	}
	buf = append(buf, '}')
	if !started && len(buf) > netHTTPCounts {
		h.Set("Content-Length", strconv.Itoa(len(buf)))
	}
	flush()
	return nil
}
