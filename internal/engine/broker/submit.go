package broker

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"

	"github.com/sebbroker/seb/record"
)

// Ticket is the pending result of one Submit.
type Ticket struct {
	log     *log.Ticket // of the accepted appends, in order; nil if there is none
	results []Result
	passed  []int     // the index in results of each append of log
	once    sync.Once // copies the log's results

	oneResult [1]Result
	onePassed [1]int
}

// errPending is the placeholder in results for an append in the log. The log's result always
// replaces it.
var errPending = fmt.Errorf("%w: not answered", state.ErrOutcomeUnknown)

// Submit queues appends in call order and returns without waiting for I/O. Each append has its own
// result; an error of one does not affect the others. If ctx has ended, all are refused with
// ErrNotSent.
func (b *Broker) Submit(ctx context.Context, appends []Append) *Ticket {
	t := &Ticket{}
	var one [1]log.Append
	passing := one[:0]
	if len(appends) == 1 {
		t.results, t.passed = t.oneResult[:], t.onePassed[:0]
	} else {
		t.results = make([]Result, len(appends))
		passing = make([]log.Append, 0, len(appends))
	}
	refuse := b.refuses(ctx)
	for i := range appends {
		a := &appends[i]
		err := refuse
		var head core.Append
		if err == nil {
			head, err = b.admitClient(a)
		}
		if err != nil {
			t.results[i].Err = err
			if a.Release != nil {
				a.Release()
			}
			b.met.refused.Inc()
			continue
		}
		t.results[i].Err = errPending
		t.passed = append(t.passed, i)
		passing = append(passing, log.Append{Head: head, Data: a.Data, Release: a.Release, Memory: a.Memory})
	}
	if len(passing) > 0 {
		t.log = b.log.Submit(passing)
	}
	return t
}

// refuses returns why the broker currently refuses all writes, or nil.
func (b *Broker) refuses(ctx context.Context) error {
	if b.ReadOnly() {
		return state.ErrReadOnly
	}
	select {
	case <-b.closing:
		return ErrClosed
	case <-b.log.Done():
		return b.Err()
	default:
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ErrNotSent, context.Cause(ctx))
	}
	return nil
}

// FramingShare limits the bytes that framing may add to an append: to 1/FramingShare of the largest
// request.
const FramingShare = 8

// framingMax is the largest framing of one record: the head of a batch of its own, and its lengths.
const framingMax = record.BatchHeadSize + 40

// admitClient is admit for an append of a client.
func (b *Broker) admitClient(a *Append) (core.Append, error) {
	if err := b.checkInternal(a.Topic); err != nil {
		return core.Append{}, err
	}
	return b.admit(a)
}

// checkInternal returns an error if only Seb writes to a topic.
func (b *Broker) checkInternal(topic string) error {
	if slices.Contains(b.opt.Internal, topic) || topic == b.opt.AuditTopic && topic != "" {
		return fmt.Errorf("topic %q: %w", topic, ErrInternalTopic)
	}
	return nil
}

// admit checks an append against its topic.
func (b *Broker) admit(a *Append) (core.Append, error) {
	h := core.Append{
		Partition: uint32(a.Partition), Span: uint32(a.Summary.Span), Records: uint32(a.Summary.Records),
		Bytes: uint32(len(a.Data)), MinTime: a.Summary.MinTimestamp, MaxTime: a.Summary.MaxTimestamp,
		Expected: max(a.ExpectedOffset, -1), Check: a.Check,
	}
	rules, err := b.rules(a.Topic, a.Partition)
	if err != nil {
		return h, err
	}
	h.Topic = rules.id
	if rules.full != nil {
		return h, rules.full
	}
	if s := &a.Summary; s.ProducerID >= 0 {
		h.Idempotent = true
		h.Producer = state.ProducerBatch{ID: s.ProducerID, Epoch: s.ProducerEpoch, Sequence: s.BaseSequence, Span: h.Span}
		h.Transactional = s.Transactional
	}
	limit := b.opt.Budget.RequestMax()
	limit += min(limit/FramingShare, int64(a.Summary.Records)*framingMax)
	if int64(len(a.Data)) > limit {
		return h, fmt.Errorf("%w: %d bytes for one partition, limit %d", ErrTooLarge, len(a.Data), limit)
	}
	largest, err := checkSummary(a)
	if err != nil {
		return h, err
	}
	if room := b.opt.Budget.Class(budget.Fetch).Limit(); int64(budget.SizeFor(largest))+BlockMin > room {
		return h, fmt.Errorf("%w: batch of %d bytes, limit of the fetch memory %d", ErrTooLarge, largest, room-BlockMin)
	}
	return h, rules.checkSize(a.Topic, largest, a.ClientMade)
}

// checkSize checks the size of a batch.
func (r *rules) checkSize(topic string, size int, clientMade bool) error {
	if (clientMade || r.limited) && size > r.maxBatch {
		return fmt.Errorf("%w: batch of %d bytes, max-batch-bytes of topic %s is %d", ErrTooLarge, size, topic, r.maxBatch)
	}
	return nil
}

