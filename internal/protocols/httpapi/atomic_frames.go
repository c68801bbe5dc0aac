package httpapi

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/base/input"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/record"
)

// frameHeadMax bounds the line before the batches of a partition.
const frameHeadMax = 1 << 10

// frameHead is that line.
type frameHead struct {
	Topic     string `json:"topic"`
	Partition *int32 `json:"partition"`
	Bytes     int64  `json:"bytes"`
}

// readFrames makes appends of the frames of the body: a line of JSON, and batches for the partition that it
// names.
func (p *atomicProducing) readFrames() error {
	left := p.a.requestMax + p.a.requestMax/broker.FramingShare
	p.in.Max = left + broker.PartsMax*frameHeadMax
	if err := p.in.Open(); err != nil {
		return err
	}
	br, err := p.in.Buffered()
	if err != nil {
		return err
	}
	defer p.in.GiveBack(br)
	for i := 0; ; i++ {
		line, err := br.ReadSlice('\n')
		switch {
		case err == io.EOF && len(line) == 0 && i == 0:
			return problem.BadField("body", "no batches")
		case err == io.EOF && len(line) == 0:
			return nil
		case len(line) > frameHeadMax || errors.Is(err, bufio.ErrBufferFull):
			return atFrame(problem.BadField("body", "the line before the batches has more than %d bytes", frameHeadMax), i)
		case err == io.EOF:
			return atFrame(problem.BadField("body", "ends in the line before the batches"), i)
		case err != nil:
			return httpconn.ReadFault(err)
		}
		n, err := p.frameOf(br, line, left)
		if err != nil {
			return atFrame(err, i)
		}
		left -= n
	}
}

// frameOf reads the batches after a line, at most left bytes, and makes an append of them.
func (p *atomicProducing) frameOf(br *bufio.Reader, line []byte, left int64) (n int64, err error) {
	var h frameHead
	if err := input.JSON(line, &h, input.NoNull); err != nil {
		return 0, problem.BadField("body", "%v", err)
	}
	switch {
	case h.Topic == "":
		return 0, problem.BadField("topic", "missing")
	case h.Partition == nil || *h.Partition < 0:
		return 0, problem.BadField(httpconn.ParamPartition, "want a number from 0")
	case h.Bytes <= 0:
		return 0, problem.BadField("bytes", "want the bytes of the batches, 1 or more, given %d", h.Bytes)
	case h.Bytes > left:
		return 0, problem.OverLimit("body", p.a.requestMax, p.a.requestMax+h.Bytes-left)
	}
	t, err := p.topicNamed(h.Topic, false)
	if err != nil {
		return 0, err
	}
	g, err := p.groupOf(t, *h.Partition)
	if err != nil {
		return 0, err
	}
	if g.part >= 0 {
		return 0, problem.BadField(httpconn.ParamPartition, "two frames for partition %d of topic %s", *h.Partition, h.Topic)
	}
	data, err := p.in.Memory.Get(int(h.Bytes))
	if err != nil {
		return 0, err
	}
	if _, err := io.ReadFull(br, data); err != nil {
		return 0, httpconn.ReadFault(err)
	}
	sum, err := record.Check(data, record.Limits{BatchBytes: t.settings.MaxBatchBytes, DecompressedBytes: p.a.requestMax})
	if err != nil {
		return 0, err
	}
	p.topic, g.part = t.name, len(p.appends)
	p.add(*h.Partition, data, sum, true)
	p.appends[g.part].Check = t.check
	return h.Bytes, nil
}

// atFrame returns the problem of an invalid frame. An error of the broker is not about the frame.
func atFrame(err error, i int) error {
	if p := problemOf(err); api.Statuses[p.Code] >= http.StatusTooManyRequests {
		return err
	}
	return atLine(err, i)
}

// answer tells where the records are stored, or why none is.
func (p *atomicProducing) answer(w http.ResponseWriter, results []broker.Result) error {
	refused := -1
	for i := range results {
		if results[i].Err != nil && (refused < 0 || errors.Is(results[refused].Err, state.ErrAtomic)) {
			refused = i
		}
	}
	if refused >= 0 {
		fault := problemOf(results[refused].Err)
		if api.Statuses[fault.Code] >= http.StatusInternalServerError { // of the whole request
			return results[refused].Err
		}
		return p.atPartition(fault, refused)
	}
	duplicate := results[0].Duplicate
	if !duplicate {
		p.countProduced()
	}
	p.a.readHeaders(w)
	const longest = 512 // a name has at most 249 bytes, which need no escapes
	buf := p.a.buffers.Get(min(httpconn.StepBytes, longest*(2+max(len(p.lines), len(p.appends)))))[:0]
	defer func() { p.a.buffers.Put(buf) }()
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(http.StatusCreated)
	flush := func(room int) {
		if len(buf)+room > cap(buf) {
			_ = p.a.pace.Send(w, buf) // on an error net/http closes the connection
			buf = buf[:0]
		}
	}
	buf = append(buf, `{"records":[`...)
	if p.lines == nil {
		buf = append(buf[:0], `{"results":[`...)
		for i := range p.appends {
			flush(longest)
			buf = p.appendResult(buf, i, results)
		}
	}
	for i := range p.lines {
		flush(longest)
		buf = p.appendLine(buf, &p.lines[i], results)
	}
	if buf[len(buf)-1] == ',' {
		buf = buf[:len(buf)-1]
	}
	buf = append(buf, ']')
	if duplicate {
		buf = append(buf, `,"duplicate":true`...)
	}
	buf = append(buf, '}')
	flush(cap(buf))
	return nil
}

// appendResult appends the JSON of an api.StoredBatches and a comma.
func (p *atomicProducing) appendResult(buf []byte, i int, results []broker.Result) []byte {
	buf = append(append(buf, `{"topic":"`...), p.appends[i].Topic...)
	buf = strconv.AppendInt(append(buf, `","partition":`...), int64(p.appends[i].Partition), 10)
	buf = strconv.AppendInt(append(buf, `,"first_offset":`...), results[i].Base, 10)
	buf = strconv.AppendInt(append(buf, `,"count":`...), p.appends[i].Summary.Span, 10)
	return append(buf, `},`...)
}

// appendLine appends the JSON of an api.StoredRecord and a comma.
func (p *atomicProducing) appendLine(buf []byte, line *atomicLine, results []broker.Result) []byte {
	if q := line.queue; q != nil {
		id := q.prepared.ID(line.at, results[q.part:q.part+len(q.prepared.Parts)])
		buf = append(append(buf, `{"queue":"`...), q.name...)
		buf = append(append(buf, `","id":"`...), id.String()...)
		return append(buf, `"},`...)
	}
	g := line.group
	buf = append(append(buf, `{"topic":"`...), g.topic.name...)
	buf = strconv.AppendInt(append(buf, `","partition":`...), int64(g.partition), 10)
	buf = strconv.AppendInt(append(buf, `,"offset":`...), results[g.part].Base+int64(line.at), 10)
	return append(buf, `},`...)
}
