package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/framed"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
	"github.com/sebbroker/seb/record"
)

// Produce (0), v0 to v13: batches are stored byte for byte, except for a wrong largest timestamp,
// which is corrected as in Kafka: that of rskafka may be 1 ms above every record.
//
// acks=1 and all are answered once the object with the batches is stored. acks=0 is not answered,
// but an error ends the connection. An idempotent producer that repeats any of its last five
// batches gets the first offset of the stored one. Batches with a magic below 2, and so all of v0 to
// v2, are refused with UNSUPPORTED_FOR_MESSAGE_FORMAT; these versions are announced because old clients
// derive from them that they may compress. Produce does not create topics; Metadata does.
//
// Batches of a transaction need the request's transactional ID, and the right to it, else they are
// refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED. From v12 on the first batch in a partition adds it
// to the transaction (version 2). Before, the client must have added it, else it gets INVALID_TXN_STATE,
// or in v11 TRANSACTION_ABORTABLE.
//
// A standby, and a leader that was deposed, answer NOT_LEADER_OR_FOLLOWER; from v10 on with the
// leader and its address, so that the client needs no Metadata (KIP-951).
var _ = register(api{
	key: kmsg.Produce, min: 0, max: 13,
	shape: wire.Shape{Flexible: 9, Fields: []wire.Field{
		wire.Text.Since(3), wire.Int16, wire.Int32,
		wire.Array(wire.Text.Until(12), wire.UUID.Since(13), wire.Array(wire.Int32, wire.Bytes)),
	}},
	begin: (*call).produce,
})

// carriesRecords reports whether requests of a key carry records.
func (a *api) carriesRecords() bool { return a.key == kmsg.Produce }

// batchVersion is the first version whose batches have magic 2.
const batchVersion = 3

// produceCall is a produce in progress.
type produceCall struct {
	*call
	r          *kmsg.ProduceRequest
	resp       *kmsg.ProduceResponse
	appends    []broker.Append
	at         []*kmsg.ProduceResponseTopicPartition // answer of each append
	refs       []broker.TopicRef                     // of each append
	ticket     *broker.Ticket
	txn        producer // of the transactional ID
	standby    bool     // another broker leads
	failed     bool     // before it reached the broker
	overBudget bool     // refused for lack of memory
}

// producer is the producer that has the transactional ID of a request.
type producer struct {
	state.ProducerEpoch
	known  bool
	denied int16
}

// findProducer finds the producer of the request's transactional ID.
func (p *produceCall) findProducer() {
	if id := p.r.TransactionID; id != nil {
		p.txn.denied = p.denied(access.Write, access.TransactionalID, *id)
		p.txn.ProducerEpoch, p.txn.known = p.b.ProducerOf(*id)
	}
}

// produce submits the batches of a request, so that the log has the order of the requests, and
// leaves the wait to finish.
func (c *call) produce(ctx context.Context) (framed.Finish, error) {
	c.noteExpectsLeader()
	r, err := decode[kmsg.ProduceRequest](c)
	if err != nil {
		return nil, err
	}
	p := &produceCall{call: c, r: r, resp: kmsg.NewPtrProduceResponse(), standby: c.standsBy()}
	p.resp.SetVersion(c.version)
	if c.version < batchVersion {
		c.warnVersion("kafka: Produce of an old format refused", batchVersion)
	}
	p.findProducer()
	p.resp.Topics = make([]kmsg.ProduceResponseTopic, len(r.Topics))
	for i := range r.Topics {
		p.topic(&r.Topics[i], &p.resp.Topics[i])
	}
	if len(p.appends) > 0 {
		p.ticket = c.b.Submit(ctx, p.appends)
	}
	return p.finish, nil
}

