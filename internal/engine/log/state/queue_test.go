package state

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sebbroker/seb/internal/engine/base/protobuf"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
)

// TestQueueRuns compares packed runs with a map of messages, over random changes, trims and views.
func TestQueueRuns(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		const messages = 4000
		want, q := map[int64]QueueRun{}, &Queue{}
		done := int64(0)
		var view Queue
		var seen []QueueRun
		for range 150 {
			if r.IntN(10) == 0 { // a view stays as it is
				if view.Runs.n > 0 && !slices.Equal(view.Runs.list(), seen) {
					t.Fatalf("seed %d: a view has changed", seed)
				}
				view, seen = *q, q.Runs.list()
				p := Partition{queue: q}
				q = p.queueForWrite(q.gen + 1)
			}
			var c QueueChange
			for at := done + r.Int64N(40); at < messages && len(c.Runs) < 1+r.IntN(60); {
				run := QueueRun{Base: at, Span: 1 + r.Int64N(1+r.Int64N(20)), State: QueueDone + QueueState(r.IntN(4))}
				switch run.State {
				case QueueUncommitted:
					run.Until, run.Producer = math.MaxInt64, r.Int64N(3)
				case QueueWaiting, QueueLeased:
					run.Until, run.Deliveries = r.Int64N(1000), r.Uint32N(4)
				}
				if run.State == QueueLeased {
					run.Epoch = 1 + r.Uint32N(2)
				}
				c.Runs = append(c.Runs, run)
				at = run.End() + r.Int64N(1+r.Int64N(100))
			}
			q.apply(&c, 5)
			for _, run := range c.Runs {
				for at := run.Base; at < run.End(); at++ {
					want[at] = run.part(at, at+1)
				}
			}
			if r.IntN(8) == 0 {
				endIn(q, want, r.Int64N(3), r.IntN(2) == 0)
			}
			start := int64(0)
			if r.IntN(20) == 0 {
				start = done + r.Int64N(100)
			}
			for done < start || want[done].State == QueueDone {
				delete(want, done)
				done++
			}
			if q.trimmed(start, 5); q.Done != done {
				t.Fatalf("seed %d: done up to %d, want %d", seed, q.Done, done)
			}
			compareQueue(t, seed, q, want)
		}
	}
}

// endIn ends the transaction of a producer.
func endIn(q *Queue, want map[int64]QueueRun, producer int64, abort bool) {
	first := int64(math.MaxInt64)
	for at, m := range want { //tidy:unordered each by itself
		switch held := m.State == QueueUncommitted && m.Producer == producer; {
		case held && abort:
			want[at] = QueueRun{Base: at, Span: 1, State: QueueDone}
		case held:
			delete(want, at)
		default:
			continue
		}
		first = min(first, at)
	}
	q.Runs.end(producer, first, abort)
}

// TestEndJoinsRuns: no run continues the one before after the end of a transaction, wherever the chunks begin.
func TestEndJoinsRuns(t *testing.T) {
	for n := range int64(2 * queueChunkRuns) {
		var runs []QueueRun
		add := func(r QueueRun) {
			if len(runs) > 0 {
				r.Base = runs[len(runs)-1].End()
			}
			r.Span = 1
			runs = append(runs, r)
		}
		waiting := func() {
			for i := range n {
				add(QueueRun{State: QueueWaiting, Until: 1 + i})
			}
		}
		waiting()
		add(QueueRun{State: QueueDone})
		for i := range int64(3 * queueChunkRuns) {
			add(QueueRun{State: QueueUncommitted, Until: math.MaxInt64, Producer: i % 3})
		}
		add(QueueRun{State: QueueDone})
		waiting()
		var q QueueRuns
		q.set(runs)
		for _, producer := range []int64{1, 0, 2} {
			q.end(producer, n, true)
			for i, list := 1, q.list(); i < len(list); i++ {
				if list[i].Follows(&list[i-1]) {
					t.Fatalf("%d runs before the transactions: %+v follows %+v", n, list[i], list[i-1])
				}
			}
		}
		check.Equal(t, q.Len(), int(2*n+1))
	}
}

