package broker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestTopics(t *testing.T) {
	s := objstore.NewMemory()
	b := open(t, options(s))
	ctx := context.Background()
	info, err := b.CreateTopic(ctx, "orders", broker.TopicSpec{Settings: map[string]string{"retention-time": "7d", "max-batch-bytes": "2MiB"}})
	if err != nil || len(info.Partitions) != 1 || info.Settings["retention-time"] != "168h0m0s" || info.ID.IsZero() {
		t.Fatalf("%+v %v", info, err)
	}
	info, err = b.UpdateTopic(ctx, "orders", broker.TopicSpec{Partitions: 3, Settings: map[string]string{"retention-time": "", "retention-bytes": "1GiB"}})
	if err != nil || len(info.Partitions) != 3 || fmt.Sprint(info.Settings) != "map[max-batch-bytes:2097152 retention-bytes:1073741824]" {
		t.Fatalf("%+v %v", info, err)
	}
	check.ErrorIsf(t, check.Err(b.UpdateTopic(ctx, "orders", broker.TopicSpec{Partitions: 2})), state.ErrInvalid, "shrink")
	if _, err := b.UpdateTopic(ctx, "orders", broker.TopicSpec{Partitions: 4, Settings: map[string]string{"cleanup-policy": "compact"}}); !errors.Is(err, state.ErrInvalid) {
		t.Errorf("grow a compacted topic: %v", err)
	}
	check.ErrorIsf(t, check.Err(b.UpdateTopic(ctx, "none", broker.TopicSpec{})), state.ErrUnknownTopic, "update")
	mustProduce(t, b, "orders", 2, "a", "b")
	create(t, b, "accounts", 1)
	verify := func(b *broker.Broker) {
		t.Helper()
		all := b.Topics(ctx)
		if len(all) != 2 || all[0].Name != "accounts" || all[1].Name != "orders" {
			t.Fatalf("%+v", all)
		}
		p := all[1].Partitions[2]
		if p.Start != 0 || p.Next != 2 || p.Bytes == 0 || time.Since(p.LatestCommit).Abs() > time.Minute || !all[1].Partitions[0].LatestCommit.IsZero() {
			t.Fatalf("%+v", all[1].Partitions)
		}
		if n, err := b.Partitions("orders"); n != 3 || err != nil {
			t.Fatalf("%d %v", n, err)
		}
	}
	verify(b)
	kill(b)
	b = open(t, options(s))
	verify(b)
	must.NoError(t, b.DeleteTopic(ctx, "orders"))
	for _, err := range []error{b.DeleteTopic(ctx, "orders"), produce(t, b, "orders", 0, "x").Err, func() error { _, err := b.Partitions("orders"); return err }()} {
		check.ErrorIsf(t, err, state.ErrUnknownTopic, "deleted topic")
	}
	again, err := b.CreateTopic(ctx, "orders", broker.TopicSpec{})
	if err != nil || again.ID == info.ID || again.Partitions[0].Next != 0 {
		t.Fatalf("created again: %+v %v", again, err)
	}
}

func TestCreateRefuses(t *testing.T) {
	b := open(t, options(objstore.NewMemory()))
	ctx := context.Background()
	create(t, b, "orders", 1)
	for _, c := range []struct {
		name string
		spec broker.TopicSpec
		want error
		says string
	}{
		{"orders", broker.TopicSpec{}, state.ErrTopicExists, ""},
		{"../../evil", broker.TopicSpec{}, state.ErrInvalid, "topic-name"},
		{"", broker.TopicSpec{}, state.ErrInvalid, "topic-name"},
		{strings.Repeat("x", 250), broker.TopicSpec{}, state.ErrInvalid, "249"},
		{"p", broker.TopicSpec{Partitions: -1}, state.ErrInvalid, "partitions"},
		{"p", broker.TopicSpec{Partitions: 1_000_000}, state.ErrInvalid, "partitions"},
		{"p", broker.TopicSpec{Settings: map[string]string{"retention-time": "soon"}}, state.ErrInvalid, "retention-time"},
		{"p", broker.TopicSpec{Settings: map[string]string{"colour": "red"}}, state.ErrInvalid, "colour"},
	} {
		if _, err := b.CreateTopic(ctx, c.name, c.spec); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("create %.20q %+v: %v", c.name, c.spec, err)
		}
	}
}

