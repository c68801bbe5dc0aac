package pressure

import (
	"fmt"
	"net/http"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/recordtest"
)

// transactionParts is the number of partitions of each transaction.
const transactionParts = 8

// transactions takes 50 transactional IDs. Each aborts a transaction and leaves another one open, with batches in
// many partitions and an offset of a group.
func (g *grown) transactions() error {
	if g.n == 0 {
		if err := g.create(1, transactionParts); err != nil {
			return err
		}
	}
	return g.each(50, func(n int) error {
		id, p, err := g.initTransactions(n)
		if err != nil {
			return err
		}
		if err = g.transact(id, p, transactionParts); err != nil {
			return err
		}
		if p.ID, p.Epoch, err = g.endTransaction(id, p, false); err != nil {
			return err
		}
		if err = g.transact(id, p, transactionParts); err != nil {
			return err
		}
		return g.stage(id, p)
	})
}

const (
	openSteps   = 25
	openAtOnce  = 16 // transactions
	openBatches = 50 // of a transaction in a step
)

// openMessages sends messages to a queue in transactions that take turns. The last step commits some of them and
// aborts others; the rest stays open.
func (g *grown) openMessages() error {
	if g.n == 0 {
		g.queue(http.MethodPut, "/queues/topic-000000", `{}`, nil)
		g.open = make([]record.Producer, openAtOnce)
		for n := range g.open {
			var err error
			if _, g.open[n], err = g.initTransactions(n); err != nil {
				return err
			}
		}
	}
	last := g.n == (openSteps-1)*openAtOnce
	err := g.each(openAtOnce, func(n int) error {
		n %= openAtOnce
		id, p := transactionID(n), &g.open[n]
		for range openBatches {
			if err := g.transact(id, *p, 1); err != nil {
				return err
			}
			p.Sequence++
		}
		var err error
		if last && n%4 > 1 {
			_, _, err = g.endTransaction(id, *p, n%4 == 2)
		}
		return err
	})
	if err == nil && last {
		const each = openSteps * openBatches * openAtOnce / 4
		var q api.Queue
		g.queue(http.MethodGet, "/queues/topic-000000", "", &q)
		check.Equal(g.t, [2]int64{q.Ready, q.Delayed}, [2]int64{each, 2 * each})
	}
	return err
}

func transactionID(n int) string { return fmt.Sprintf("transaction-%06d", n) }

func (g *grown) initTransactions(n int) (id string, p record.Producer, err error) {
	id = transactionID(n)
	r := kmsg.NewPtrInitProducerIDRequest()
	r.TransactionalID, r.TransactionTimeoutMillis, r.ProducerID, r.ProducerEpoch = &id, 900_000, -1, -1
	resp, err := kafkaCall[*kmsg.InitProducerIDResponse](g, r)
	if err != nil {
		return id, p, err
	}
	return id, record.Producer{ID: resp.ProducerID, Epoch: resp.ProducerEpoch}, kerr.ErrorForCode(resp.ErrorCode)
}

// transact appends to a number of partitions.
func (g *grown) transact(id string, p record.Producer, partitions int) error {
	r := kmsg.NewPtrProduceRequest()
	r.Acks, r.TimeoutMillis, r.TransactionID = -1, 20_000, &id
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = "topic-000000", g.id("topic-000000")
	for i := range partitions {
		part := kmsg.NewProduceRequestTopicPartition()
		part.Partition = int32(i)
		part.Records, _ = recordtest.Encode([]record.Record{{Value: []byte("x"), Timestamp: time.Now().UnixMilli()}}, record.EncodeOptions{Transactional: true, Producer: &p})
		t.Partitions = append(t.Partitions, part)
	}
	r.Topics = append(r.Topics, t)
	resp, err := kafkaCall[*kmsg.ProduceResponse](g, r)
	if err != nil {
		return err
	}
	for _, p := range resp.Topics[0].Partitions {
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			return err
		}
	}
	return nil
}

func (g *grown) endTransaction(id string, p record.Producer, commit bool) (next int64, epoch int16, err error) {
	r := kmsg.NewPtrEndTxnRequest()
	r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Commit = id, p.ID, p.Epoch, commit
	resp, err := kafkaCall[*kmsg.EndTxnResponse](g, r)
	if err != nil {
		return 0, 0, err
	}
	return resp.ProducerID, resp.ProducerEpoch, kerr.ErrorForCode(resp.ErrorCode)
}

// stage adds the offset of a group of its own to a transaction.
func (g *grown) stage(id string, p record.Producer) error {
	r := kmsg.NewPtrTxnOffsetCommitRequest()
	r.TransactionalID, r.Group, r.ProducerID, r.ProducerEpoch, r.Generation = id, id, p.ID, p.Epoch, -1
	t := kmsg.NewTxnOffsetCommitRequestTopic()
	t.Topic, t.TopicID = "topic-000000", g.id("topic-000000")
	part := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	part.Offset = 1
	t.Partitions = append(t.Partitions, part)
	r.Topics = append(r.Topics, t)
	resp, err := kafkaCall[*kmsg.TxnOffsetCommitResponse](g, r)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}
