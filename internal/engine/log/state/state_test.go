package state_test

import (
	"errors"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

var cluster = record.ID{0xc1}

// log appends slots to a state.
type log struct {
	t    testing.TB
	s    *state.State
	also *state.State // gets the same objects, if it is not nil
}

func newLog(t testing.TB) *log {
	l := &log{t: t, s: state.Genesis(cluster, 0)}
	l.seal(1)
	return l
}

func (l *log) head(kind record.Kind) record.Head {
	return record.Head{
		Kind: kind, Time: l.s.AppendTime + 1, Cluster: cluster, Epoch: l.s.Pos.Epoch, Nonce: l.s.Nonce, Slot: l.s.Pos.Slot,
		PrevCRC: l.s.PrevCRC, CRC: l.s.PrevCRC*31 + 7,
	}
}

func (l *log) seal(nonce byte) {
	l.t.Helper()
	h := l.head(record.KindSeal)
	h.NextEpoch, h.NextNonce = h.Epoch+1, record.ID{nonce}
	must.NoError(l.t, l.apply(&h, nil, nil))
}

func (l *log) apply(h *record.Head, recs []state.Record, index []record.IndexEntry) error {
	if l.also != nil {
		must.NoError(l.t, l.also.Apply(h, recs, index))
	}
	return l.s.Apply(h, recs, index)
}

func (l *log) data(recs []state.Record, index ...record.IndexEntry) error {
	h := l.head(record.KindData)
	for i := range index {
		index[i].AppendTime = h.Time
	}
	return l.apply(&h, recs, index)
}

func (l *log) must(recs []state.Record, index ...record.IndexEntry) {
	l.t.Helper()
	must.NoError(l.t, l.data(recs, index...))
}

func create(id byte, name string, parts uint32) state.Record {
	return state.Record{Kind: state.TopicCreate, Topic: record.ID{id}, Name: name, Partitions: parts, Settings: map[string]string{"retention-time": "24h0m0s"}}
}

func entry(id byte, part uint32, base int64, span uint32) record.IndexEntry {
	return record.IndexEntry{
		Topic: record.ID{id}, Partition: part, Base: base, Span: span, Records: span, Pos: 192, Len: span * 10,
		MinTime: 1000 + base, MaxTime: 2000 + base,
	}
}

func sample(t testing.TB) *log {
	l := newLog(t)
	l.must([]state.Record{create(1, "a", 2), create(2, "b", 1)}, entry(1, 0, 0, 3))
	l.must(nil, entry(1, 0, 3, 2), entry(1, 1, 0, 7))
	l.seal(2)
	l.must(nil, entry(1, 0, 5, 1), entry(2, 0, 0, 1))
	l.must([]state.Record{{Kind: state.TopicChange, Topic: record.ID{2}, Partitions: 3, Settings: map[string]string{"compression": "zstd"}}})
	return l
}

func TestApplyFoldsTheLog(t *testing.T) {
	s := sample(t).s
	a, b := s.TopicByName("a"), s.TopicByName("b")
	if a.Partitions.At(0).Next != 6 || a.Partitions.At(1).Next != 7 || b.Partitions.Len() != 3 || b.Settings["compression"] != "zstd" {
		t.Fatalf("%+v %+v", a, b)
	}
	if p := a.Partitions.At(0); len(p.Ranges) != 3 || p.Bytes != 60 || len(p.Epochs) != 2 || p.Epochs[1] != (state.EpochStart{Epoch: 2, Offset: 5}) {
		t.Fatalf("%+v", p)
	}
	for offset, want := range []int{0, 0, 0, 1, 1, 2, -1} {
		check.Equalf(t, a.Partitions.At(0).Find(int64(offset)), want, "offset %d is in range", offset)
	}
	check.Equalf(t, s.Key(1, 5), "s0000/wal/0000000001-01000000000000000000000000000000/00000000000000000005", "key")
	check.Equalf(t, s.Key(9, 0), "", "Key returns a name for an epoch that is not on the chain")
}

// TestApplyRefuses checks that objects that no leader writes are corruption and change nothing.
func TestApplyRefuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		recs  []state.Record
		index []record.IndexEntry
		want  string
	}{
		{"gap", nil, []record.IndexEntry{entry(1, 0, 7, 1)}, "next is 6"},
		{"reuse", nil, []record.IndexEntry{entry(1, 0, 5, 1)}, "next is 6"},
		{"empty span", nil, []record.IndexEntry{entry(1, 0, 6, 0)}, "span 0"},
		{"unknown topic", nil, []record.IndexEntry{entry(9, 0, 0, 1)}, "no partition"},
		{"unknown partition", nil, []record.IndexEntry{entry(1, 2, 0, 1)}, "no partition"},
		{"partition twice", nil, []record.IndexEntry{entry(1, 0, 6, 1), entry(1, 0, 6, 1)}, "duplicate partition"},
		{"topic exists", []state.Record{create(3, "a", 1)}, nil, "cannot be created"},
		{"id exists", []state.Record{create(1, "c", 1)}, nil, "cannot be created"},
		{"same name twice", []state.Record{create(3, "c", 1), create(4, "c", 1)}, nil, "cannot be created"},
		{"no partitions", []state.Record{create(3, "c", 0)}, nil, "cannot be created"},
		{"delete unknown", []state.Record{{Kind: state.TopicDelete, Topic: record.ID{9}}}, nil, "no topic"},
		{"delete twice", []state.Record{{Kind: state.TopicDelete, Topic: record.ID{1}}, {Kind: state.TopicDelete, Topic: record.ID{1}}}, nil, "no topic"},
		{"append to deleted", []state.Record{{Kind: state.TopicDelete, Topic: record.ID{1}}}, []record.IndexEntry{entry(1, 0, 6, 1)}, "no partition"},
		{"shrink", []state.Record{{Kind: state.TopicChange, Topic: record.ID{1}, Partitions: 1}}, nil, "cannot be changed"},
		{"hint in data", []state.Record{{Kind: state.LeaderHint}}, nil, "kind 4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := sample(t)
			before := string(state.EncodeSnapshot(l.s))
			err := l.data(c.recs, c.index...)
			must.ErrorContains(t, err, c.want)
			must.Equalf(t, string(state.EncodeSnapshot(l.s)), before, "the state changed")
		})
	}
}

