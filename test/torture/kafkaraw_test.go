package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/history"
	"github.com/sebbroker/seb/test/kafkatest"
)

// The error codes that these clients distinguish.
const (
	kafkaNone               = 0
	kafkaOffsetOutOfRange   = 1
	kafkaRequestTimedOut    = 7
	kafkaUnknownServerError = -1
)

// kafkaUnexpected are codes that no broker may return in a run: requests are valid, and the topic
// exists.
var kafkaUnexpected = map[int16]string{
	kafkaUnknownServerError: "UNKNOWN_SERVER_ERROR", 2: "CORRUPT_MESSAGE", 3: "UNKNOWN_TOPIC_OR_PARTITION", 10: "MESSAGE_TOO_LARGE",
	22: "ILLEGAL_GENERATION", 25: "UNKNOWN_MEMBER_ID", 42: "INVALID_REQUEST", 45: "OUT_OF_ORDER_SEQUENCE_NUMBER", 87: "INVALID_RECORD", 100: "UNKNOWN_TOPIC_ID",
}

// kafkaCode counts a code, and reports forbidden ones.
func (u *user) kafkaCode(what string, code int16) {
	if code == kafkaNone {
		return
	}
	u.r.counts.add(fmt.Sprintf("Kafka %s code %d", what, code), 1)
	if name := kafkaUnexpected[code]; name != "" {
		u.r.fault("client %d got %s for %s", u.id, name, what)
	}
}

// kafkaLink is a connection to one broker of one epoch.
type kafkaLink struct {
	kafkatest.Conn
	epoch uint32 // of the broker
}

// kafkaDial returns a dialer like dial for Kafka. It may be used concurrently.
func (r *run) kafkaDial(id int32) func(context.Context, string, string) (net.Conn, error) {
	dice := rand.New(rand.NewPCG(r.p.seed, uint64(id)+1<<33))
	turn := make(chan struct{}, 1)
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		turn <- struct{}{}
		draw := dice.Float64()
		<-turn
		return r.dialTo(ctx, draw, func(s *slot) string { return s.kafka.Address() })
	}
}

// kafka returns an authenticated connection to a broker with its epoch.
func (u *user) kafka(ctx context.Context) (*kafkaLink, error) {
	if u.link != nil {
		return u.link, nil
	}
	conn, err := u.kafkaDial(ctx, "", "")
	if err != nil {
		return nil, err
	}
	l := &kafkaLink{Conn: kafkatest.Conn{Conn: conn}}
	if err := u.login(ctx, l); err != nil {
		_ = conn.Close()
		return nil, err
	}
	u.link = l
	return l, nil
}

// login authenticates and requests the broker's epoch.
func (u *user) login(ctx context.Context, l *kafkaLink) error {
	if err := l.Login(ctx, u.r.key()); err != nil {
		return err // the address may belong to a broker of another run
	}
	which := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(topic)
	which.Topics = append(which.Topics, t)
	answer, err := l.Ask(ctx, which, 12)
	if err != nil {
		return err
	}
	for _, t := range answer.(*kmsg.MetadataResponse).Topics {
		for _, p := range t.Partitions {
			l.epoch = uint32(p.LeaderEpoch)
		}
	}
	if l.epoch == 0 {
		return errors.New("broker has no epoch yet")
	}
	return nil
}

// kafkaCall sends a request. Without an answer it returns an error, and whether the broker may have
// received the request.
func kafkaCall[R kmsg.Response](ctx context.Context, u *user, req kmsg.Request, version int16) (resp R, epoch uint32, sent bool, err error) {
	l, err := u.kafka(ctx)
	if err != nil {
		return resp, 0, false, err
	}
	answer, err := l.Ask(ctx, req, version)
	if err != nil {
		return resp, 0, true, err
	}
	return answer.(R), l.epoch, true, nil
}

// lost closes a failed connection.
func (u *user) lost() {
	if u.link != nil {
		_ = u.link.Close()
		u.link = nil
	}
}

// restKafka is the pause between two operations. Sometimes it closes the connection.
func (u *user) restKafka(ctx context.Context, failed bool) {
	if failed || u.rng.IntN(50) == 0 {
		u.lost()
	}
	sleep(ctx, time.Duration(u.rng.Int64N(int64(u.r.p.pause)+1)))
}

