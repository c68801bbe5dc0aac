package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/kafka/conn"
	"github.com/sebbroker/seb/record"
)

// Produce (0), v0 to v13: batches are stored as the bytes that came, but for a largest timestamp that is not that of the records,
// which is repaired as Kafka does: rskafka's may be 1 ms above every record. Whatever acks a client asks for, what it is told is
// stored: acks=1 and all are answered once the object that holds the batches is, acks=0 is not answered, but an error ends
// the connection. Idempotent producers are served: any of the last five batches sent again is answered with its first offset.
// Transactions are refused (TRANSACTIONAL_ID_AUTHORIZATION_FAILED). Batches older than magic 2, and so all of v0 to v2, are
// refused with UNSUPPORTED_FOR_MESSAGE_FORMAT; those versions are named because old clients take from them that they may
// compress. Topics are not made here but by Metadata.
var produceAPI = api{
	key: kmsg.Produce, min: 0, max: 13,
	shape: conn.Shape{Flexible: 9, Fields: []conn.Field{
		conn.Text.Since(3), conn.Int16, conn.Int32,
		conn.Array(conn.Text.Until(12), conn.UUID.Since(13), conn.Array(conn.Int32, conn.Bytes)),
	}},
	begin: (*call).produce,
}

// stores says that requests of a key bring data.
func (a *api) stores() bool { return a.key == kmsg.Produce }

// batchVersion is the first version whose batches are of magic 2.
const batchVersion = 3

// produced is a produce that has begun.
type produced struct {
	*call
	r       *kmsg.ProduceRequest
	resp    *kmsg.ProduceResponse
	appends []broker.Append
	at      []*kmsg.ProduceResponseTopicPartition // of each append
	refs    []broker.TopicRef                     // of each append
	ticket  *broker.Ticket
	failed  bool // before it came to the broker
	over    bool // for want of memory
}

// produce submits what a request brings, so that the order of requests is that of the log, and leaves the wait to finish.
func (c *call) produce(ctx context.Context) (conn.Finish, error) {
	r, err := decode[kmsg.ProduceRequest](c)
	if err != nil {
		return nil, err
	}
	p := &produced{call: c, r: r, resp: kmsg.NewPtrProduceResponse()}
	p.resp.SetVersion(c.version)
	p.resp.Topics = make([]kmsg.ProduceResponseTopic, len(r.Topics))
	for i := range r.Topics {
		p.topic(&r.Topics[i], &p.resp.Topics[i])
	}
	if len(p.appends) > 0 {
		p.ticket = c.b.Submit(ctx, p.appends)
	}
	return p.finish, nil
}

func (p *produced) topic(t *kmsg.ProduceRequestTopic, out *kmsg.ProduceResponseTopic) {
	out.Default()
	out.Topic, out.TopicID = t.Topic, t.TopicID
	out.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(t.Partitions))
	ref, unknown := p.find(t)
	for i := range t.Partitions {
		o := &out.Partitions[i]
		o.Default()
		o.Partition, o.BaseOffset = t.Partitions[i].Partition, -1
		code, err := unknown, error(nil)
		if code == none {
			code, err = p.partition(&ref, &t.Partitions[i], o)
		}
		if code != none {
			p.fail(o, code, err)
		}
	}
}

// find finds a topic by its name, or by its id from v13 on.
func (p *produced) find(t *kmsg.ProduceRequestTopic) (broker.TopicRef, int16) {
	if p.version >= 13 {
		if ref, ok := p.b.TopicOf(t.TopicID); ok {
			return ref, none
		}
		return broker.TopicRef{}, kerr.UnknownTopicID.Code
	}
	if ref, ok := p.b.TopicNamed(t.Topic); ok {
		return ref, none
	}
	return broker.TopicRef{}, kerr.UnknownTopicOrPartition.Code
}