// CheckBatchSize returns the error with which Submit would refuse a batch of that size because of
// its topic, or nil. It lets a front end refuse a request that it has no memory to read.
func (b *Broker) CheckBatchSize(topic string, size int, clientMade bool) error {
	r, _ := b.rules(topic, 0) // an unknown topic would be created with the default
	return r.checkSize(topic, size, clientMade)
}

// CheckAppend returns the error with which Submit would refuse an append because of its content or
// its topic, or nil.
func (b *Broker) CheckAppend(a *Append) error {
	_, err := b.admitClient(a)
	return err
}

// checkSummary checks the batches' headers against their summary, because the log assigns offsets
// by the summary. It returns the size of the largest batch.
func checkSummary(a *Append) (largest int, err error) {
	var span int64
	var records int
	for rest := a.Data; len(rest) > 0; {
		var batch record.Batch
		if batch, rest, err = record.Split(rest); err != nil {
			return 0, &state.InvalidError{Field: "batch", Reason: err.Error()}
		}
		if span == 0 {
			if err := checkProducer(&a.Summary, batch); err != nil {
				return 0, err
			}
		}
		largest = max(largest, batch.Len())
		span += batch.Span()
		records += batch.Count()
	}
	if span != a.Summary.Span || records != a.Summary.Records || span <= 0 || span > math.MaxUint32 {
		return 0, &state.InvalidError{Field: "batch", Reason: fmt.Sprintf("holds %d offsets and %d records, but its summary says %d and %d",
			span, records, a.Summary.Span, a.Summary.Records)}
	}
	return largest, nil
}

// checkProducer checks a first batch's producer against the summary, because the log detects
// duplicates by the summary.
func checkProducer(s *record.Summary, batch record.Batch) error {
	if batch.Transactional() != s.Transactional {
		return &state.InvalidError{Field: "batch", Reason: "is part of a transaction, or its summary says so, but not both"}
	}
	id, epoch, sequence := batch.ProducerID(), batch.ProducerEpoch(), batch.BaseSequence()
	if id == s.ProducerID && (id < 0 || epoch == s.ProducerEpoch && sequence == s.BaseSequence) {
		return nil
	}
	return &state.InvalidError{Field: "producer", Reason: fmt.Sprintf("batch has id %d, epoch %d and sequence %d, but its summary says %d, %d and %d",
		id, epoch, sequence, s.ProducerID, s.ProducerEpoch, s.BaseSequence)}
}

// rules are a topic's limits for appends.
type rules struct {
	id       record.ID
	maxBatch int
	limited  bool // the topic sets maxBatch
	queue    bool
	full     *QueueFullError
}

func (b *Broker) rules(topic string, partition int32) (r rules, err error) {
	r.maxBatch = state.MaxBatchBytesDefault
	err = state.ErrNotLeader
	b.log.Read(func(s *state.State) {
		t := s.TopicByName(topic)
		switch {
		case t == nil:
			err = state.ErrUnknownTopic
			return
		case partition < 0 || int(partition) >= t.Partitions.Len():
			err = state.ErrUnknownPartition
			return
		}
		r.id, err = t.ID, nil
		if r.queue = t.IsQueue(); r.queue {
			r.full = fullQueue(t, int(partition))
		}
		if v, ok := t.Settings["max-batch-bytes"]; ok {
			r.limited = true
			r.maxBatch, err = strconv.Atoi(v) // a setting is stored in canonical form
		}
	})
	return r, err
}

// Done is closed when every append has its result.
func (t *Ticket) Done() <-chan struct{} {
	if t.log == nil {
		return answered
	}
	return t.log.Done()
}

var answered = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Wait returns a result for each append, in order. If ctx ends first, appends that were not sent
// are withdrawn (ErrNotSent), and sent ones are ErrOutcomeUnknown. The results are read-only. Wait
// may be called again, and concurrently.
func (t *Ticket) Wait(ctx context.Context) []Result {
	if t.log == nil {
		return t.results
	}
	return t.mapped(t.log.Wait(ctx))
}

// WaitFor is Wait with a context that ends after d, but cheaper.
func (t *Ticket) WaitFor(ctx context.Context, d time.Duration) []Result {
	if t.log == nil {
		return t.results
	}
	return t.mapped(t.log.WaitFor(ctx, d))
}

func (t *Ticket) mapped(logged []log.Result) []Result {
	t.once.Do(func() {
		for i := range logged {
			t.results[t.passed[i]] = result(&logged[i])
		}
	})
	return t.results
}

// result converts the log's result.
func result(r *log.Result) Result {
	if err := r.Err(); err != nil {
		return Result{Err: err}
	}
	if r.Duplicate {
		return Result{Base: r.Base, Span: r.Span, Duplicate: true}
	}
	return Result{Base: r.Base, Span: r.Span, AppendTime: time.UnixMicro(r.Time)}
}
