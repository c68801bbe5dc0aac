package broker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/compact"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func openBounded(t *testing.T, store objstore.Store, stateMax int64) *broker.Broker {
	t.Helper()
	b := must.Get(broker.Open(t.Context(), broker.Options{
		Options:    log.Options{Store: store, Core: core.Config{StateMax: stateMax}, Batch: log.Config{Wait: time.Microsecond}},
		AutoCreate: true,
	}))(t)
	t.Cleanup(func() { b.Close(context.Background()) })
	return b
}

func appendOne(t *testing.T, b *broker.Broker, topic string, partition int32) error {
	t.Helper()
	return brokertest.Try(t.Context(), b, brokertest.Append(topic, int(partition), record.Record{Value: []byte("v"), Timestamp: 1})).Err
}

// TestStateLargerThanTheLimit: a bucket whose state exceeds the memory limit opens, and can be read
// and written. It refuses everything that would enlarge the state until something is deleted.
func TestStateLargerThanTheLimit(t *testing.T) {
	store := objstore.NewMemory()
	b := openBounded(t, store, -1)
	for i := range 20 {
		must.Get(b.CreateTopic(t.Context(), fmt.Sprint("t", i), broker.TopicSpec{Partitions: 1000}))(t)
	}
	must.NoError(t, errors.Join(appendOne(t, b, "t0", 7), b.CommitOffsets(t.Context(), "g", []broker.OffsetCommit{{Topic: "t0", Partition: 7, Offset: 1}})[0]))
	b.Close(t.Context())

	b = openBounded(t, store, 1<<20)
	refused := func(what string, err error) {
		t.Helper()
		var full *state.StateFullError
		if !errors.As(err, &full) || full.Ranges || !errors.Is(err, state.ErrStateFull) || errors.Is(err, state.ErrOverBudget) ||
			!strings.Contains(err.Error(), "--memory-limit 16MiB") {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("open", b.StateFull())
	_, err := b.CreateTopic(t.Context(), "new", broker.TopicSpec{})
	refused("create", err)
	_, err = b.UpdateTopic(t.Context(), "t1", broker.TopicSpec{Partitions: 1001})
	refused("more partitions", err)
	refused("first append", appendOne(t, b, "t0", 8))
	refused("new group", b.CommitOffsets(t.Context(), "h", []broker.OffsetCommit{{Topic: "t0", Offset: 1}})[0])
	refused("new offset", b.CommitOffsets(t.Context(), "g", []broker.OffsetCommit{{Topic: "t0", Offset: 1}})[0])
	for range 3 {
		must.NoError(t, errors.Join(appendOne(t, b, "t0", 7), b.CommitOffsets(t.Context(), "g", []broker.OffsetCommit{{Topic: "t0", Partition: 7, Offset: 2}})[0]))
	}
	if info, err := b.Topic(t.Context(), "t0", false); err != nil || info.Partitions[7].Next != 4 {
		t.Errorf("%+v %v", info.Partitions[7], err)
	}
	for i := 19; b.StateFull() != nil; i-- {
		must.NoError(t, b.DeleteTopic(t.Context(), fmt.Sprint("t", i)))
	}
	if _, err := b.CreateTopic(t.Context(), "new", broker.TopicSpec{}); err != nil {
		t.Error(err)
	}
}

// TestRangesFull: when the ranges' memory exceeds its limit, appends are refused until commit
// objects are merged.
func TestRangesFull(t *testing.T) {
	t.Parallel()
	store := objstore.NewMemory()
	b := openBounded(t, store, 100_000)
	must.NoError(t, b.EnsureTopic(t.Context(), "t"))
	appended := 0
	var err error
	for ; err == nil && appended < 10_000; appended++ {
		err = appendOne(t, b, "t", 0)
	}
	if !errors.Is(err, state.ErrStateFull) || !errors.Is(err, state.ErrOverBudget) || !strings.Contains(err.Error(), "merged") {
		t.Fatalf("append %d: %v", appended, err)
	}
	m := compact.Open(compact.Options{
		Log: b, Store: store, TempDir: t.TempDir(), Policy: compact.Policy{Backlog: 200}, Every: time.Hour,
		Ranges: func() int { held, _ := b.StateMemory(); return int(held.Ranges / 112) },
	})
	defer m.Close()
	deadline := time.Now().Add(time.Minute)
	for err = appendOne(t, b, "t", 0); err != nil && time.Now().Before(deadline); err = appendOne(t, b, "t", 0) {
		time.Sleep(10 * time.Millisecond)
	}
	check.NoError(t, err)
	if info, err := b.Topic(t.Context(), "t", false); err != nil || info.Partitions[0].Next != int64(appended) {
		t.Errorf("%+v %v, want %d", info.Partitions, err, appended)
	}
}