func TestApplyChecksTheChain(t *testing.T) {
	for name, change := range map[string]func(h *record.Head){
		"cluster":      func(h *record.Head) { h.Cluster[0]++ },
		"shard":        func(h *record.Head) { h.Shard++ },
		"epoch":        func(h *record.Head) { h.Epoch++ },
		"nonce":        func(h *record.Head) { h.Nonce[0]++ },
		"slot":         func(h *record.Head) { h.Slot++ },
		"head before":  func(h *record.Head) { h.PrevCRC++ },
		"append time":  func(h *record.Head) { h.Time-- },
		"kind":         func(h *record.Head) { h.Kind = record.KindPack },
		"seal's epoch": func(h *record.Head) { h.Kind = record.KindSeal; h.NextEpoch = h.Epoch + 2 },
	} {
		l := sample(t)
		h := l.head(record.KindData)
		change(&h)
		check.Error(t, l.s.Apply(&h, nil, nil), "a slot with another %s is applied", name)
	}
}

func TestViewDoesNotChange(t *testing.T) {
	l := sample(t)
	v := l.s.View()
	before := string(state.EncodeSnapshot(v))
	l.must([]state.Record{create(5, "e", 1), {Kind: state.TopicDelete, Topic: record.ID{2}}}, entry(1, 0, 6, 4), entry(5, 0, 0, 1))
	l.seal(3)
	l.must([]state.Record{{Kind: state.TopicChange, Topic: record.ID{1}, Partitions: 4}}, entry(1, 3, 0, 1))
	must.Equalf(t, string(state.EncodeSnapshot(v)), before, "a view changed with its state")
	if l.s.TopicByName("a").Partitions.At(0).Next != 10 || l.s.TopicByName("b") != nil {
		t.Fatal("the state was not updated")
	}
}

func TestCatalogDecidesAsApplyDoes(t *testing.T) {
	l := sample(t)
	c := l.s.Catalog()
	rec := create(7, "g", 2)
	must.NoError(t, c.Propose(&rec))
	if base, err := c.Reserve(record.ID{7}, 1, 5, -1); base != 0 || err != nil {
		t.Fatal(base, err)
	}
	if base, err := c.Reserve(record.ID{1}, 0, 5, 6); base != 6 || err != nil {
		t.Fatal(base, err)
	}
	var mismatch *state.OffsetMismatchError
	if _, err := c.Reserve(record.ID{1}, 0, 5, 6); !errors.As(err, &mismatch) || mismatch.Next != 11 {
		t.Fatal(err)
	}
	l.must([]state.Record{rec}, entry(7, 1, 0, 5), entry(1, 0, 6, 5))
	if err := c.Propose(&rec); err != state.ErrTopicExists {
		t.Fatal(err)
	}
}

