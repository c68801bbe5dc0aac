package compact_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/compact"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// history is a log of heads and indexes without batches.
type history struct {
	t     *testing.T
	s     *state.State
	now   int64  // µs
	span  uint32 // offsets per slot and topic; 1 if 0
	bytes int64
	packs uint64
}

func newHistory(t *testing.T, topics int) *history {
	h := &history{t: t, s: state.Genesis(record.ID{1}, 0), now: 1_700_000_000_000_000}
	seal := record.Head{Kind: record.KindSeal, Cluster: record.ID{1}, Nonce: record.ID{1}, NextEpoch: 1, NextNonce: record.ID{2}}
	must.NoError(t, h.s.Apply(&seal, nil, nil))
	var recs []state.Record
	for i := range topics {
		recs = append(recs, state.Record{Kind: state.TopicCreate, Topic: record.ID{byte(i), 1}, Name: string(rune('a' + i)), Partitions: 1})
	}
	h.slot(recs)
	return h
}

func (h *history) slot(recs []state.Record, sizes ...uint32) {
	h.t.Helper()
	head := record.Head{
		Kind: record.KindData, Cluster: record.ID{1}, Epoch: h.s.Pos.Epoch, Nonce: h.s.Nonce, Slot: h.s.Pos.Slot,
		PrevCRC: h.s.PrevCRC, Time: max(h.now, h.s.AppendTime+1),
	}
	var index []record.IndexEntry
	pos := uint32(1000)
	for i, n := range sizes {
		if n == 0 {
			continue
		}
		id := record.ID{byte(i), 1}
		index = append(index, record.IndexEntry{
			Topic: id, Base: h.s.Topic(id).Partitions.At(0).Next, Span: max(1, h.span), Records: 1, Pos: pos, Len: n, AppendTime: head.Time,
		})
		pos += n
		h.bytes += int64(n)
	}
	must.NoError(h.t, h.s.Apply(&head, recs, index))
}

// merge makes and installs every pack that is due, and returns how many.
func (h *history) merge(c compact.Policy) (n int) {
	h.t.Helper()
	for n = range 1000 {
		plan := compact.Choose(h.s.View(), c, h.now)
		if plan == nil {
			return n
		}
		h.packs++
		l := compact.NewLayout(plan, h.s, h.packs)
		l.Head.ObjectLen = uint64(plan.Bytes) + 1000
		pos := uint32(1000)
		for i := range l.Index {
			l.Index[i].Pos = pos
			pos += l.Index[i].Len
		}
		h.slot([]state.Record{{Kind: state.PackInstall, Pack: l.Content()}})
	}
	h.t.Fatal("merging does not end")
	return n
}

func (h *history) ranges() (n int) {
	for _, t := range h.s.Topics() {
		n += len(t.Partitions.At(0).Ranges)
	}
	return n
}

// TestRangesKeepTheirOffsets covers ranges of few bytes over very many offsets, which compaction
// leaves and a range counts in 32 bits.
func TestRangesKeepTheirOffsets(t *testing.T) {
	h := newHistory(t, 2)
	h.span = 3 << 30
	for range 20 {
		h.now += time.Hour.Microseconds()
		h.slot(nil, 100, 61)
		h.merge(compact.Policy{Small: 2})
	}
	for _, topic := range h.s.Topics() {
		p := topic.Partitions.At(0)
		next := int64(0)
		for i := range p.Ranges {
			if p.Ranges[i].Base != next {
				t.Fatalf("%s: range %d starts at offset %d, the previous one ends at %d", topic.Name, i, p.Ranges[i].Base, next)
			}
			next = p.Ranges[i].End()
		}
		if next != p.Next || next != 20*3<<30 {
			t.Errorf("%s: ranges end at %d, the partition at %d", topic.Name, next, p.Next)
		}
	}
	h.slot([]state.Record{{Kind: state.TopicChange, Topic: record.ID{0, 1}, Settings: map[string]string{"cleanup-policy": "compact"}}})
	pass := compact.ChooseCompaction(h.s.View(), compact.Policy{}, h.now)
	for _, portions := range [][][]compact.Run{pass.Scans()} {
		next := int64(0)
		for _, runs := range portions {
			for _, run := range runs {
				begin := next
				for _, r := range run.Ranges {
					must.Equalf(t, r.Base, next, "a run continues at offset")
					next = r.End()
				}
				if next-begin > math.MaxUint32 {
					t.Errorf("a run takes %d offsets", next-begin)
				}
			}
		}
		check.Equalf(t, next, h.s.Topic(record.ID{0, 1}).Partitions.At(0).Next, "a pass ends at offset")
	}
}

