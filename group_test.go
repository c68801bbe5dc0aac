package seb_test

import (
	"errors"
	"testing"

	"github.com/sebbroker/seb"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
)

func TestGroupsAndTrims(t *testing.T) {
	dir := t.TempDir()
	ctx := t.Context()
	b := open(t, seb.Options{Bucket: dir})
	must.Get(b.Produce(ctx, "t", 0, record.Record{Value: []byte("a")}, record.Record{Value: []byte("b")}, record.Record{Value: []byte("c")}))(t)
	errs := b.CommitOffsets(ctx, "g", seb.OffsetCommit{Topic: "t", Offset: 1, Metadata: "m", Expected: new(int64(-1))}, seb.OffsetCommit{Topic: "none"})
	if errs[0] != nil || !errors.Is(errs[1], seb.ErrUnknownTopic) {
		t.Errorf("%v", errs)
	}
	if errs := b.CommitOffsets(ctx, "g", seb.OffsetCommit{Topic: "t", Offset: 2, Expected: new(int64(0))}); !errors.Is(errs[0], seb.ErrOffsetMismatch) {
		t.Errorf("%v", errs)
	}
	if p, err := b.Trim(ctx, "t", 0, 2); err != nil || p.Start != 2 || p.Next != 3 {
		t.Errorf("%+v, %v", p, err)
	}
	check.ErrorIs(t, check.Err(b.Trim(ctx, "t", 0, 4)), seb.ErrBeyondEnd)
	check.ErrorContains(t, check.Err(b.Trim(ctx, "t", 0, -5)), "offset: -5 is below 0")
	must.NoError(t, b.Close(ctx))

	b = open(t, seb.Options{Bucket: dir})
	g, err := b.Group(ctx, "g")
	if err != nil || len(g.Offsets) != 1 || g.Offsets[0].Offset != 1 || g.Offsets[0].Metadata != "m" || g.Offsets[0].Lag() != 1 {
		t.Errorf("%+v, %v", g, err)
	}
	if all := b.Groups(ctx); len(all) != 1 || all[0].Name != "g" {
		t.Errorf("%+v", all)
	}
	check.NoError(t, b.DeleteOffset(ctx, "g", "t", 0))
	check.ErrorIs(t, check.Err(b.Group(ctx, "g")), seb.ErrUnknownGroup)
	check.ErrorIs(t, b.DeleteGroup(ctx, "g"), seb.ErrUnknownGroup)
}

func TestRepeatedBatchesAreStoredOnce(t *testing.T) {
	b := open(t, seb.Options{Bucket: "mem:"})
	batch := func(sequence int32) []byte {
		data, _ := recordtest.Encode([]record.Record{{Value: []byte("v")}, {Value: []byte("w")}}, record.EncodeOptions{Producer: &record.Producer{ID: 9, Sequence: sequence}})
		return data
	}
	for _, c := range []struct {
		sequence int32
		want     int64
	}{{0, 0}, {2, 2}, {0, 0}, {2, 2}} {
		if first, err := b.ProduceBatches(t.Context(), "t", 0, batch(c.sequence)); err != nil || first != c.want {
			t.Errorf("sequence %d: at %d, want %d: %v", c.sequence, first, c.want, err)
		}
	}
	check.ErrorIsf(t, check.Err(b.ProduceBatches(t.Context(), "t", 0, batch(6))), seb.ErrSequenceGap, "gap")
}