func TestConcurrentUpdatesAreAllKept(t *testing.T) {
	b := open(t, options(objstore.NewMemory()))
	create(t, b, "a", 1)
	settings := map[string]string{"retention-time": "1h0m0s", "retention-bytes": "5000", "timestamp-type": "LogAppendTime", "min-compaction-lag": "5s"}
	var wg sync.WaitGroup
	for k, v := range settings {
		wg.Go(func() {
			if _, err := b.UpdateTopic(context.Background(), "a", broker.TopicSpec{Settings: map[string]string{k: v}}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	info, err := b.Topic(context.Background(), "a", false)
	if err != nil || fmt.Sprint(info.Settings) != fmt.Sprint(settings) {
		t.Fatalf("%v %v", info.Settings, err)
	}
}

func TestEnsureTopic(t *testing.T) {
	b := open(t, options(objstore.NewMemory()))
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if i%5 == 0 {
				cancel()
			}
			err := b.EnsureTopic(ctx, "made")
			if err != nil && (i%5 != 0 || !errors.Is(err, broker.ErrNotSent)) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n, err := b.Partitions("made"); n != 1 || err != nil {
		t.Fatalf("%d %v", n, err)
	}
	must.ErrorIs(t, b.EnsureTopic(context.Background(), "no/slash"), state.ErrInvalid)
	o := options(objstore.NewMemory())
	o.AutoCreate = false
	b = open(t, o)
	must.ErrorIs(t, b.EnsureTopic(context.Background(), "made"), state.ErrUnknownTopic)
}

func TestSubmitChecks(t *testing.T) {
	o := options(objstore.NewMemory())
	o.Budget = budget.New(16 << 20)
	b := open(t, o)
	create(t, b, "a", 1)
	must.Get(b.CreateTopic(context.Background(), "small", broker.TopicSpec{Settings: map[string]string{"max-batch-bytes": "1000"}}))(t)
	with := func(a broker.Append, change func(*broker.Append)) broker.Append {
		change(&a)
		return a
	}
	for _, c := range []struct {
		name string
		a    broker.Append
		want error
	}{
		{"good", data(t, "a", 0, "x"), nil},
		{"unknown topic", data(t, "none", 0, "x"), state.ErrUnknownTopic},
		{"partition beyond", data(t, "a", 1, "x"), state.ErrUnknownPartition},
		{"partition below", data(t, "a", -1, "x"), state.ErrUnknownPartition},
		{"no data", broker.Append{Topic: "a", ExpectedOffset: -1}, state.ErrInvalid},
		{"no batch", broker.Append{Topic: "a", ExpectedOffset: -1, Data: make([]byte, 100)}, state.ErrInvalid},
		{"summary says more", with(data(t, "a", 0, "x"), func(a *broker.Append) { a.Summary.Span, a.Summary.Records = 2, 2 }), state.ErrInvalid},
		{"truncated", with(data(t, "a", 0, "x"), func(a *broker.Append) { a.Data = a.Data[:len(a.Data)-1] }), state.ErrInvalid},
		{"too large", data(t, "a", 0, strings.Repeat("x", 3<<20)), broker.ErrTooLarge},
		{"a client's batch too large", with(data(t, "small", 0, strings.Repeat("x", 1000)), func(a *broker.Append) { a.ClientMade = true }), broker.ErrTooLarge},
		{"a large record of Seb's own", data(t, "small", 0, strings.Repeat("x", 1000)), broker.ErrTooLarge},
		{"expected offset", with(data(t, "a", 0, "x"), func(a *broker.Append) { a.ExpectedOffset = 1 }), nil},
		{"wrong offset", with(data(t, "a", 0, "x"), func(a *broker.Append) { a.ExpectedOffset = 1 }), state.ErrOffsetMismatch},
		{"a record of Seb's own above the default", data(t, "a", 0, strings.Repeat("x", 1_100_000)), nil},
	} {
		released := 0
		c.a.Release = func() { released++ }
		r := b.Submit(context.Background(), []broker.Append{c.a}).Wait(context.Background())[0]
		check.ErrorIsf(t, r.Err, c.want, "%s", c.name)
		if r.Err != nil && released != 1 {
			t.Errorf("%s: released %d times", c.name, released)
		}
		var mismatch *state.OffsetMismatchError
		if errors.As(r.Err, &mismatch) && (mismatch.Expected != 1 || mismatch.Next != 2) {
			t.Errorf("%s: %+v", c.name, mismatch)
		}
	}
	if got := b.Submit(context.Background(), nil).Wait(context.Background()); len(got) != 0 {
		t.Errorf("nothing submitted: %v", got)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if r := b.Submit(ended, []broker.Append{data(t, "a", 0, "x")}).Wait(ended)[0]; !errors.Is(r.Err, broker.ErrNotSent) || !errors.Is(r.Err, context.Canceled) {
		t.Errorf("ended context: %v", r.Err)
	}
}

// TestFramingDoesNotCount: the largest record has as many bytes as the largest request, and it can
// be read.
func TestFramingDoesNotCount(t *testing.T) {
	o := options(objstore.NewMemory())
	b := open(t, o)
	create(t, b, "a", 1)
	largest := int(o.Budget.RequestMax())
	ctx := context.Background()
	if r := b.Submit(ctx, []broker.Append{data(t, "a", 0, strings.Repeat("x", largest))}).Wait(ctx)[0]; r.Err != nil {
		t.Error(r.Err)
	}
	check.ErrorIsf(t, b.Submit(ctx, []broker.Append{data(t, "a", 0, strings.Repeat("x", largest+200))}).Wait(ctx)[0].Err, broker.ErrTooLarge, "above it")
	f := one(t, b, broker.Want{Topic: "a"})
	defer f.Release()
	if n := f.Parts[0].HighWatermark; n != 1 || len(f.Parts[0].Chunks) != 1 || f.Parts[0].Chunks[0].Size < int64(largest) {
		t.Errorf("%d records, %d chunks", n, len(f.Parts[0].Chunks))
	}
}