func TestSnapshotRoundTrip(t *testing.T) {
	s := sample(t).s
	b := state.EncodeSnapshot(s)
	got := must.Get(state.DecodeSnapshot(b))(t)
	must.Equalf(t, string(state.EncodeSnapshot(got)), string(b), "decoding gives another state")
	h := (&log{t: t, s: got}).head(record.KindData)
	must.NoErrorf(t, got.Apply(&h, nil, []record.IndexEntry{entry(1, 0, 6, 1)}), "the decoded state does not accept the next slot")
}

func TestSnapshotDamageIsDetected(t *testing.T) {
	b := state.EncodeSnapshot(sample(t).s)
	for i := range len(b) * 8 {
		bad := append([]byte(nil), b...)
		bad[i/8] ^= 1 << (i % 8)
		must.Error(t, check.Err(state.DecodeSnapshot(bad)), "bit %d", i)
	}
	for i := range b {
		must.Error(t, check.Err(state.DecodeSnapshot(b[:i])), "cut at %d", i)
	}
}

func TestRecordsOfANewerVersionAreRefused(t *testing.T) {
	for _, b := range [][]byte{{2, 8, 99}, {4, 8, 1, 120, 1}, {1}, {2, 16, 1}} {
		if recs, err := state.DecodeRecords(b); err == nil {
			t.Errorf("% x decodes to %+v", b, recs)
		}
	}
}

func TestCheckSettings(t *testing.T) {
	good, err := state.CheckSettings(map[string]string{
		"retention-time": "7d", "retention-bytes": "1GiB", "max-batch-bytes": "2MiB", "cleanup-policy": "compact", "key-index": "0",
		"min-compaction-lag": "1d12h", "timestamp-type": "LogAppendTime", "min-cleanable-dirty-ratio": "0.250",
	})
	want := map[string]string{
		"retention-time": "168h0m0s", "retention-bytes": "1073741824", "max-batch-bytes": "2097152", "cleanup-policy": "compact",
		"key-index": "false", "min-compaction-lag": "36h0m0s", "timestamp-type": "LogAppendTime", "min-cleanable-dirty-ratio": "0.25",
	}
	if err != nil || !maps.Equal(good, want) {
		t.Fatalf("%v, %v", good, err)
	}
	again, err := state.CheckSettings(good)
	if err != nil || !maps.Equal(again, good) {
		t.Fatalf("canonical form is not stable: %v, %v", again, err)
	}
	s := state.Resolve(good)
	if s.RetentionTime != 7*24*time.Hour || s.RetentionBytes != 1<<30 || s.KeyIndex || s.MaxBatchBytes != 2<<20 || s.MinDirtyRatio != 0.25 {
		t.Fatalf("%+v", s)
	}
	if d := state.Resolve(nil); d.RetentionTime != state.Unlimited || d.MaxBatchBytes != 1_048_588 || d.KeyIndex || d.MinDirtyRatio != 0.5 {
		t.Fatalf("%+v", d)
	}
}