// produceKafka sends batches over the Kafka protocol until ctx ends, not idempotent and without
// retries: every code must be correct.
func (u *user) produceKafka(ctx context.Context) {
	defer u.lost()
	for ctx.Err() == nil {
		part := u.partition()
		n := 1 + u.rng.IntN(recordsMax)
		e, values := u.next(part, n)
		e.Form = "kafka"
		op := u.r.rec.Invoke(e)
		call, cancel := u.timeout(context.WithoutCancel(ctx))
		is := u.produceBatch(call, part, u.batch(values, nil))
		cancel()
		u.returned(op, is)
		u.restKafka(ctx, is.Is != history.OK)
	}
}

func (u *user) produceBatch(ctx context.Context, part int32, batch []byte) history.Event {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = pick(u.rng, int16(-1), 1), int32(span(u.rng, 20*time.Millisecond, 5*time.Second).Milliseconds())
	t, p := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	t.Topic, p.Partition, p.Records = topic, part, batch
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	got, epoch, sent, err := kafkaCall[*kmsg.ProduceResponse](ctx, u, req, 9)
	switch {
	case !sent:
		return history.Event{Is: history.Rejected, Code: "no broker"}
	case err != nil:
		return history.Event{Is: history.Unknown}
	}
	if len(got.Topics) != 1 || len(got.Topics[0].Partitions) != 1 || got.Topics[0].Partitions[0].Partition != part {
		u.r.fault("client %d: answer %+v to a batch for partition %d", u.id, got, part)
		return history.Event{Is: history.Unknown}
	}
	q := got.Topics[0].Partitions[0]
	u.kafkaCode("produce", q.ErrorCode)
	switch q.ErrorCode {
	case kafkaNone:
		return history.Event{Is: history.OK, At: q.BaseOffset, Epoch: epoch}
	case kafkaRequestTimedOut:
		return history.Event{Is: history.Unknown, Code: "timed out"}
	}
	return history.Event{Is: history.Rejected, Code: strconv.Itoa(int(q.ErrorCode))}
}

// readKafka reads from random offsets and requests starts and ends until ctx ends.
func (u *user) readKafka(ctx context.Context) {
	defer u.lost()
	for ctx.Err() == nil {
		part := u.partition()
		var failed bool
		if u.rng.IntN(4) == 0 {
			failed = u.listKafka(ctx, part)
		} else {
			failed = u.fetchKafka(ctx, part, u.from(part))
		}
		u.restKafka(ctx, failed)
	}
}

// listKafka requests the end of a partition.
func (u *user) listKafka(ctx context.Context, part int32) (failed bool) {
	op := u.r.rec.Invoke(history.Event{Do: history.Read, Client: u.id, Part: part, From: history.None, Form: "kafka list"})
	call, cancel := u.timeout(ctx)
	defer cancel()
	is := history.Event{Is: history.Failed}
	defer func() { u.r.rec.Return(op, is) }()
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	t, p := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
	t.Topic, p.Partition, p.Timestamp, p.CurrentLeaderEpoch = topic, part, -1, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	got, epoch, _, err := kafkaCall[*kmsg.ListOffsetsResponse](call, u, req, 6)
	if err != nil {
		return true
	}
	q := got.Topics[0].Partitions[0]
	u.kafkaCode("list", q.ErrorCode)
	if q.ErrorCode != kafkaNone {
		return true
	}
	is = history.Event{Is: history.OK, Epoch: epoch, End: q.Offset}
	return false
}

// fetchKafka reads once.
func (u *user) fetchKafka(ctx context.Context, part int32, from int64) (failed bool) {
	op := u.r.rec.Invoke(history.Event{Do: history.Read, Client: u.id, Part: part, From: from, Form: "kafka"})
	call, cancel := u.timeout(ctx)
	defer cancel()
	is := history.Event{Is: history.Failed}
	defer func() { u.r.rec.Return(op, is) }()
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = -1, u.rng.Int32N(300), 1, 1<<20, -1
	t, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	t.Topic, p.Partition, p.FetchOffset, p.CurrentLeaderEpoch, p.PartitionMaxBytes = topic, part, from, -1, 1+u.rng.Int32N(64<<10)
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	got, epoch, _, err := kafkaCall[*kmsg.FetchResponse](call, u, req, 11)
	if err != nil {
		return true
	}
	u.kafkaCode("fetch", got.ErrorCode)
	if got.ErrorCode != kafkaNone || len(got.Topics) == 0 {
		return true
	}
	q := got.Topics[0].Partitions[0]
	u.kafkaCode("fetch", q.ErrorCode)
	switch q.ErrorCode {
	case kafkaNone:
		is = history.Event{Is: history.OK, Epoch: epoch, End: q.HighWatermark, Start: q.LogStartOffset}
		u.sawBatches(&is, q.RecordBatches, from)
		// A stopping broker, or one without memory, returns nothing, and the client must retry.
		is.Cut = len(is.Got) == 0
		return false
	case kafkaOffsetOutOfRange:
		is.Epoch, is.Start = epoch, max(q.LogStartOffset, 0)
	}
	return true
}

