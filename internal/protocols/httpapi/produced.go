package httpapi

import (
	"net/http"
	"strconv"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/record"
)

// answer reports the result of each record.
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
	if len(results) == 1 {
		return p.answerOne(w, results[0])
	}
	out := api.Produced{Topic: p.topic, Results: p.results(results)}
	for i := range p.appends {
		out.Count += p.appends[i].Summary.Span
	}
	return p.a.writeJSON(w, http.StatusCreated, &out)
}

// answerOne writes the JSON of an api.Produced for one partition. It is the answer to most
// requests, and encoding/json allocates.
func (p *producing) answerOne(w http.ResponseWriter, r broker.Result) error {
	const longest = 512 // a topic's name has at most 249 bytes, which need no escapes
	buf := p.a.buffers.Get(longest)[:0]
	defer func() { p.a.buffers.Put(buf) }()
	buf = append(append(buf, `{"topic":"`...), p.topic...)
	buf = strconv.AppendInt(append(buf, `","partition":`...), int64(p.appends[0].Partition), 10)
	buf = strconv.AppendInt(append(buf, `,"first_offset":`...), r.Base, 10)
	buf = strconv.AppendInt(append(buf, `,"count":`...), p.appends[0].Summary.Span, 10)
	if r.Duplicate {
		buf = append(buf, `,"duplicate":true`...)
	}
	buf = append(buf, '}')
	h := w.Header()
	h["Content-Type"], h["X-Content-Type-Options"] = jsonType, noSniff
	w.WriteHeader(http.StatusCreated) // net/http sets the length
	_ = p.a.pace.Send(w, buf)         // on an error net/http closes the connection
	return nil
}

// countProduced counts the stored records.
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

// failed returns the error of a request with failed appends. "Rejected" means that none of the
// records can appear. If some are stored, or may be, the outcome of the request is unknown, and its
// results tell more (rule R4).
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
	fault := problem.New(api.OutcomeUnknown, "the partitions have different outcomes, see results")
	fault.Results = p.results(results)
	return fault
}

func (p *producing) atPartition(fault *api.Problem, i int) *api.Problem {
	c := *fault
	c.Topic, c.Partition = p.appends[i].Topic, &p.appends[i].Partition
	return &c
}

// unknownOutcome reports whether an append with this error may have been stored.
func unknownOutcome(err error) bool {
	status := api.Statuses[problemOf(err).Code]
	return status == http.StatusGatewayTimeout || status == http.StatusInternalServerError
}

// netHTTPCounts is the size up to which net/http buffers an answer and sets its length. Its buffer
// has 2 KiB.
const netHTTPCounts = 1 << 10

// answerOffsets writes {"offsets":[...]} in pieces, because the list may be long.
func (p *producing) answerOffsets(w http.ResponseWriter, r broker.Result) error {
	const longest = 48 // comma, 19 digits and the end
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
		_ = p.a.pace.Send(w, buf) // on an error net/http closes the connection
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

// identify sets the producer of the append from the headers. Batches that name a producer must name
// the same.
func (p *producing) identify() error {
	if p.producer == nil {
		return nil
	}
	for i := range p.appends { // only one, unless the request is atomic: the partition is given
		ap := &p.appends[i]
		if fault := contradiction(p.producer, &ap.Summary); fault != nil {
			return fault
		}
		if s := &ap.Summary; s.ProducerID < 0 {
			record.StampProducer(ap.Data, *p.producer)
			s.ProducerID, s.ProducerEpoch, s.BaseSequence = p.producer.ID, p.producer.Epoch, p.producer.Sequence
		}
	}
	return nil
}

// contradiction returns which header differs from the batches.
func contradiction(p *record.Producer, s *record.Summary) error {
	const text = "%d, but the batches have %d"
	switch {
	case s.ProducerID < 0:
		return nil
	case s.ProducerID != p.ID:
		return problem.BadField(api.HeaderProducerID, text, p.ID, s.ProducerID)
	case s.ProducerEpoch != p.Epoch:
		return problem.BadField(api.HeaderProducerEpoch, text, p.Epoch, s.ProducerEpoch)
	case s.BaseSequence != p.Sequence:
		return problem.BadField(api.HeaderSequence, text, p.Sequence, s.BaseSequence)
	}
	return nil
}