// TestRunsEndAtLostOffsets: a pass makes no range of the ranges on both sides of lost offsets.
func TestRunsEndAtLostOffsets(t *testing.T) {
	h := newHistory(t, 1)
	h.slot([]state.Record{{Kind: state.TopicChange, Topic: record.ID{0, 1}, Settings: map[string]string{"cleanup-policy": "compact"}}}, 100)
	h.now += time.Hour.Microseconds()
	h.merge(compact.Policy{Purge: compact.Purge{Below: 1}})
	seal := record.Head{
		Kind: record.KindSeal, Cluster: record.ID{1}, Epoch: 1, Nonce: record.ID{2}, Slot: h.s.Pos.Slot, PrevCRC: h.s.PrevCRC,
		Time: h.now + 1, Flags: record.FlagRecovery, NextEpoch: 2, NextNonce: record.ID{3},
	}
	must.NoError(t, h.s.Apply(&seal, []state.Record{
		{Kind: state.FormatLevel, Level: state.LevelRecovery},
		{Kind: state.LossAccepted, Loss: &state.Loss{LastEpoch: 1, Next: []state.LostOffsets{{Topic: record.ID{0, 1}, Next: 2}}}},
	}, nil))
	h.slot(nil, 100)
	h.now += time.Hour.Microseconds()
	h.merge(compact.Policy{Purge: compact.Purge{Below: 1}})
	must.Equalf(t, h.ranges(), 3, "ranges")
	runs := compact.ChooseCompaction(h.s.View(), compact.Policy{}, h.now).Scans()[0]
	must.Equalf(t, len(runs), 2, "runs around lost offsets")
	check.Equalf(t, runs[1].Ranges[0].Base, 2, "the second run begins at offset")
}

// TestSweepBelowYoungRanges: a pass that only removes old tombstones ends, although ranges that were
// compacted before are now younger than min-compaction-lag.
func TestSweepBelowYoungRanges(t *testing.T) {
	h := newHistory(t, 1)
	for to := range int64(2) {
		h.slot(nil, 100)
		h.now += time.Hour.Microseconds()
		h.merge(compact.Policy{Purge: compact.Purge{Below: 1}})
		h.slot([]state.Record{{Kind: state.CompactionDone, Topic: record.ID{0, 1}, Clean: state.Compaction{To: to + 1, Tombstones: 1, Time: h.now}}})
	}
	h.slot([]state.Record{{Kind: state.TopicChange, Topic: record.ID{0, 1}, Settings: map[string]string{
		"cleanup-policy": "compact", "min-compaction-lag": "90m", "delete-retention-time": "30m",
	}}})
	pass := compact.ChooseCompaction(h.s.View(), compact.Policy{}, h.now)
	must.Equalf(t, len(pass.Scans()[0][0].Ranges), 1, "old ranges")
	must.NoError(t, pass.Decide(func() error { return nil }))
	check.Equalf(t, len(must.Get(pass.Plans())(t)), 0, "portions that lose records")
	recs := must.Get(pass.Done(h.s.View(), h.now+1))(t)
	must.Equalf(t, len(recs), 1, "finished partitions")
	check.Equalf(t, recs[0].Clean.To, 2, "compacted up to offset")
	check.Equalf(t, recs[0].Clean.Swept, 1, "tombstones removed up to offset")
	check.Equalf(t, recs[0].Clean.Time, h.now+1, "time of the end of the pass")
}

// TestDirtyRatio: a partition is due when more than the ratio of its bytes is not compacted.
func TestDirtyRatio(t *testing.T) {
	h := newHistory(t, 1)
	for range 8 {
		h.slot(nil, 100)
	}
	h.now += time.Hour.Microseconds()
	check.Equalf(t, h.merge(compact.Policy{}), 1, "packs")
	h.slot([]state.Record{{Kind: state.CompactionDone, Topic: record.ID{0, 1}, Clean: state.Compaction{To: 6, Time: h.now}}})
	for ratio, want := range map[string]bool{"0": true, "0.24": true, "0.25": false, "0.5": false, "1": false} {
		h.slot([]state.Record{{Kind: state.TopicChange, Topic: record.ID{0, 1}, Settings: map[string]string{
			"cleanup-policy": "compact", "min-cleanable-dirty-ratio": ratio,
		}}})
		check.Equalf(t, compact.ChooseCompaction(h.s.View(), compact.Policy{}, h.now) != nil, want, "due at %s with a quarter", ratio)
	}
}

