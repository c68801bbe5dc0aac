// Package forged makes buckets of older and newer versions of Seb, for tests of compatibility.
package forged

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
)

// NewerVersion is the version of Seb that a newer bucket names.
const NewerVersion = "9.9.9"

// Bucket is a bucket and the position of its log's end.
type Bucket struct {
	store objstore.Store
	end   *state.State
}

// OldBucket creates a bucket at format level 1, like versions before format levels.
func OldBucket(ctx context.Context, store objstore.Store) (*Bucket, error) {
	id := record.ID{0x0f, 0x01}
	b := &Bucket{store: store, end: state.Genesis(id, 0)}
	if err := b.put(ctx, core.MetaKey, core.EncodeMeta(id)); err != nil {
		return nil, err
	}
	return b, b.seal(ctx, hint())
}

// Raise writes a slot that raises the bucket to the level after state.LevelMax.
func (b *Bucket) Raise(ctx context.Context) error { return b.data(ctx, NewerRecords()) }

// NewerBuckets are buckets that a newer version has raised to the level after state.LevelMax, each in a
// different object. After the level come kinds and fields that this version does not know.
var NewerBuckets = []struct {
	Name  string
	Found func(ctx context.Context, store objstore.Store) error
}{
	{"in the first seal", func(ctx context.Context, store objstore.Store) error {
		id := record.ID{0x0f, 0x02}
		b := &Bucket{store: store, end: state.Genesis(id, 0)}
		if err := b.put(ctx, core.MetaKey, core.EncodeMeta(id)); err != nil {
			return err
		}
		return b.seal(ctx, NewerRecords())
	}},
	{"in a slot", func(ctx context.Context, store objstore.Store) error {
		b, err := OldBucket(ctx, store)
		if err != nil {
			return err
		}
		return b.Raise(ctx)
	}},
	{"in a snapshot", func(ctx context.Context, store objstore.Store) error {
		b, err := OldBucket(ctx, store)
		if err != nil {
			return err
		}
		return b.put(ctx, state.SnapKey(0, b.end.Pos, b.end.Nonce), SnapshotFrame(NewerMessage(b.end)))
	}},
}

// NewerLayout creates a bucket whose meta/cluster has a later layout.
func NewerLayout(ctx context.Context, store objstore.Store) error {
	b := &Bucket{store: store}
	text := fmt.Sprintf(`{"format":%d,"cluster":"not what it was"}`, state.Layout+1)
	return b.put(ctx, core.MetaKey, []byte(text))
}

// NewerRecords returns encoded state records: the level after state.LevelMax with an unknown field,
// and a record of an unknown kind.
func NewerRecords() []byte {
	level := state.Record{Kind: state.FormatLevel, Level: state.LevelMax + 1, Name: NewerVersion}
	m, _ := protowire.ConsumeBytes(state.EncodeRecords(nil, []state.Record{level}))
	m = protowire.AppendVarint(protowire.AppendTag(m[:len(m):len(m)], 200, protowire.VarintType), 1)
	b := protowire.AppendBytes(nil, m)
	unknown := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 100)
	return append(protowire.AppendBytes(b, unknown), hint()...)
}

// NewerMessage returns a snapshot's message at the level after state.LevelMax, with unknown fields:
// one in the level's message, and one at the end.
func NewerMessage(s *state.State) []byte {
	level := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), state.LevelMax+1)
	level = protowire.AppendString(protowire.AppendTag(level, 2, protowire.BytesType), NewerVersion)
	level = protowire.AppendVarint(protowire.AppendTag(level, 3, protowire.VarintType), 7)
	b := protowire.AppendBytes(protowire.AppendTag(nil, 12, protowire.BytesType), level)
	b = append(b, state.EncodeMessage(s)...)
	return protowire.AppendVarint(protowire.AppendTag(b, 300, protowire.VarintType), 1)
}

// SnapshotFrame wraps a message in the frame of a snapshot.
func SnapshotFrame(message []byte) []byte {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err)
	}
	defer encoder.Close()
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	body := encoder.EncodeAll(message, nil)
	b := append([]byte("seb$"), 1, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(message)))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(body)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(body, castagnoli))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return append(b, body...)
}

func hint() []byte {
	return state.EncodeRecords(nil, []state.Record{{Kind: state.LeaderHint, Name: "http://forged"}})
}

// seal ends the epoch with a SEAL of encoded state records and moves to the next epoch.
func (b *Bucket) seal(ctx context.Context, records []byte) error {
	h := b.head(record.KindSeal)
	h.NextEpoch, h.NextNonce = h.Epoch+1, record.ID{0x0f, byte(h.Epoch + 1)}
	if err := b.object(ctx, &h, records); err != nil {
		return err
	}
	return b.end.Apply(&h, nil, nil)
}

// data writes a slot of encoded state records without batches.
func (b *Bucket) data(ctx context.Context, records []byte) error {
	h := b.head(record.KindData)
	if err := b.object(ctx, &h, records); err != nil {
		return err
	}
	return b.end.Apply(&h, nil, nil)
}

func (b *Bucket) head(kind record.Kind) record.Head {
	s := b.end
	return record.Head{
		Kind: kind, Time: s.AppendTime + 1, Cluster: s.Cluster, Shard: s.Shard, Epoch: s.Pos.Epoch, Nonce: s.Nonce, Slot: s.Pos.Slot,
		Low: s.Pos.Slot, PrevCRC: s.PrevCRC,
	}
}

func (b *Bucket) object(ctx context.Context, h *record.Head, records []byte) error {
	body, err := record.EncodeObject(h, records, nil, nil)
	if err != nil {
		return err
	}
	return b.put(ctx, state.SlotKey(h.Shard, h.Epoch, h.Nonce, h.Slot), body)
}

func (b *Bucket) put(ctx context.Context, key string, body []byte) error {
	return b.store.Put(ctx, key, objstore.NewBody(body))
}
