package queue_test

import (
	"errors"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
)

func (f *fixture) prepare(name string, producer *record.Producer, list ...queue.Message) *queue.Prepared {
	f.t.Helper()
	return must.Get(f.q.Prepare(f.t.Context(), name, list, producer))(f.t)
}

// submit submits an atomic request and returns the results of each queue.
func (f *fixture) submit(list ...*queue.Prepared) (results [][]broker.Result) {
	f.t.Helper()
	var parts []broker.Part
	for _, p := range list {
		parts = append(parts, p.Parts...)
	}
	k := f.b.SubmitAtomic(f.t.Context(), parts)
	first := 0
	for _, p := range list {
		p.Watch(k, first)
		results = append(results, k.Wait(f.t.Context())[first:first+len(p.Parts)])
		first += len(p.Parts)
	}
	return results
}

func TestAtomicMessages(t *testing.T) {
	f := open(t, objstore.NewMemory())
	must.Get(f.q.Create(t.Context(), "mails", queue.Spec{Priorities: 2}))(t)
	f.create("bills")
	f.send("mails", text("earlier"))
	f.send("mails", queue.Message{Value: []byte("second"), Priority: 1})
	mails := []queue.Message{
		text("a"),
		{Value: []byte("late"), Delay: 300 * time.Millisecond},
		{Value: []byte("later"), Delay: time.Hour},
		{Value: []byte("b"), Priority: 1},
		text("c"),
	}
	p, q := f.prepare("mails", nil, mails...), f.prepare("bills", nil, queue.Message{Value: []byte("bill"), Delay: 300 * time.Millisecond})
	results := f.submit(p, q)
	for i, want := range []queue.ID{{Offset: 1}, {Offset: 2}, {Offset: 3}, {Partition: 1, Offset: 1}, {Offset: 4}} {
		must.Equalf(t, p.ID(i, results[0]), want, "ID of message %d", i)
	}
	var got []string
	for len(got) < 6 { // the delayed one last
		for _, m := range f.lease("mails", 10) {
			got = append(got, string(m.Value))
			must.NoError(t, f.settle("mails", queue.Finish, m))
		}
	}
	must.EqualSlicesf(t, got, []string{"earlier", "a", "c", "second", "b", "late"}, "messages")
	f.none("mails")
	if list := f.lease("bills", 1); len(list) != 1 || list[0].ID != q.ID(0, results[1]) {
		t.Errorf("bills: %+v", list)
	}
}

func TestAtomicMessagesAreAllOrNone(t *testing.T) {
	f := open(t, objstore.NewMemory())
	f.create("mails")
	f.create("bills")
	p := f.prepare("mails", nil, queue.Message{Value: []byte("late"), Delay: time.Millisecond}, text("a"))
	k := f.b.SubmitAtomic(t.Context(), append(p.Parts, broker.Part{Append: broker.Append{Topic: "nothing"}}))
	p.Watch(k, 0)
	must.ErrorIs(t, k.Wait(t.Context())[0].Err, state.ErrAtomic)
	must.ErrorIs(t, k.Wait(t.Context())[1].Err, state.ErrUnknownTopic)

	// a repetition is a duplicate as a whole, also with delayed messages
	producer := &record.Producer{ID: 77}
	request := func() []*queue.Prepared {
		return []*queue.Prepared{f.prepare("mails", producer, queue.Message{Value: []byte("late"), Delay: time.Millisecond}), f.prepare("bills", producer, text("b"))}
	}
	first, list := f.submit(request()...), request()
	again := f.submit(list...)
	for i := range again {
		must.NoError(t, again[i][0].Err)
		must.Equalf(t, again[i][0].Duplicate, true, "duplicate %d", i)
		must.Equalf(t, list[i].ID(0, again[i]), list[i].ID(0, first[i]), "ID %d", i)
	}
	must.Equalf(t, len(f.lease("mails", 10))+len(f.lease("bills", 10)), 2, "messages")

	var wrong *queue.MessageError
	_, err := f.q.Prepare(t.Context(), "mails", []queue.Message{text("a"), {Value: []byte("b"), Dedup: "d"}}, nil)
	if !errors.As(err, &wrong) || wrong.Index != 1 {
		t.Errorf("dedup ID: %v", err)
	}
	_, err = f.q.Prepare(t.Context(), "mails", []queue.Message{{Value: []byte("b"), Priority: 3}}, nil)
	must.ErrorIs(t, err, state.ErrInvalid)
	f.close() // waits until the queues have noted the results
	must.Equalf(t, f.met.GetOrCreateCounter("seb_queue_sent_total").Get(), uint64(2), "seb_queue_sent_total")
}