// partition checks what a request has for a partition and adds it to what is submitted.
func (p *produced) partition(ref *broker.TopicRef, in *kmsg.ProduceRequestTopicPartition, out *kmsg.ProduceResponseTopicPartition) (int16, error) {
	switch {
	case p.r.TransactionID != nil:
		return kerr.TransactionalIDAuthorizationFailed.Code, errors.New("transactions are not supported")
	case p.version < batchVersion:
		return kerr.UnsupportedForMessageFormat.Code, nil
	case in.Partition < 0 || int(in.Partition) >= ref.Partitions:
		return kerr.UnknownTopicOrPartition.Code, nil
	}
	if code, err := p.refused(in.Records); code != none {
		return code, err
	}
	if p.r.Acks < -1 || p.r.Acks > 1 {
		return kerr.InvalidRequiredAcks.Code, nil
	}
	limits, err := p.b.Limits(ref.Name)
	if err != nil {
		return appendCode(err), err
	}
	sum, err := record.CheckRepair(in.Records, limits) // in the frame, which is this request's own
	if err != nil {
		return appendCode(err), err
	}
	p.frame.Retain()
	p.appends = append(p.appends, broker.Append{
		Topic: ref.Name, Partition: in.Partition, Data: in.Records, Summary: sum, ClientMade: true, ExpectedOffset: -1,
		Release: p.frame.Release, Memory: p.frame.Memory(),
	})
	p.at, p.refs = append(p.at, out), append(p.refs, *ref)
	return none, nil
}

// zstdVersion is the first version that may bring zstd: who is older can not read it (KIP-110).
const zstdVersion = 7

// refused says what is wrong with batches that may be right in themselves. Those without a whole head are looked at later.
func (p *produced) refused(batches []byte) (int16, error) {
	if len(batches) == 0 { // CORRUPT_MESSAGE would have it sent again
		return kerr.InvalidRecord.Code, errors.New("no batch")
	}
	const appendTime, transactional = 0x08, 0x10
	for b := batches; ; {
		first, rest, err := record.Split(b)
		switch {
		case err != nil:
			return none, nil
		case first.Attributes()&transactional != 0:
			return kerr.TransactionalIDAuthorizationFailed.Code, errors.New("transactions are not supported")
		case first.Attributes()&appendTime != 0:
			return kerr.InvalidTimestamp.Code, errors.New("the append time is the broker's to give")
		case p.version < zstdVersion && first.Compression() == record.Zstd:
			return kerr.UnsupportedCompressionType.Code, errors.New("zstd needs a produce of v7")
		}
		if b = rest; len(b) == 0 {
			return none, nil
		}
	}
}

func (p *produced) fail(o *kmsg.ProduceResponseTopicPartition, code int16, err error) {
	p.failed = true
	p.met.rejected.Inc()
	o.ErrorCode, o.ErrorMessage = code, text(err)
}

// finish waits for the store, whether the client still does or not: what was submitted is not taken back.
func (p *produced) finish(ctx context.Context) (conn.Answer, error) {
	if p.ticket != nil {
		results := p.ticket.WaitFor(context.WithoutCancel(ctx), p.within(p.r.TimeoutMillis, p.o.AckTimeout))
		for i := range results {
			p.result(i, &results[i])
		}
	}
	if p.r.Acks == 0 {
		if p.failed {
			return conn.Answer{}, errors.New("a produce with acks=0 has failed: nothing but the end of the connection tells")
		}
		return conn.Answer{}, nil
	}
	if p.over {
		p.resp.ThrottleMillis = int32(throttleTime / time.Millisecond)
	}
	return p.answer(p.resp), nil
}

// throttleTime is what clients that were rejected for now are told to wait.
const throttleTime = 100 * time.Millisecond

func (p *produced) result(i int, r *broker.Result) {
	o := p.at[i]
	if r.Err != nil {
		p.over = p.over || errors.Is(r.Err, broker.ErrOverBudget)
		p.fail(o, appendCode(r.Err), r.Err)
		return
	}
	o.BaseOffset = r.Base
	if p.refs[i].AppendTime && !r.AppendTime.IsZero() {
		o.LogAppendTime = r.AppendTime.UnixMilli()
	}
	if bounds, err := p.b.Bounds(p.refs[i].ID, o.Partition); err == nil {
		o.LogStartOffset = bounds.Start
	}
	if !r.Duplicate {
		p.met.records.AddInt64(r.Span)
		p.met.appended.AddInt64(int64(len(p.appends[i].Data)))
	}
}