// TestFewDirtyOffsets: one dirty offset in a range of few bytes over many offsets is less than a byte,
// and is compacted nevertheless. A purge waits for it.
func TestFewDirtyOffsets(t *testing.T) {
	h := newHistory(t, 1)
	h.span = 1000
	h.slot([]state.Record{{Kind: state.TopicChange, Topic: record.ID{0, 1}, Settings: map[string]string{"cleanup-policy": "compact"}}}, 100)
	h.now += time.Hour.Microseconds()
	purge := compact.Policy{Purge: compact.Purge{Topic: record.ID{0, 1}, Below: 1000}}
	h.merge(purge)
	for _, to := range []int64{999, 1000} {
		h.slot([]state.Record{{Kind: state.CompactionDone, Topic: record.ID{0, 1}, Clean: state.Compaction{To: to, Time: h.now}}})
		check.Equalf(t, compact.ChooseCompaction(h.s.View(), purge, h.now) != nil, to < 1000, "due for a purge when compacted to %d", to)
	}
}

// TestYear checks that over a year the ranges in the state stay within the tail plus partitions ×
// (bytes / pack size).
func TestYear(t *testing.T) {
	const topics = 20
	c := compact.Policy{Target: 64 << 20}
	h := newHistory(t, topics)
	for hour := range sebtest.Runs(365, 60) * 24 {
		h.now += time.Hour.Microseconds()
		sizes := make([]uint32, topics)
		for i := range sizes {
			sizes[i] = 2_000
		}
		sizes[0] = 1 << 20 // one large topic
		if hour%24 < 8 {
			sizes = sizes[:1] // the small topics are idle
		}
		h.slot(nil, sizes...)
		h.merge(c)
		// A pack that is not small has at least three quarters of the target; a few small ones
		// wait.
		full := int(h.bytes/(c.Target*3/4)) + 1
		if got, most := h.ranges(), topics*(full+2*8)+topics; got > most {
			t.Fatalf("hour %d: %d ranges for %d MiB, at most %d", hour, got, h.bytes>>20, most)
		}
	}
	t.Logf("%d MiB in %d ranges after %d packs", h.bytes>>20, h.ranges(), h.packs)
	live := int64(0)
	for _, id := range h.s.Packs() {
		p, _ := h.s.PackOf(id)
		live += p.Live
	}
	if live > h.bytes || live < h.bytes-c.Target {
		t.Errorf("packs hold %d of %d bytes", live, h.bytes)
	}
}

// TestLargeTopicGetsRangesOfItsOwn checks that many small topics share one pack and a large one
// fills packs alone.
func TestLargeTopicGetsRangesOfItsOwn(t *testing.T) {
	h := newHistory(t, 10)
	for range 100 {
		sizes := []uint32{3000, 10, 10, 10, 10, 10, 10, 10, 10, 10}
		h.slot(nil, sizes...)
	}
	h.now += time.Hour.Microseconds()
	if n := h.merge(compact.Policy{Target: 100_000, Small: 2}); n < 3 || n > 5 {
		t.Fatalf("%d packs for 300 KB", n)
	}
	for i, topic := range h.s.Topics() {
		n := len(topic.Partitions.At(0).Ranges)
		if i == 0 && n > 5 || i > 0 && n != 1 {
			t.Errorf("topic %s has %d ranges", topic.Name, n)
		}
	}
}

func TestNothingIsDue(t *testing.T) {
	h := newHistory(t, 2)
	if compact.Choose(h.s, compact.Policy{}, h.now) != nil {
		t.Error("an empty log is merged")
	}
	h.slot(nil, 100, 100)
	h.slot(nil, 100, 100)
	if compact.Choose(h.s, compact.Policy{}, h.now) != nil {
		t.Error("young objects are merged")
	}
	h.now += time.Hour.Microseconds()
	if h.merge(compact.Policy{}) != 1 || h.merge(compact.Policy{}) != 0 {
		t.Error("old objects are not merged once")
	}
}

// TestBusy checks that on a busy broker commit objects wait until there are too many or they are
// old.
func TestBusy(t *testing.T) {
	h := newHistory(t, 2)
	c := compact.Policy{Target: 1000, Age: time.Hour, Backlog: 40, Busy: true}
	for range 15 {
		h.slot(nil, 400, 400)
	}
	check.Equalf(t, compact.Waiting(h.s, c), 30*400, "bytes wait")
	check.Equalf(t, h.merge(c), 0, "packs while busy")
	for range 5 {
		h.slot(nil, 400, 400)
	}
	if n := h.merge(c); n == 0 {
		t.Error("no pack with 40 waiting ranges")
	}
	left := compact.Waiting(h.s, c)
	if left == 0 || left >= 40*400 {
		t.Errorf("%d bytes wait after merging the backlog", left)
	}
	h.now += time.Hour.Microseconds() + 1
	if n := h.merge(c); n == 0 || compact.Waiting(h.s, c) >= left {
		t.Errorf("%d packs of old objects", n)
	}
	h.slot(nil, 400, 400)
	h.slot(nil, 400, 400)
	c.Busy = false
	if n := h.merge(c); n == 0 || compact.Waiting(h.s, c) >= 1000 {
		t.Errorf("%d packs when no longer busy", n)
	}
}

