package seb_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestWork: messages reach a worker of the program with their attributes, and each outcome takes effect.
func TestWork(t *testing.T) {
	b, ctx := open(t, seb.Options{Bucket: "mem:"}), t.Context()
	must.Get(b.Client().CreateQueue(ctx, "mails", client.QueueSpec{Settings: map[string]string{"backoff": "0s"}}))(t)
	sent := must.Get(b.SendMessages(ctx, "mails",
		seb.Message{Key: []byte("k"), Value: []byte("ok"), Headers: []record.Header{{Key: "h", Value: []byte{0xff}}}, Dedup: "once"},
		seb.Message{Value: []byte("again"), Dedup: "once"},
		seb.Message{Value: []byte("fails once")},
		seb.Message{Value: []byte("later")},
		seb.Message{Value: []byte("hopeless")},
		seb.Message{Value: []byte("x"), Delay: -1},
	))(t)
	var results []string
	for _, s := range sent {
		results = append(results, fmt.Sprint(s.ID, " ", s.Duplicate, " ", errors.Is(s.Err, seb.ErrInvalid)))
	}
	check.Equal(t, strings.Join(results, ", "), "0-0 false false, 0-0 true false, 0-1 false false, 0-2 false false, 0-3 false false,  false true")
	var mu sync.Mutex
	var ran []string
	err := b.Work(ctx, "mails", client.WorkOptions{Concurrency: 4, UntilEmpty: true}, func(_ context.Context, m *client.LeasedMessage) error {
		mu.Lock()
		ran = append(ran, fmt.Sprintf("%s %d %q %q %v", m.ID, m.Deliveries, m.Key, m.Value, m.Headers))
		mu.Unlock()
		switch {
		case string(m.Value) == "fails once" && m.Deliveries == 1:
			return errors.New("busy")
		case string(m.Value) == "later":
			return client.RetryAfter(time.Hour, errors.New("greylist"))
		case string(m.Value) == "hopeless":
			return client.GiveUp(errors.New("no such user"))
		}
		return nil
	})
	check.NoError(t, err)
	slices.Sort(ran)
	check.Equal(t, strings.Join(ran, "\n"), `0-0 1 "k" "ok" [{h [255]}]
0-1 1 "" "fails once" []
0-1 2 "" "fails once" []
0-2 1 "" "later" []
0-3 1 "" "hopeless" []`)
	q := must.Get(b.Client().Queue(ctx, "mails"))(t)
	check.Equal(t, fmt.Sprint(q.Ready, q.Leased, q.Retry), "0 0 1")
	letters, _ := must.Get2(b.Client().Messages(ctx, "mails.dead", client.MessageQuery{}))(t)
	if len(letters) != 1 || *letters[0].Value != "hopeless" || !strings.Contains(fmt.Sprint(headers(letters[0])), "no such user") {
		t.Errorf("letters %+v", letters)
	}
}

func headers(m client.QueueMessage) (list []string) {
	for _, h := range m.Headers {
		if h.Value != nil {
			list = append(list, h.Key+"="+*h.Value)
		}
	}
	return list
}

// TestWorkEnds: Work returns when the queue is none, and when the broker is closed.
func TestWorkEnds(t *testing.T) {
	b, ctx := must.Get(seb.Open(t.Context(), seb.Options{Bucket: "mem:"}))(t), t.Context()
	none := func(context.Context, *client.LeasedMessage) error { return nil }
	check.ErrorIs(t, b.Work(ctx, "none", client.WorkOptions{}, none), seb.ErrUnknownTopic)
	produce(t, b, "plain", "v")
	check.ErrorIs(t, b.Work(ctx, "plain", client.WorkOptions{}, none), seb.ErrNotAQueue)
	check.ErrorContains(t, b.Work(ctx, "plain", client.WorkOptions{Concurrency: -1}, none), "concurrency")
	check.ErrorIs(t, check.Err(b.SendMessages(ctx, "plain", seb.Message{})), seb.ErrNotAQueue)
	must.Get(b.Client().CreateQueue(ctx, "q", client.QueueSpec{}))(t)
	must.Get(b.SendMessages(ctx, "q", seb.Message{Value: []byte("v")}))(t)
	err := b.Work(ctx, "q", client.WorkOptions{}, func(context.Context, *client.LeasedMessage) error {
		return b.Close(ctx)
	})
	check.ErrorIs(t, err, seb.ErrClosed)
}

func TestProduceAll(t *testing.T) {
	b := open(t, seb.Options{Bucket: "mem:", BatchWait: -1})
	must.Get(b.Client().CreateQueue(t.Context(), "invoices", client.QueueSpec{}))(t)
	text := "print 7"
	items := []client.Item{
		{Topic: "orders", Record: record.Record{Key: []byte("7"), Value: []byte("paid")}},
		{Queue: "invoices", Message: client.OutgoingMessage{Value: &text}},
		{Event: &client.Event{Name: "order_placed", EntityID: "7"}},
	}
	stored := must.Get(b.ProduceAll(t.Context(), items...))(t)
	check.EqualSlices(t, stored, []client.StoredItem{{Topic: "orders"}, {Queue: "invoices", ID: "0-0"}, {Topic: "events"}})
	_, err := b.ProduceAll(t.Context(), append(items, client.Item{Topic: "orders", Partition: new(int32(1))})...)
	check.ErrorIs(t, err, client.ErrUnknownPartition)
	check.Equal(t, read(t, b, "orders", seb.ReadOptions{}), "0=paid")
}