func (p *produceCall) topic(t *kmsg.ProduceRequestTopic, out *kmsg.ProduceResponseTopic) {
	out.Default()
	out.Topic, out.TopicID = t.Topic, t.TopicID
	out.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(t.Partitions))
	ref, check, unknown := p.find(t)
	for i := range t.Partitions {
		o := &out.Partitions[i]
		o.Default()
		o.Partition, o.BaseOffset = t.Partitions[i].Partition, -1
		code, err := unknown, error(nil)
		if p.standby && (code == none || code == kerr.UnknownTopicOrPartition.Code || code == kerr.UnknownTopicID.Code) {
			code, err = kerr.NotLeaderForPartition.Code, state.ErrNotLeader // the topic may be new
		}
		if code == none {
			code, err = p.partition(&ref, check, &t.Partitions[i], o)
		}
		if code != none {
			p.fail(o, code, err)
		}
	}
}

// find finds a topic by its name, or by its ID from v13 on, and checks the right to write. Without it
// the code tells nothing about whether the topic exists.
func (p *produceCall) find(t *kmsg.ProduceRequestTopic) (ref broker.TopicRef, check *access.Check, code int16) {
	name, known := t.Topic, true
	if p.version >= 13 {
		if ref, known = p.b.TopicOf(t.TopicID); !known {
			return ref, nil, kerr.UnknownTopicID.Code
		}
		name = ref.Name
	}
	check, allowed := p.who.Check(access.Write, access.Topic, name)
	switch {
	case !allowed:
		code = p.deny(access.Write, access.Topic, name)
		if p.version >= 13 && !p.may(access.Describe, access.Topic, name) {
			code = kerr.UnknownTopicID.Code
		}
		return ref, nil, code
	case p.version < 13:
		if ref, known = p.b.TopicNamed(name); !known {
			return ref, nil, kerr.UnknownTopicOrPartition.Code
		}
	}
	return ref, check, none
}

// partition checks the batches of a partition and adds them to the appends.
func (p *produceCall) partition(ref *broker.TopicRef, check *access.Check, in *kmsg.ProduceRequestTopicPartition, out *kmsg.ProduceResponseTopicPartition) (int16, error) {
	switch {
	case p.txn.denied != none:
		return p.txn.denied, errDenied
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
		return AppendCode(err), err
	}
	limits.Transactional = p.r.TransactionID != nil
	sum, err := record.CheckRepair(in.Records, limits) // in place; the request owns the frame
	if err != nil {
		return AppendCode(err), err
	}
	if code, err := p.outsideTransaction(&sum, ref.Name, in.Partition); code != none {
		return code, err
	}
	p.frame.Retain()
	p.appends = append(p.appends, broker.Append{
		Topic: ref.Name, Partition: in.Partition, Data: in.Records, Summary: sum, ClientMade: true, ExpectedOffset: -1, Check: check,
		Release: p.frame.Release, Memory: p.frame.Memory(),
	})
	p.at, p.refs = append(p.at, out), append(p.refs, *ref)
	return none, nil
}

// outsideTransaction returns why batches cannot be part of the transaction of the request's
// transactional ID. Whether their epoch is that of the transaction is decided when they have a slot.
func (p *produceCall) outsideTransaction(sum *record.Summary, topic string, n int32) (int16, error) {
	switch level := p.b.Level().Now; {
	case !sum.Transactional:
		return none, nil
	case level < state.LevelTransactions:
		err := &state.LevelError{Needs: state.LevelTransactions, Has: level}
		return AppendCode(err), err
	case !p.txn.known || p.txn.ID != sum.ProducerID:
		return AppendCode(state.ErrUnknownTransaction), state.ErrUnknownTransaction
	case p.version >= addsPartitions:
		return none, nil
	}
	of := state.ProducerEpoch{ID: sum.ProducerID, Epoch: sum.ProducerEpoch}
	if p.txns.inTransaction(*p.r.TransactionID, of, partition{topic, n}) {
		return none, nil
	}
	err := errors.New("the partition was not added to the transaction")
	if p.version >= knowsAbortable {
		return kerr.TransactionAbortable.Code, err
	}
	return kerr.InvalidTxnState.Code, err
}

