package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

func produceValues(t *testing.T, c *client.Client, partition int32, values ...string) {
	t.Helper()
	var list [][]byte
	for _, v := range values {
		list = append(list, []byte(v))
	}
	must.Get(c.ProduceValues(t.Context(), "t", list, client.ProduceOptions{Partition: &partition}))(t)
}

func consumer(t *testing.T, c *client.Client, o client.ConsumerOptions) *client.Consumer {
	t.Helper()
	k := must.Get(c.Consumer(t.Context(), "g", "t", o))(t)
	t.Cleanup(func() { _ = k.Close(context.Background()) })
	return k
}

// rest reads to the end.
func rest(t *testing.T, k *client.Consumer) string {
	t.Helper()
	var got []string
	for m, err := range k.Records(t.Context()) {
		must.NoError(t, err)
		got = append(got, string(m.Value))
	}
	slices.Sort(got)
	return strings.Join(got, " ")
}

func committedOf(t *testing.T, c *client.Client) client.Positions {
	t.Helper()
	list := must.Get(c.Offsets(t.Context(), "g", "t"))(t)
	m := client.Positions{}
	for _, o := range list {
		m[o.Partition] = o.Offset
	}
	return m
}

func TestOffsetsOfAGroup(t *testing.T) {
	c := realBroker(t)
	ctx := t.Context()
	produceValues(t, c, 0, "a", "b", "c")
	must.NoError(t, c.CommitOffsets(ctx, "g", client.OffsetCommit{Topic: "t", Offset: 1, Metadata: "m", Expected: new(int64(-1))}))
	err := c.CommitOffsets(ctx, "g", client.OffsetCommit{Topic: "t", Offset: 3, Expected: new(int64(0))})
	var e *client.Error
	if !errors.Is(err, client.ErrOffsetMismatch) || !errors.Is(err, client.ErrRejected) || !errors.As(err, &e) || e.Committed != 1 {
		t.Errorf("expected 0: %v", err)
	}
	err = c.CommitOffsets(ctx, "g", client.OffsetCommit{Topic: "t", Offset: 2}, client.OffsetCommit{Topic: "none", Offset: 2})
	if !errors.Is(err, client.ErrOutcomeUnknown) || !errors.As(err, &e) || len(e.Offsets) != 2 || e.Offsets[0].Code != "" || e.Offsets[1].Code != "unknown_topic" {
		t.Errorf("different outcomes: %v", err)
	}
	g, err := c.Group(ctx, "g")
	if err != nil || g.Lag != 1 || len(g.Offsets) != 1 || g.Offsets[0].Offset != 2 || g.Offsets[0].Next != 3 {
		t.Errorf("%+v, %v", g, err)
	}
	if all, err := c.Groups(ctx); err != nil || len(all) != 1 || all[0].Name != "g" {
		t.Errorf("%+v, %v", all, err)
	}
	check.NoError(t, c.CommitOffsets(ctx, "h", client.OffsetCommit{Topic: "t"}))
	check.NoError(t, errors.Join(c.DeleteGroup(ctx, "g"), c.DeleteOffset(ctx, "h", "t", 0)))
	check.ErrorIsf(t, check.Err(c.Group(ctx, "g")), client.ErrUnknownGroup, "deleted group")
	if all, err := c.Groups(ctx); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestTrimRemovesTheOldest(t *testing.T) {
	c := realBroker(t)
	produceValues(t, c, 0, "a", "b", "c")
	if p, err := c.Trim(t.Context(), "t", 0, 2); err != nil || p.Start != 2 || p.Next != 3 {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := c.Trim(t.Context(), "t", 0, 4); !errors.Is(err, client.ErrBeyondEnd) || !errors.Is(err, client.ErrRejected) {
		t.Errorf("beyond the end: %v", err)
	}
	must.NoError(t, c.CommitOffsets(t.Context(), "g", client.OffsetCommit{Topic: "t", Offset: 1}))
	check.ErrorIsf(t, check.Err(consumer(t, c, client.ConsumerOptions{}).Next(t.Context())), client.ErrBelowStart, "removed records")
}

func TestConsumerContinuesAtCommittedOffset(t *testing.T) {
	c := realBroker(t)
	must.Get(c.CreateTopic(t.Context(), "t", client.TopicSpec{Partitions: 2}))(t)
	produceValues(t, c, 0, "a", "b")
	produceValues(t, c, 1, "c")
	k := consumer(t, c, client.ConsumerOptions{})
	check.Equalf(t, rest(t, k), "a b c", "all")
	if _, err := k.Next(t.Context()); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
	check.NoError(t, errors.Join(k.Close(t.Context()), k.Close(t.Context())))
	if got := committedOf(t, c); !maps.Equal(got, client.Positions{0: 2, 1: 1}) {
		t.Errorf("committed %v", got)
	}
	produceValues(t, c, 0, "d")
	check.Equalf(t, rest(t, consumer(t, c, client.ConsumerOptions{})), "d", "the rest")
}

func TestOnlyFinishedRecordsAreCommitted(t *testing.T) {
	c := realBroker(t)
	produceValues(t, c, 0, "a", "b", "c")
	k := consumer(t, c, client.ConsumerOptions{CommitEvery: -1})
	next := func() {
		must.Get(k.Next(t.Context()))(t)
	}
	commit := func(want client.Positions) {
		t.Helper()
		must.NoError(t, k.Commit(t.Context()))
		if got := committedOf(t, c); !maps.Equal(got, want) {
			t.Errorf("committed %v, want %v", got, want)
		}
	}
	next()
	commit(client.Positions{}) // the first record is not finished
	next()
	commit(client.Positions{0: 1})
	k.Done()
	commit(client.Positions{0: 2})
	next()
	must.NoError(t, k.Close(t.Context()))
	if got := committedOf(t, c); !maps.Equal(got, client.Positions{0: 2}) {
		t.Errorf("after Close: %v", got)
	}
}

func TestConsumerThatFollows(t *testing.T) {
	c := realBroker(t)
	produceValues(t, c, 0, "old")
	k := consumer(t, c, client.ConsumerOptions{Follow: true, Start: client.Latest, CommitEvery: time.Millisecond})
	// It has committed its start, so that a crash cannot skip records that arrive from now on.
	if got := committedOf(t, c); !maps.Equal(got, client.Positions{0: 1}) {
		t.Errorf("committed %v", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	check.ErrorIsf(t, check.Err(k.Next(ctx)), context.DeadlineExceeded, "empty partition")
	for i := range 3 {
		v := fmt.Sprint(i)
		produceValues(t, c, 0, v)
		m, err := k.Next(t.Context())
		if err != nil || string(m.Value) != v {
			t.Errorf("%v %v", m, err)
		}
	}
	sebtest.Eventually(t, "the consumer commits by itself", func() bool { return committedOf(t, c)[0] >= 3 })
	if got := committedOf(t, c); got[0] != 3 {
		t.Errorf("committed %v: the last record is not finished", got)
	}
}

func TestConsumerWithBrokenConnections(t *testing.T) {
	c, _ := faulty(t,
		answer(200, "Content-Type: application/json", `{"name":"t","partitions":[{"partition":0,"next_offset":12}]}`),
		answer(200, "Content-Type: application/json", `{"group":"g","offsets":[{"topic":"t","offset":1}]}`),
		give(t, 12, 10), cut(-1, ""), give(t, 12, 1), give(t, 12, 0),
	)
	k := consumer(t, c, client.ConsumerOptions{CommitEvery: -1})
	offset := int64(1)
	for m, err := range k.Records(t.Context()) {
		if err != nil || m.Offset != offset {
			t.Fatalf("offset %d, want %d: %v", m.Offset, offset, err)
		}
		offset++
	}
	check.Equalf(t, offset, 12, "ended at")
}

// An answer that ends before its first record or between two batches is incomplete: it does not
// mean the end of the partition.
func TestConsumerWhoseAnswersBreakOffBetweenBatches(t *testing.T) {
	whole, two := len(batches(t, 0, 12)), len(batches(t, 0, 6))
	c, _ := faulty(t,
		answer(200, "Content-Type: application/json", `{"name":"t","partitions":[{"partition":0,"next_offset":12}]}`),
		answer(200, "Content-Type: application/json", `{"group":"g","offsets":[{"topic":"t","offset":0}]}`),
		give(t, 12, whole), give(t, 12, whole-two), cut(-1, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\nContent-Type: "+api.RecordBatch+"\r\nSeb-Next-Offset: 12\r\n\r\n"), give(t, 12, 0),
	)
	k := consumer(t, c, client.ConsumerOptions{CommitEvery: -1})
	offset := int64(0)
	for m, err := range k.Records(t.Context()) {
		if err != nil || m.Offset != offset {
			t.Fatalf("offset %d, want %d: %v", m.Offset, offset, err)
		}
		offset++
	}
	check.Equalf(t, offset, 12, "ended at")
}

// A consumer that is dropped at any moment, even during a commit, leaves committed offsets from
// which the next one misses no record.
func TestConsumersThatAreDroppedMissNothing(t *testing.T) {
	address, stop := startBroker()
	t.Cleanup(stop)
	c := must.Get(client.New(address, client.Options{APIKey: testKey}))(t)
	t.Cleanup(c.Close)
	must.Get(c.CreateTopic(t.Context(), "t", client.TopicSpec{Partitions: 3}))(t)
	records := sebtest.Runs(60, 20)
	for i := range records {
		for p := range int32(3) {
			produceValues(t, c, p, fmt.Sprint(p, "-", i))
		}
	}
	finished := map[string]bool{}
	for round := 0; len(finished) < 3*records; round++ {
		if round > 500 {
			t.Fatalf("%d of %d after %d rounds", len(finished), 3*records, round)
		}
		ctx, cancel := context.WithCancel(t.Context())
		k := must.Get(c.Consumer(t.Context(), "g", "t", client.ConsumerOptions{CommitEvery: time.Millisecond, MaxBytes: 100}))(t)
		n := 0
		for m, err := range k.Records(ctx) {
			must.NoError(t, err)
			if n++; n == round%17+2 {
				break // in the middle of this record: it is not finished
			}
			finished[string(m.Value)] = true
		}
		cancel()
		if round%2 == 0 { // like a killed process: no commit at the end
			_ = k.Close(ctx)
		} else if err := k.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		// A late commit of a dropped consumer may lower the group's offset; the group then gets
		// records again.
		for p, offset := range committedOf(t, c) {
			for i := range offset {
				if !finished[fmt.Sprint(p, "-", i)] {
					t.Fatalf("partition %d committed at %d, and record %d was not finished", p, offset, i)
				}
			}
		}
	}
}
