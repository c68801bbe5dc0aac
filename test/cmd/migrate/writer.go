package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The topics of a move.
const (
	orders = "orders" // deletes
	stock  = "stock"  // compacts

	ordersPartitions = 4
	stockPartitions  = 2
	stockEvery       = 4  // of so many records one is for stock
	tombstoneEvery   = 10 // in each topic
	payload          = 200
)

// writer writes numbered records. In each partition the numbers begin at 0 and rise by one, over all
// clusters. It belongs to one goroutine, except for the atomic fields.
type writer struct {
	client *kgo.Client
	total  int64
	next   map[string][]int64 // number of the next record, by topic and partition
	newest []map[string]int64 // number of the newest record of each key of stock, by partition
	keys   int64
	acked  atomic.Int64
	failed atomic.Pointer[error]
}

func newWriter(keys int64) *writer {
	w := &writer{keys: keys, next: map[string][]int64{orders: make([]int64, ordersPartitions), stock: make([]int64, stockPartitions)}}
	for range stockPartitions {
		w.newest = append(w.newest, map[string]int64{})
	}
	return w
}

// connect makes w write to a cluster.
func (w *writer) connect(c *cluster) (err error) {
	if w.client != nil {
		w.client.Close()
	}
	w.client, err = kgo.NewClient(c.options(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(5*time.Millisecond))...)
	return err
}

// record returns the next record. The value repeats a pattern of its number, so that codecs and comparisons
// see different bytes.
func (w *writer) record() *kgo.Record {
	topic, partitions := orders, int64(ordersPartitions)
	if w.total%stockEvery == stockEvery-1 {
		topic, partitions = stock, stockPartitions
	}
	p := int32(w.total / stockEvery % partitions)
	n := w.next[topic][p]
	w.total++
	w.next[topic][p]++
	key := fmt.Sprintf("key-%d", (n*7919+int64(p))%w.keys)
	r := &kgo.Record{
		Topic: topic, Partition: p, Key: []byte(key), Timestamp: time.Now(),
		Headers: []kgo.RecordHeader{{Key: "n", Value: binary.BigEndian.AppendUint64(nil, uint64(n))}, {Key: "content-type", Value: []byte("text/plain")}},
	}
	if n%tombstoneEvery != tombstoneEvery-1 {
		r.Value = fmt.Appendf(nil, "%s %d %0*d", key, n, payload, n*n)
	}
	if topic == stock {
		w.newest[p][key] = n
	}
	return r
}

// number returns the number of a record.
func number(r *kgo.Record) int64 {
	for _, h := range r.Headers {
		if h.Key == "n" && len(h.Value) == 8 {
			return int64(binary.BigEndian.Uint64(h.Value))
		}
	}
	return -1
}

// write writes n records, at most rate in a second (0: as fast as possible), and returns when all of them
// are acknowledged. It ends early, without an error, when ctx ends. progress is called sometimes.
func (w *writer) write(ctx context.Context, n, rate int64, progress func()) error {
	begin := time.Now()
	for k := int64(0); k < n && ctx.Err() == nil; k++ {
		if rate > 0 && k%100 == 0 {
			if ahead := time.Duration(k)*time.Second/time.Duration(rate) - time.Since(begin); ahead > 0 {
				time.Sleep(ahead)
			}
		}
		if k%1000 == 0 {
			progress()
		}
		// Not ctx: what has a number is written.
		w.client.Produce(context.Background(), w.record(), func(r *kgo.Record, err error) {
			if err != nil {
				err = fmt.Errorf("write %s partition %d: %w", r.Topic, r.Partition, err)
				w.failed.CompareAndSwap(nil, &err)
				return
			}
			w.acked.Add(1)
		})
	}
	if err := w.client.Flush(context.Background()); err != nil {
		return err
	}
	if err := w.failed.Load(); err != nil {
		return *err
	}
	if got := w.acked.Load(); got != w.total {
		return fmt.Errorf("%d records written, %d acknowledged", w.total, got)
	}
	return nil
}