// TestFrugal: while requests are short, commit objects become six times as old, unless a purge waits
// for them.
func TestFrugal(t *testing.T) {
	h := newHistory(t, 1)
	h.slot(nil, 100)
	h.slot(nil, 100)
	c := compact.Policy{Age: time.Hour, Frugal: true}
	h.now += 5 * time.Hour.Microseconds()
	if compact.Choose(h.s, c, h.now) != nil {
		t.Error("objects of five hours are merged")
	}
	c.Purge.Below = 1
	if compact.Choose(h.s, c, h.now) == nil {
		t.Error("a purge waits")
	}
	c.Purge.Below = 0
	h.now += time.Hour.Microseconds() + 1
	if compact.Choose(h.s, c, h.now) == nil {
		t.Error("objects of six hours are not merged")
	}
}

// TestDeadPackIsRewritten checks that the live ranges of a mostly trimmed pack move, so that the
// pack can be deleted.
func TestDeadPackIsRewritten(t *testing.T) {
	h := newHistory(t, 2)
	for range 10 {
		h.slot(nil, 10_000, 100)
	}
	h.now += time.Hour.Microseconds()
	h.merge(compact.Policy{Target: 50_000})
	h.slot([]state.Record{{Kind: state.TopicTrim, Topic: record.ID{0, 1}, Offset: 10}})
	h.merge(compact.Policy{Target: 50_000})
	for _, id := range h.s.Packs() {
		if p, _ := h.s.PackOf(id); p.Live > 0 && p.Live*2 < p.Size && p.Size > 5000 {
			t.Errorf("pack %v holds %d bytes of %d", id, p.Live, p.Size)
		}
	}
}

// TestStaleInstallChangesNothing checks that installing a pack has no effect if its sources have
// moved or are gone (rule R8).
func TestStaleInstallChangesNothing(t *testing.T) {
	h := newHistory(t, 1)
	for range 4 {
		h.slot(nil, 1000)
	}
	h.now += time.Hour.Microseconds()
	plan := compact.Choose(h.s.View(), compact.Policy{}, h.now)
	stale := compact.NewLayout(plan, h.s, 99)
	h.merge(compact.Policy{})
	before := h.s.Topics()[0].Partitions.At(0).Ranges[0]
	h.slot([]state.Record{{Kind: state.PackInstall, Pack: stale.Content()}})
	if got := h.s.Topics()[0].Partitions.At(0).Ranges[0]; got != before {
		t.Errorf("%+v became %+v", before, got)
	}
	if p, ok := h.s.PackOf(state.PackID{Epoch: 1, ID: 99}); !ok || p.Live != 0 {
		t.Errorf("the stale pack is %+v, %v", p, ok)
	}
}

// TestTrimmedSourcesStillMove checks that a trim during the merge does not prevent the installation
// of the rest.
func TestTrimmedSourcesStillMove(t *testing.T) {
	h := newHistory(t, 1)
	for range 6 {
		h.slot(nil, 1000)
	}
	h.now += time.Hour.Microseconds()
	plan := compact.Choose(h.s.View(), compact.Policy{}, h.now)
	l := compact.NewLayout(plan, h.s, 7)
	h.slot([]state.Record{{Kind: state.TopicTrim, Topic: record.ID{0, 1}, Offset: 3}})
	h.slot([]state.Record{{Kind: state.PackInstall, Pack: l.Content()}})
	p := h.s.Topics()[0].Partitions.At(0)
	if len(p.Ranges) != 1 || !p.Ranges[0].Pack || p.Find(2) != 0 || p.Find(5) != 0 || p.Start != 3 {
		t.Errorf("%+v", p)
	}
}

// TestMergingEnds checks that each plan makes progress after random writes, trims and deletions.
func TestMergingEnds(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 3))
		topics := 1 + rng.IntN(5)
		h := newHistory(t, topics)
		c := compact.Policy{Target: int64(1 + rng.IntN(100_000)), Small: 2 + rng.IntN(5)}
		for range 60 {
			sizes := make([]uint32, topics)
			for i := range sizes {
				sizes[i] = uint32(rng.IntN(2)) * uint32(1+rng.IntN(1<<rng.IntN(17)))
			}
			var recs []state.Record
			if rng.IntN(4) == 0 {
				id := record.ID{byte(rng.IntN(topics)), 1}
				p := h.s.Topic(id).Partitions.At(0)
				recs = append(recs, state.Record{Kind: state.TopicTrim, Topic: id, Offset: p.Start + rng.Int64N(p.Next-p.Start+1)})
			}
			h.slot(recs, sizes...)
			h.now += rng.Int64N(time.Hour.Microseconds())
			if rng.IntN(3) == 0 {
				h.merge(c)
			}
		}
		h.merge(c)
	}
}
