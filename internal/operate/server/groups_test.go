package server_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestGroupsOfKafkaAndHTTP: Kafka and HTTP share a group, over a restart. While it has members,
// HTTP commits only with an expected offset.
func TestGroupsOfKafkaAndHTTP(t *testing.T) {
	t.Parallel()
	cfg := settings(t, "file:"+t.TempDir())
	cfg.Kafka.Listen = "127.0.0.1:0"
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := start(t, cfg)
	h := connect(t, s)
	for range 3 {
		must.NoError(t, produce(t, h))
	}
	at := func() string {
		offsets, err := h.Offsets(ctx, "g", "t")
		if err != nil || len(offsets) != 1 {
			return fmt.Sprint(offsets, err)
		}
		return fmt.Sprint(offsets[0].Offset, " ", offsets[0].Metadata)
	}
	must.NoError(t, h.CommitOffsets(ctx, "g", client.OffsetCommit{Topic: "t", Offset: 1, Metadata: "by HTTP"}))
	member := []kgo.Opt{kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
	k := kafkaClient(t, s, member...)
	first := k.PollRecords(ctx, 1).Records()
	if len(first) != 1 || first[0].Offset != 1 {
		t.Fatalf("%+v, want the record after the offset that HTTP committed", first)
	}
	must.NoError(t, k.CommitRecords(ctx, first...))
	if got := at(); got[:2] != "2 " || got == "2 by HTTP" {
		t.Fatal(got)
	}
	two, nine := int64(2), int64(9)
	for _, err := range []error{
		h.CommitOffsets(ctx, "g", client.OffsetCommit{Topic: "t", Offset: 3}), h.DeleteGroup(ctx, "g"), h.DeleteOffset(ctx, "g", "t", 0),
	} {
		if !errors.Is(err, client.ErrGroupActive) || !errors.Is(err, client.ErrRejected) {
			t.Fatal(err)
		}
	}
	must.ErrorIs(t, h.CommitOffsets(ctx, "g", client.OffsetCommit{Topic: "t", Offset: 3, Expected: &nine}), client.ErrOffsetMismatch)
	must.NoError(t, h.CommitOffsets(ctx, "g", client.OffsetCommit{Topic: "t", Offset: 2, Metadata: "expected", Expected: &two}))
	if err := s.Close(ctx); err != nil { // while the group has a member
		t.Fatal(err)
	}
	k.Close()
	s = start(t, cfg)
	h = connect(t, s)
	must.Equal(t, at(), "2 expected")
	k = kafkaClient(t, s, member...)
	if next := k.PollRecords(ctx, 1).Records(); len(next) != 1 || next[0].Offset != 2 {
		t.Fatalf("%+v", next)
	}
	k.Close()
	if err := h.CommitOffsets(ctx, "g", client.OffsetCommit{Topic: "t", Offset: 3}); err != nil {
		t.Fatal("its members have left:", err)
	}
	must.NoError(t, h.DeleteGroup(ctx, "g"))
}

// TestMembersOfKafkaOverHTTP: HTTP clients see the members of a group that has no offsets.
func TestMembersOfKafkaOverHTTP(t *testing.T) {
	t.Parallel()
	cfg := settings(t, "file:"+t.TempDir())
	cfg.Kafka.Listen = "127.0.0.1:0"
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := start(t, cfg)
	h := connect(t, s)
	must.NoError(t, produce(t, h))
	k := kafkaClient(t, s, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	k.PollRecords(ctx, 1)
	g, err := h.GroupWithMembers(ctx, "g")
	if err != nil || g.State != "Stable" || len(g.Members) != 1 || fmt.Sprint(g.Members[0].Assigned) != "[{t [0]}]" || g.Members[0].Host == "" {
		t.Fatalf("group: %+v, %v, want one member with partition 0 of t", g, err)
	}
	if all, err := h.GroupsWithMembers(ctx); err != nil || len(all) != 1 || len(all[0].Members) != 1 {
		t.Fatalf("groups: %+v, %v, want one with one member", all, err)
	}
	if all, err := h.Groups(ctx); err != nil || len(all) != 0 {
		t.Fatalf("groups with offsets: %+v, %v, want none", all, err)
	}
	k.Close()
	must.ErrorIsf(t, check.Err(h.GroupWithMembers(ctx, "g")), client.ErrUnknownGroup, "group without members and offsets")
}
