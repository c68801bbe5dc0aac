package state

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sebbroker/seb/internal/engine/base/protobuf"
)

// PartitionsMax is the largest number of partitions of a topic.
const PartitionsMax = 10_000

var errWire = errors.New("malformed state record")

// EncodeRecords appends the records to dst as length-delimited protobuf messages. Equal records
// give equal bytes.
func EncodeRecords(dst []byte, recs []Record) []byte {
	return protobuf.AppendDelimited(dst, recs, (*Record).fields)
}

// DecodeRecords decodes the output of EncodeRecords. An unknown kind or field is an error, because
// a newer version wrote it and skipping it would give another state (rule R12). A FormatLevel that
// is too high is a *NewerError, whatever follows it.
func DecodeRecords(b []byte) ([]Record, error) {
	recs, err := protobuf.DecodeDelimited(b, (*Record).fields)
	switch {
	case errors.Is(err, ErrNewer):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("record %d: %w", len(recs)-1, err)
	}
	return recs, nil
}

// fields lists the fields of a state record (FORMAT.md). Numbers are never reused.
func (r *Record) fields(c *protobuf.Codec) {
	kind := uint64(r.Kind)
	if protobuf.Int(c, 1, "kind", &kind); c.Decoding() {
		if r.Kind = RecordKind(kind); kind > uint64(TransactionUpdate) {
			c.Fail(fmt.Errorf("kind %d: written by a newer version", kind))
		}
	}
	c.Fixed(2, "topic", r.Topic[:])
	c.String(3, "name", &r.Name)
	if protobuf.Int(c, 4, "partitions", &r.Partitions); r.Partitions > PartitionsMax {
		c.Fail(fmt.Errorf("partitions %d: %w", r.Partitions, errWire))
	}
	settingFields(c, 5, &r.Settings)
	protobuf.Int(c, 6, "partition", &r.Partition)
	offset := r.offsetBits()
	if protobuf.Int(c, 7, "offset", &offset); c.Decoding() {
		if r.Offset = int64(offset); r.Offset < 0 {
			c.Fail(fmt.Errorf("offset %d: %w", r.Offset, errWire))
		}
	}
	protobuf.Int(c, 9, "time", &r.Time)
	c.String(8, "metadata", &r.Metadata)
	if c.Decoding() || r.Kind == ProducerAppend {
		protobuf.Row(c, 10, "producer", &r.Producer, (*ProducerBatch).row)
	}
	protobuf.Optional(c, 11, "pack", &r.Pack, (*PackContent).fields)
	if c.Decoding() || r.Kind == CompactionDone {
		protobuf.Row(c, 12, "compaction", &r.Clean, (*Compaction).row)
	}
	if protobuf.Int(c, 13, "level", &r.Level); c.Decoding() && r.Kind == FormatLevel {
		// Checked before later fields, because those may be known only to a newer program.
		c.Fail(checkLevel(r.Level, r.Name))
	}
	protobuf.Optional(c, 14, "loss", &r.Loss, (*Loss).fields)
	protobuf.Optional(c, 15, "access", &r.Access, changeFields)
	if c.At(16) {
		r.Run = new(Run)
	}
	if r.Run != nil {
		r.Run.field(c, 16, "run")
	}
	protobuf.Int(c, 17, "within", &r.Within)
	protobuf.Int(c, 18, "owner", &r.Owner)
	protobuf.Optional(c, 19, "queue", &r.Queue, (*QueueChange).fields)
	protobuf.Optional(c, 20, "transaction", &r.Transaction, (*TransactionChange).fields)
	if c.Bool(21, "transactional", &r.Transactional); c.Done() {
		c.Fail(r.checkFields(c.Has(10), c.Has(12)))
		if r.Kind == OffsetCommit && r.Offset > CommitMax {
			r.Offset |= math.MinInt64
		}
	}
}

// checkFields checks that a decoded record has the field of its kind and of no other.
func (r *Record) checkFields(producer, clean bool) error {
	for _, f := range [...]struct {
		kind RecordKind
		set  bool
	}{
		{ProducerAppend, producer},
		{CompactionDone, clean},
		{PackInstall, r.Pack != nil},
		{FormatLevel, r.Level != 0},
		{LossAccepted, r.Loss != nil},
		{AccessChange, r.Access != nil},
		{LeaderRun, r.Run != nil},
		{NextSlot, r.Within != 0},
		{QueueUpdate, r.Queue != nil},
		{TransactionUpdate, r.Transaction != nil},
	} {
		if f.set != (r.Kind == f.kind) {
			return fmt.Errorf("kind %d lacks its field or has another kind's: %w", r.Kind, errWire)
		}
	}
	if r.Owner != 0 && r.Kind != ProducerAppend && r.Kind != ProducersForget {
		return fmt.Errorf("kind %d has an owner: %w", r.Kind, errWire)
	}
	if r.Transactional && r.Kind != ProducerAppend {
		return fmt.Errorf("kind %d is transactional: %w", r.Kind, errWire)
	}
	if r.Kind == 0 {
		return fmt.Errorf("no kind: %w", errWire)
	}
	return nil
}

// offsetBits is the encoded offset. A commit's offset may be negative; it is encoded without the
// sign bit, so it lies beyond the end of every log. A program that does not know of this lets
// consumers start where their settings say, as for a negative offset.
func (r *Record) offsetBits() uint64 {
	if r.Kind == OffsetCommit {
		return uint64(r.Offset) & math.MaxInt64
	}
	return uint64(r.Offset)
}

// setting is a member of Settings.
type setting struct{ key, value string }

func (s *setting) fields(c *protobuf.Codec) {
	c.KeepZeros(true)
	c.String(1, "key", &s.key)
	c.String(2, "value", &s.value)
}

// settingFields lists settings as a repeated message, sorted by key.
func settingFields(c *protobuf.Codec, num protowire.Number, settings *map[string]string) {
	if !c.Decoding() && len(*settings) > 0 {
		for _, k := range slices.Sorted(maps.Keys(*settings)) {
			protobuf.Message(c, num, "setting", &setting{k, (*settings)[k]}, (*setting).fields)
		}
	}
	for c.At(num) {
		if *settings == nil {
			*settings = map[string]string{}
		}
		var s setting
		protobuf.Message(c, num, "setting", &s, (*setting).fields)
		(*settings)[s.key] = s.value
	}
}