func compareQueue(t *testing.T, seed uint64, q *Queue, want map[int64]QueueRun) {
	t.Helper()
	got := map[int64]QueueRun{}
	n, bytes, first := 0, 0, int64(-1)
	for _, k := range q.Runs.chunks {
		n, bytes = n+k.n, bytes+len(k.rows)+queueChunkMemory
	}
	for run := range q.Runs.All(0) {
		if run.Base <= first && run.Span > 0 {
			t.Fatalf("seed %d: run at %d after %d", seed, run.Base, first)
		}
		for first = run.Base; first < run.End(); first++ {
			got[first] = run.part(first, first+1)
		}
		first--
	}
	if !maps.Equal(got, want) || n != q.Runs.Len() || bytes != q.Runs.Memory() {
		t.Fatalf("seed %d: %d messages in %d runs of %d bytes, want %d messages; counted %d, %d", seed, len(got), n, bytes, len(want), q.Runs.Len(), q.Runs.Memory())
	}
	left, from := int64(0), q.Done
	for run := range q.Left(0, 5000) {
		for at := from; at < run.Base; at++ {
			if s := want[at].State; s != QueueDone && s != QueueUncommitted {
				t.Fatalf("seed %d: message %d is not left", seed, at)
			}
		}
		if from = run.End(); run.State != want[run.Base].State || run.State == QueueDone || run.State == QueueUncommitted {
			t.Fatalf("seed %d: %+v is left", seed, run)
		}
		left += run.Span
	}
	for _, m := range want {
		if m.State == QueueDone || m.State == QueueUncommitted {
			left++
		}
	}
	if left != 5000-q.Done {
		t.Fatalf("seed %d: %d messages are left or done, want %d", seed, left, 5000-q.Done)
	}
	compareTally(t, seed, q, want)
	at := rand.Int64N(4000)
	if r := q.Runs.At(at); r.State != want[at].State {
		t.Fatalf("seed %d: message %d is %+v, want %+v", seed, at, r, want[at])
	}
	const now = 500
	due, next := 0, int64(1)<<62
	for run := range q.Runs.Due(now) {
		due += int(run.Span)
	}
	for _, m := range want {
		switch {
		case m.State == QueueDone:
		case m.Until <= now:
			due--
		default:
			next = min(next, m.Until)
		}
	}
	if got := q.Runs.NextUntil(now); due != 0 || next != min(got, 1<<62) {
		t.Fatalf("seed %d: %d too many are due, next at %d, want %d", seed, due, got, next)
	}
	var decoded Queue
	if err := protobuf.Decode(protobuf.Append(nil, q, (*Queue).fields), &decoded, (*Queue).fields); err != nil || !slices.Equal(decoded.Runs.list(), q.Runs.list()) || decoded.Done != q.Done {
		t.Fatalf("seed %d: a snapshot has another queue: %v", seed, err)
	}
}

// compareTally compares the numbers of messages and those that are ready.
func compareTally(t *testing.T, seed uint64, q *Queue, want map[int64]QueueRun) {
	t.Helper()
	now := rand.Int64N(1100)
	from := q.Done + rand.Int64N(200)
	to := from + rand.Int64N(4000)
	var tally QueueTally
	var ready, got []int64
	for at := from; at < to; at++ {
		m := want[at]
		if m.Span = 1; m.State == QueueDone || m.State != 0 && m.Until > now {
			tally.add(&m)
		} else {
			ready = append(ready, at)
		}
	}
	for run := range q.Ready(from, to, now) {
		for at := run.Base; at < run.End(); at++ {
			got = append(got, at)
		}
		if run.State != want[run.Base].State {
			t.Fatalf("seed %d: ready %+v, want %+v", seed, run, want[run.Base])
		}
	}
	if n := q.Tally(from, to, now); n != tally || !slices.Equal(got, ready) {
		t.Fatalf("seed %d: [%d, %d) at %d: %+v with %d ready, want %+v with %d", seed, from, to, now, n, len(got), tally, len(ready))
	}
}