// sawBatches adds the records of an answer from an offset on.
func (u *user) sawBatches(is *history.Event, b []byte, from int64) {
	var rd record.Reader
	rd.Reset(b, from)
	for rd.Next() {
		u.saw(is, rd.Record().Offset, rd.Record().Value)
	}
	if err := rd.Err(); err != nil {
		is.Bad = fmt.Sprintf("batches from %d on: %v", from, err)
	}
}

// registersKafka commits and fetches offsets of the group that it shares with HTTP clients, until
// ctx ends.
func (u *user) registersKafka(ctx context.Context) {
	defer u.lost()
	const group = "shared"
	for ctx.Err() == nil {
		part := u.partition()
		var failed bool
		if half(u.rng) {
			failed = u.fetchOffsetKafka(ctx, group, part)
		} else {
			failed = u.commitOffsetKafka(ctx, group, part)
		}
		u.restKafka(ctx, failed)
	}
}

func (u *user) commitOffsetKafka(ctx context.Context, group string, part int32) (failed bool) {
	to := u.rng.Int64N(1000)
	op := u.r.rec.Invoke(history.Event{Do: history.Commit, Client: u.id, Part: part, Group: group, To: to, Form: "kafka"})
	call, cancel := u.timeout(context.WithoutCancel(ctx))
	defer cancel()
	is := history.Event{Is: history.Rejected}
	defer func() { u.r.rec.Return(op, is) }()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	t, p := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
	t.Topic, p.Partition, p.Offset, p.Metadata = topic, part, to, kmsg.StringPtr(strconv.FormatInt(op, 10))
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	got, epoch, sent, err := kafkaCall[*kmsg.OffsetCommitResponse](call, u, req, 8)
	if err != nil {
		if sent {
			is.Is = history.Unknown
		}
		return true
	}
	code := got.Topics[0].Partitions[0].ErrorCode
	u.kafkaCode("commit", code)
	switch code {
	case kafkaNone:
		is = history.Event{Is: history.OK, Epoch: epoch}
		return false
	case kafkaRequestTimedOut:
		is.Is = history.Unknown
	}
	is.Code = strconv.Itoa(int(code))
	return true
}

func (u *user) fetchOffsetKafka(ctx context.Context, group string, part int32) (failed bool) {
	op := u.r.rec.Invoke(history.Event{Do: history.Fetch, Client: u.id, Part: part, Group: group, Form: "kafka"})
	call, cancel := u.timeout(ctx)
	defer cancel()
	is := history.Event{Is: history.Failed}
	defer func() { u.r.rec.Return(op, is) }()
	q, epoch, ok := u.askOffset(call, group, part)
	if !ok {
		return true
	}
	is = history.Event{Is: history.OK, Epoch: epoch, At: q.Offset}
	if q.Offset < 0 {
		return false
	}
	if q.Metadata == nil {
		u.r.fault("client %d: group %s has no metadata", u.id, group)
		return true
	}
	var err error
	if is.By, err = strconv.ParseInt(*q.Metadata, 10, 64); err != nil {
		u.r.fault("client %d: group %s has metadata %q", u.id, group, *q.Metadata)
	}
	return false
}

// askOffset requests a group's commit of a partition; ok is false without an answer.
func (u *user) askOffset(ctx context.Context, group string, part int32) (q kmsg.OffsetFetchResponseTopicPartition, epoch uint32, ok bool) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	t := kmsg.NewOffsetFetchRequestTopic()
	t.Topic, t.Partitions = topic, []int32{part}
	req.Topics = append(req.Topics, t)
	got, epoch, _, err := kafkaCall[*kmsg.OffsetFetchResponse](ctx, u, req, 7)
	if err != nil {
		return q, 0, false
	}
	u.kafkaCode("offsets", got.ErrorCode)
	if got.ErrorCode != kafkaNone {
		return q, 0, false
	}
	q = got.Topics[0].Partitions[0]
	u.kafkaCode("offsets", q.ErrorCode)
	return q, epoch, q.ErrorCode == kafkaNone
}