func TestCheckSettingsNamesEveryFault(t *testing.T) {
	_, err := state.CheckSettings(map[string]string{"retention-time": "soon", "retention-bytes": "-5", "colour": "red", "max-batch-bytes": "99TiB"})
	for _, want := range []string{"retention-time", `"soon"`, "retention-bytes", `"-5"`, "colour", "max-batch-bytes", "99TiB"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
}

// TestSpansAreBounded: a time has the range of Kafka, 0 to 2^63-1 ms. What a time.Duration cannot hold
// is the longest one, with the given text.
func TestSpansAreBounded(t *testing.T) {
	for given, want := range map[[2]string]struct {
		canonical string
		kept      time.Duration
	}{
		{"min-compaction-lag", "0s"}:                       {"0s", 0},
		{"min-compaction-lag", "100000d"}:                  {"2400000h0m0s", 2_400_000 * time.Hour},
		{"min-compaction-lag", "100001d"}:                  {"2400024h0m0s", 2_400_024 * time.Hour},
		{"min-compaction-lag", "9223372036853ms"}:          {"2562047h47m16.853s", 9_223_372_036_853 * time.Millisecond},
		{"min-compaction-lag", "9223372036854ms"}:          {"9223372036854ms", math.MaxInt64},
		{"min-compaction-lag", "9223372036854775807ms"}:    {"9223372036854775807ms", math.MaxInt64},
		{"min-compaction-lag", "2562047h47m16.854775807s"}: {"9223372036854ms", math.MaxInt64},
		{"delete-retention-time", "0ms"}:                   {"0s", 0},
		{"delete-retention-time", "1d-24h"}:                {"0s", 0},
		{"delete-retention-time", "1d-1ns"}:                {"23h59m59.999999999s", 24*time.Hour - 1},
		{"delete-retention-time", "99999d999999h"}:         {"12239910000000ms", math.MaxInt64},
		{"delete-retention-time", "106751991167d"}:         {"9223372036828800000ms", math.MaxInt64},
		{"retention-time", "0s"}:                           {"0s", 0},
		{"retention-time", "999ms"}:                        {"999ms", 999 * time.Millisecond},
		{"retention-time", "1500us"}:                       {"1.5ms", 1500 * time.Microsecond},
		{"retention-time", "-1"}:                           {"unlimited", state.Unlimited},
	} {
		got, err := state.CheckSettings(map[string]string{given[0]: given[1]})
		again, _ := state.CheckSettings(got)
		s := state.Resolve(got)
		kept := map[string]time.Duration{"min-compaction-lag": s.MinCompactionLag, "delete-retention-time": s.DeleteRetentionTime, "retention-time": s.RetentionTime}[given[0]]
		if err != nil || got[given[0]] != want.canonical || kept != want.kept || !maps.Equal(again, got) {
			t.Errorf("%s: %v %v, then %v, kept as %v, want %+v", given, got, err, again, kept, want)
		}
	}
	for given, want := range map[[2]string]string{
		{"min-compaction-lag", "-1s"}:                   "less than 0s",
		{"min-compaction-lag", "-1ns"}:                  "less than 0s",
		{"min-compaction-lag", "unlimited"}:             "time span",
		{"min-compaction-lag", "9223372036854775808ms"}: "more than 9223372036854775807ms",
		{"min-compaction-lag", "106751991167d8h"}:       "more than 9223372036854775807ms",
		{"min-compaction-lag", "106751991168d"}:         "more than 9223372036854775807ms",
		{"min-compaction-lag", "99999999999999999999d"}: "more than 9223372036854775807ms",
		{"delete-retention-time", "100000d2e6h"}:        "time span",
		{"delete-retention-time", "-1"}:                 "time span",
		{"retention-time", "-1ms"}:                      "less than 0s",
	} {
		_, err := state.CheckSettings(map[string]string{given[0]: given[1]})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), given[0]) || !strings.Contains(err.Error(), given[1]) {
			t.Errorf("%s: %v, want %q", given, err, want)
		}
	}
}

func TestCheckTopicName(t *testing.T) {
	for _, good := range []string{"a", "A.b_c-9", "...", strings.Repeat("x", 249)} {
		check.NoError(t, state.CheckTopicName(good))
	}
	for _, bad := range []string{"", ".", "..", "../../evil", "a/b", "a b", "ä", "a\x00", strings.Repeat("x", 250)} {
		check.Error(t, state.CheckTopicName(bad), "%q is accepted", bad)
	}
}

func BenchmarkSnapshot(b *testing.B) {
	l := newLog(&testing.T{})
	l.must([]state.Record{create(1, "a", 100)})
	for i := range int64(1000) {
		var index []record.IndexEntry
		for p := range uint32(100) {
			index = append(index, entry(1, p, i*10, 10))
		}
		l.must(nil, index...)
	}
	b.Run("view", func(b *testing.B) {
		for b.Loop() {
			l.s.View()
		}
	})
	b.Run("encode 100,000 ranges", func(b *testing.B) {
		for b.Loop() {
			b.SetBytes(int64(len(state.EncodeSnapshot(l.s))))
		}
	})
	enc := state.EncodeSnapshot(l.s)
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			if _, err := state.DecodeSnapshot(enc); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func TestTimestampTypeHasTwoNames(t *testing.T) {
	for given, want := range map[string]string{
		"create": state.TimestampCreate, "append": state.TimestampAppend, "CreateTime": state.TimestampCreate,
		"LogAppendTime": state.TimestampAppend, " append ": state.TimestampAppend,
	} {
		got, err := state.CheckSettings(map[string]string{"timestamp-type": given})
		if err != nil || got["timestamp-type"] != want {
			t.Errorf("%q: %v, %v", given, got, err)
		}
		s, topic := state.Resolve(got), state.Topic{Settings: got}
		if s.TimestampType != want || topic.LogAppendTime() != (want == state.TimestampAppend) {
			t.Errorf("%q: %+v", given, s)
		}
	}
	if s := state.Resolve(nil); s.TimestampType != state.TimestampCreate || new(state.Topic).LogAppendTime() {
		t.Errorf("default %+v", s)
	}
	for _, bad := range []string{"", "Append", "logappendtime", "1", "create,append"} {
		_, err := state.CheckSettings(map[string]string{"timestamp-type": bad})
		if err == nil || !strings.Contains(err.Error(), "setting timestamp-type: ") || !strings.Contains(err.Error(), "append (LogAppendTime)") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