// TestQueueTries: the newest tries of a message are kept, and none of one that is done.
func TestQueueTries(t *testing.T) {
	q := &Queue{}
	for i := range int64(QueueTriesMax + 3) {
		for _, offset := range []int64{7, 5} {
			run := QueueRun{Base: offset, Span: 1, State: QueueWaiting, Until: 9, Deliveries: uint32(i + 1)}
			q.apply(&QueueChange{Runs: []QueueRun{run}, Tries: []QueueTry{{Offset: offset, By: "w"}}}, i)
		}
	}
	if got := q.TriesOf(5); len(got) != QueueTriesMax || got[0].Time != 3 || got[QueueTriesMax-1].Time != QueueTriesMax+2 {
		t.Errorf("tries %+v", got)
	}
	q.apply(&QueueChange{Runs: []QueueRun{{Base: 5, Span: 1, State: QueueDone}}}, 99)
	if len(q.TriesOf(5)) != 0 || len(q.TriesOf(7)) != QueueTriesMax {
		t.Errorf("after it is done: %d and %d tries", len(q.TriesOf(5)), len(q.TriesOf(7)))
	}
}

// TestQueueMarks: the marks say when messages were done, the newer the finer, however long it takes.
func TestQueueMarks(t *testing.T) {
	q := &Queue{}
	const step = 3_600_000_000
	for i := range int64(2000) {
		q.apply(&QueueChange{Runs: []QueueRun{{Base: i, Span: 1, State: QueueDone}}}, i*step)
		if q.trimmed(0, i*step); len(q.Marks) > queueMarksMax {
			t.Fatalf("%d marks", len(q.Marks))
		}
	}
	if at := q.DoneAt(1000 * step); at > 1001 || at < 800 {
		t.Errorf("done up to %d after 1000 steps", at)
	}
}

// TestQueueTimeReset: a lease and a dedup ID of a wrong clock end as long after the reset as they would have
// ended, and what was done by then was done at the reset.
func TestQueueTimeReset(t *testing.T) {
	q := &Queue{Marks: []Mark{{Offset: 3, Time: 50}, {Offset: 7, Time: 900}}, Sent: []QueueSent{{Until: 1300}, {Until: 950}}}
	view := *q
	q.apply(&QueueChange{Runs: []QueueRun{
		{Base: 0, Span: 1, State: QueueLeased, Until: 1030, Deliveries: 1},
		{Base: 1, Span: 1, State: QueueWaiting, Until: 2000},
		{Base: 2, Span: 1, State: QueueWaiting, Until: 90, Deliveries: 1},
	}}, 1000)
	q.resetTime(1000, 100)
	for at, want := range []int64{130, 2000, 90} {
		if got := q.Of(int64(at)).Until; got != want {
			t.Errorf("message %d until %d, want %d", at, got, want)
		}
	}
	for i, want := range []int64{400, 100} {
		if got := q.Sent[i].Until; got != want {
			t.Errorf("dedup ID %d until %d, want %d", i, got, want)
		}
	}
	if at := q.DoneAt(100); at != 7 || view.Sent[0].Until != 1300 {
		t.Errorf("done up to %d at the reset; a view has a dedup ID until %d", at, view.Sent[0].Until)
	}
}

// TestLostMessages: an accepted loss ends the messages that no object holds, and no others.
func TestLostMessages(t *testing.T) {
	id := record.ID{1}
	for _, queue := range []string{"", "{}"} {
		s := Genesis(record.ID{2}, 0)
		s.Level = LevelQueues
		s.applyRecord(&Record{Kind: TopicCreate, Topic: id, Name: "q", Partitions: 1, Settings: map[string]string{QueueSetting: queue}})
		h := record.Head{Epoch: 1, NextEpoch: 3}
		s.applyEntry(&h, &record.IndexEntry{Topic: id, Span: 3, Records: 3, Len: 1})
		s.acceptLoss(&h, &Loss{LastEpoch: 2, Next: []LostOffsets{{Topic: id, Next: 10}}})
		q := s.topics[id].Partitions.At(0).QueueOf()
		if lost := q.Of(5).State == QueueDone; lost != (queue != "") || q.Of(2).State == QueueDone {
			t.Errorf("queue %q: a lost message is %+v, the others %+v", queue, q.Of(5), q.Of(2))
		}
	}
}