// zstdVersion is the first version with zstd, because older clients cannot read it (KIP-110).
const zstdVersion = 7

// refused reports attributes that are valid in a batch but not in this request. Batches with an
// incomplete head are checked later.
func (p *produceCall) refused(batches []byte) (int16, error) {
	if len(batches) == 0 { // after CORRUPT_MESSAGE clients would retry
		return kerr.InvalidRecord.Code, errors.New("no batch")
	}
	const appendTime = 0x08
	for b := batches; ; {
		first, rest, err := record.Split(b)
		switch {
		case err != nil:
			return none, nil
		case first.Transactional() && p.r.TransactionID == nil:
			return kerr.TransactionalIDAuthorizationFailed.Code, errors.New("batch of a transaction without a transactional ID")
		case first.Attributes()&appendTime != 0:
			return kerr.InvalidTimestamp.Code, errors.New("timestamp type append time: only the broker sets it")
		case p.version < zstdVersion && first.Compression() == record.Zstd:
			return kerr.UnsupportedCompressionType.Code, errors.New("zstd: want Produce v7 or later")
		}
		if b = rest; len(b) == 0 {
			return none, nil
		}
	}
}

func (p *produceCall) fail(o *kmsg.ProduceResponseTopicPartition, code int16, err error) {
	p.failed = true
	p.met.rejected.Inc()
	o.ErrorCode, o.ErrorMessage = code, text(err)
}

// finish waits for the store, even if the client is gone: a submitted batch cannot be withdrawn.
func (p *produceCall) finish(ctx context.Context) (framed.Answer, error) {
	if p.ticket != nil {
		results := p.ticket.WaitFor(context.WithoutCancel(ctx), p.within(p.r.TimeoutMillis, p.o.AckTimeout))
		for i := range results {
			p.result(i, &results[i])
		}
	}
	if p.r.Acks == 0 {
		if p.failed {
			return framed.Answer{}, errors.New("produce with acks=0 failed: the closed connection is the only answer")
		}
		return framed.Answer{}, nil
	}
	p.nameLeader(ctx)
	if p.overBudget {
		p.resp.ThrottleMillis = int32(throttleTime / time.Millisecond)
	}
	return p.answer(p.resp, p.resp.AppendTo), nil
}

// leaderVersion is the first version of Produce whose answer names the leader.
const leaderVersion = 10

// nameLeader adds the leader to the partitions that this broker does not lead.
func (p *produceCall) nameLeader(ctx context.Context) {
	if !p.failed {
		return
	}
	var ns *nodes
	for i := range p.resp.Topics {
		for j := range p.resp.Topics[i].Partitions {
			o := &p.resp.Topics[i].Partitions[j]
			if o.ErrorCode != kerr.NotLeaderForPartition.Code {
				continue
			}
			if ns == nil {
				ns = p.nextLeader(ctx)
				p.noteLeaderNamed()
			}
			if ns == nil || p.version < leaderVersion {
				return
			}
			o.CurrentLeader.LeaderID, o.CurrentLeader.LeaderEpoch = ns.leader.id, ns.epoch
		}
	}
	if ns != nil {
		b := kmsg.NewProduceResponseBroker()
		b.NodeID, b.Host, b.Port = ns.leader.id, ns.leader.host, ns.leader.port
		p.resp.Brokers = append(p.resp.Brokers, b)
	}
}

// throttleTime is the throttle time of clients that were refused for lack of memory.
const throttleTime = 100 * time.Millisecond

func (p *produceCall) result(i int, r *broker.Result) {
	o := p.at[i]
	if r.Err != nil {
		p.overBudget = p.overBudget || errors.Is(r.Err, state.ErrOverBudget)
		p.fail(o, AppendCode(r.Err), r.Err)
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
