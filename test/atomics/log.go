package atomics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/recordtest"
	"github.com/sebbroker/seb/test/storetest"
)

// Mutants are the runs of each kind that find the mutants of package mutants.
var Mutants = map[string]func(t *testing.T, i uint64) (seed uint64, err error){
	"atomics": func(t *testing.T, i uint64) (uint64, error) {
		_, err := Run(t.Context(), i)
		return i, err
	},
}

const (
	topics, partitions = 3, 2
	clients, requests  = 4, 12
)

// topicID is the ID of topic i, of which the last one is a queue.
func topicID(i int) record.ID { return record.ID{0xa0, byte(i)} }

// world is a bucket whose log another one takes over, and the requests to them.
type world struct {
	seed  uint64
	store *storetest.Faulty
	mu    sync.Mutex // guards the fields below
	log   *log.Log
	all   []*request
}

// request is an atomic request and what is known of it.
type request struct {
	parts    []part
	released int // buffers, of attempts parts
	attempts int
	acked    bool
	refused  bool // the log has nothing of it
}

type part struct {
	topic, partition int
	value            string
	delayed          bool
	base             int64 // if acked
}

// Counts counts requests.
type Counts struct{ Stored, Acked, Refused, Repeated, Parts int }

// Run sends atomic requests to a log on a store that fails, which another log takes over. It returns the
// violated invariant: the log has all parts of a request, in one object, or none; those that were acknowledged
// at their offsets, and none that was refused. Each buffer is released once. A seed does not repeat the order
// of goroutines.
func Run(ctx context.Context, seed uint64) (n Counts, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("seed %d: %w", seed, err)
		}
	}()
	r := rand.New(rand.NewPCG(seed, 62))
	w := &world{seed: seed}
	rates := storetest.Rates{storetest.Before: 0.1 * r.Float64(), storetest.Lost: 0.1 * r.Float64(), storetest.Late: 0.05 * r.Float64()}
	w.store = storetest.NewFaulty(objstore.NewMemory(), seed, storetest.Faults{Put: rates, Get: rates, List: rates, LatencyMax: time.Duration(r.IntN(3)) * time.Millisecond, LateMax: 10 * time.Millisecond})
	first, err := w.open(ctx, r)
	if err != nil {
		return n, err
	}
	defer first.Kill()
	w.log = first
	if err := create(ctx, first); err != nil {
		return n, err
	}
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() { w.client(ctx, i) })
	}
	time.Sleep(time.Duration(r.IntN(10)) * time.Millisecond)
	second, err := w.open(ctx, r)
	if err == nil {
		defer second.Kill()
		w.mu.Lock()
		w.log = second
		w.mu.Unlock()
		wg.Wait()
		err = second.Close(ctx)
	}
	wg.Wait()
	first.Kill()
	w.store.Settle()
	w.store.SetFaults(storetest.Faults{})
	if err != nil {
		return n, err
	}
	return w.judge(ctx, r)
}

func (w *world) open(ctx context.Context, r *rand.Rand) (*log.Log, error) {
	return log.Open(ctx, log.Options{
		Store: w.store, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Batch: log.Config{Wait: time.Duration(r.IntN(2)) * time.Millisecond, ItemsMax: 1 + r.IntN(6), BytesMax: 200 + r.Int64N(1000)},
		Core:  core.Config{RetryMin: 1e5, RetryMax: 1e6, RefusedRetry: 1e6, Window: 1 + r.IntN(3)},
	})
}

// create creates the topics.
func create(ctx context.Context, l *log.Log) error {
	var ops []core.Op
	for i := range topics {
		rec := state.Record{Kind: state.TopicCreate, Topic: topicID(i), Name: fmt.Sprint("t", i), Partitions: partitions}
		if i == topics-1 {
			rec.Settings = map[string]string{"queue": "true"}
		}
		ops = append(ops, core.Op{Record: rec})
	}
	var err error
	for _, x := range l.ProposeAll(ops).Wait(ctx) {
		err = errors.Join(err, x.Err())
	}
	return err
}

// client sends requests, one after the other. It repeats one of unknown outcome, and gives up some.
func (w *world) client(ctx context.Context, id int) {
	r := rand.New(rand.NewPCG(w.seed, uint64(id)))
	epoch := int16(0)
	for n := range requests {
		q := w.draw(r, fmt.Sprintf("%d.%d", id, n))
		unknown := false
		for range 40 {
			w.mu.Lock()
			l := w.log
			q.attempts++
			w.mu.Unlock()
			call, cancel := context.WithCancel(ctx)
			if r.IntN(4) == 0 {
				cancel()
			}
			k := l.SubmitAtomic(w.encode(q, int64(id), epoch))
			if r.IntN(8) == 0 {
				call, cancel = context.WithTimeout(call, time.Millisecond)
			}
			results := k.Wait(call)
			cancel()
			acked, again := w.note(q, results, unknown)
			unknown = unknown || again && errors.Is(results[0].Err(), state.ErrOutcomeUnknown)
			if acked || !again {
				break
			}
			time.Sleep(time.Duration(r.IntN(2)) * time.Millisecond)
		}
		epoch++
	}
}

// draw makes a request, rarely with a part for a topic that does not exist.
func (w *world) draw(r *rand.Rand, name string) *request {
	q := &request{}
	for _, at := range r.Perm(topics * partitions)[:1+r.IntN(topics*partitions)] {
		p := part{topic: at / partitions, partition: at % partitions, value: fmt.Sprintf("%s.%d", name, len(q.parts)), base: -1}
		p.delayed = p.topic == topics-1 && r.IntN(2) == 0
		q.parts = append(q.parts, p)
	}
	if r.IntN(6) == 0 {
		q.parts[r.IntN(len(q.parts))].topic = topics
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, q)
	return q
}

func (w *world) encode(q *request, producer int64, epoch int16) (parts []log.Part) {
	for _, p := range q.parts {
		data, sum := recordtest.Encode(recordtest.Values(p.value), record.EncodeOptions{Producer: &record.Producer{ID: producer, Epoch: epoch}})
		x := log.Part{Append: log.Append{Data: data, Head: core.Append{
			Topic: topicID(p.topic), Partition: uint32(p.partition), Span: uint32(sum.Span), Records: uint32(sum.Records), Bytes: uint32(len(data)),
			MinTime: sum.MinTimestamp, MaxTime: sum.MaxTimestamp, Idempotent: true, Producer: state.ProducerBatch{ID: producer, Epoch: epoch, Span: uint32(sum.Span)},
		}}}
		x.Append.Release = func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			q.released++
		}
		if p.delayed {
			x.Op = &core.Op{Own: true, Placed: true, Record: state.Record{Kind: state.QueueUpdate, Topic: topicID(p.topic), Partition: uint32(p.partition), Queue: &state.QueueChange{
				Runs: []state.QueueRun{{Span: sum.Span, State: state.QueueWaiting, Until: 1 << 60}},
			}}}
		}
		parts = append(parts, x)
	}
	return parts
}

// note notes the answers to an attempt. again: the request may be repeated.
func (w *world) note(q *request, results []log.Result, unknown bool) (acked, again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	acked, final := results[0].Err() == nil, false
	for i := range results {
		err := results[i].Err()
		if q.parts[i].base = results[i].Base; err != nil {
			q.parts[i].base = -1
		}
		q.acked = q.acked || err == nil // one part is enough: then all must be there
		final = final || errors.Is(err, state.ErrUnknownTopic) || errors.Is(err, state.ErrProducerFenced)
		again = again || err != nil
	}
	if again = again && !final; final && !unknown {
		q.refused = true
	}
	return acked, again
}
