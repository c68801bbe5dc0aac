package state

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sebbroker/seb/internal/access"
	"github.com/sebbroker/seb/record"
)

// PartitionsMax is the largest number of partitions of a topic.
const PartitionsMax = 10_000

var errWire = errors.New("malformed state record")

// Field numbers of a state record (FORMAT.md). They are never reused.
const (
	recKind       = 1
	recTopic      = 2
	recName       = 3
	recPartitions = 4
	recSetting    = 5 // repeated; a message of settingKey, settingValue
	recPartition  = 6
	recOffset     = 7
	recMetadata   = 8
	recTime       = 9
	recProducer   = 10 // id + 1, then epoch, sequence, span: packed varints
	recPack       = 11 // message (packs.go)
	recClean      = 12 // to, swept, tombstones, time: packed varints
	recLevel      = 13
	recLoss       = 14 // message (recovery.go)
	recAccess     = 15 // message (access.go)
	recRun        = 16 // node, id
	recWithin     = 17
	settingKey    = 1
	settingValue  = 2
)

// EncodeRecords appends the records to dst as length-delimited protobuf messages. Equal records
// give equal bytes.
func EncodeRecords(dst []byte, recs []Record) []byte {
	for i := range recs {
		dst = protowire.AppendBytes(dst, encodeRecord(&recs[i]))
	}
	return dst
}

func encodeRecord(r *Record) []byte {
	b := appendVarint(nil, recKind, uint64(r.Kind))
	if r.Topic != (record.ID{}) {
		b = appendBytes(b, recTopic, r.Topic[:])
	}
	if r.Name != "" {
		b = appendBytes(b, recName, []byte(r.Name))
	}
	if r.Partitions != 0 {
		b = appendVarint(b, recPartitions, uint64(r.Partitions))
	}
	b = appendSettings(b, recSetting, r.Settings)
	for _, f := range [...]struct {
		num protowire.Number
		v   uint64
	}{{recPartition, uint64(r.Partition)}, {recOffset, r.offsetBits()}, {recTime, uint64(r.Time)}} {
		if f.v != 0 {
			b = appendVarint(b, f.num, f.v)
		}
	}
	if r.Metadata != "" {
		b = appendBytes(b, recMetadata, []byte(r.Metadata))
	}
	if r.Kind == ProducerAppend {
		b = appendBytes(b, recProducer, encodeProducerBatch(&r.Producer))
	}
	if r.Pack != nil {
		b = appendBytes(b, recPack, encodePack(r.Pack))
	}
	if r.Kind == CompactionDone {
		b = appendBytes(b, recClean, encodeCompaction(&r.Clean))
	}
	if r.Level != 0 {
		b = appendVarint(b, recLevel, uint64(r.Level))
	}
	if r.Loss != nil {
		b = appendBytes(b, recLoss, encodeLoss(r.Loss))
	}
	if r.Access != nil {
		b = appendBytes(b, recAccess, encodeChange(r.Access))
	}
	if r.Run != nil {
		b = appendBytes(b, recRun, r.Run.encode())
	}
	if r.Within != 0 {
		b = appendVarint(b, recWithin, uint64(r.Within))
	}
	return b
}

// DecodeRecords decodes the output of EncodeRecords. An unknown kind or field is an error, because
// a newer version wrote it and skipping it would give another state (rule R12). A FormatLevel that
// is too high is a *NewerError, whatever follows it.
func DecodeRecords(b []byte) ([]Record, error) {
	var recs []Record
	for len(b) > 0 {
		m, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return nil, fmt.Errorf("record %d: %w", len(recs), errWire)
		}
		r, err := decodeRecord(m)
		if errors.Is(err, ErrNewer) {
			return nil, err
		}
		if err != nil {
			return nil, fmt.Errorf("record %d: %w", len(recs), err)
		}
		recs = append(recs, r)
		b = b[n:]
	}
	return recs, nil
}

func decodeRecord(b []byte) (Record, error) {
	var r Record
	var producer, clean bool // fields that are present
	err := fields(b, recordFields, func(num protowire.Number, v uint64, s []byte) (err error) {
		switch num {
		case recKind:
			r.Kind = RecordKind(v)
			if v < uint64(TopicCreate) || v > uint64(NextSlot) {
				return fmt.Errorf("kind %d: written by a newer version", v)
			}
		case recTopic:
			return copyID(&r.Topic, s)
		case recName:
			r.Name = string(s)
		case recPartitions:
			if v > PartitionsMax {
				return fmt.Errorf("partitions %d: %w", v, errWire)
			}
			r.Partitions = uint32(v)
		case recSetting:
			return decodeSetting(&r.Settings, s)
		case recPartition:
			r.Partition, err = uint32Of(v)
		case recOffset:
			if r.Offset = int64(v); r.Offset < 0 {
				return fmt.Errorf("offset %d: %w", r.Offset, errWire)
			}
		case recMetadata:
			r.Metadata = string(s)
		case recTime:
			r.Time = int64(v)
		case recProducer:
			producer = true
			return decodeProducerBatch(&r.Producer, s)
		case recPack:
			r.Pack = &PackContent{}
			return decodePack(r.Pack, s)
		case recClean:
			clean = true
			return decodeCompaction(&r.Clean, s)
		case recLevel:
			// Checked before later fields, because those may be known only to a newer program.
			if r.Level, err = uint32Of(v); err == nil && r.Kind == FormatLevel {
				err = checkLevel(r.Level, r.Name)
			}
		case recLoss:
			r.Loss = &Loss{}
			return decodeLoss(r.Loss, s)
		case recAccess:
			r.Access = &access.Change{}
			return decodeChange(r.Access, s)
		case recRun:
			r.Run = &Run{}
			return decodeRun(r.Run, s)
		case recWithin:
			r.Within, err = uint32Of(v)
		}
		return err
	})
	if err == nil && r.Kind == FormatLevel {
		err = checkLevel(r.Level, r.Name)
	}
	if r.Kind == OffsetCommit && r.Offset > CommitMax {
		r.Offset |= math.MinInt64
	}
	if err == nil {
		err = r.checkFields(producer, clean)
	}
	return r, err
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
	} {
		if f.set != (r.Kind == f.kind) {
			return fmt.Errorf("kind %d lacks its field or has another kind's: %w", r.Kind, errWire)
		}
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

// appendSettings appends a message per setting, sorted by key.
func appendSettings(b []byte, num protowire.Number, settings map[string]string) []byte {
	for _, k := range slices.Sorted(maps.Keys(settings)) {
		m := appendBytes(nil, settingKey, []byte(k))
		m = appendBytes(m, settingValue, []byte(settings[k]))
		b = appendBytes(b, num, m)
	}
	return b
}

func decodeSetting(into *map[string]string, b []byte) error {
	var k, v string
	err := fields(b, settingFields, func(num protowire.Number, _ uint64, s []byte) error {
		switch num {
		case settingKey:
			k = string(s)
		case settingValue:
			v = string(s)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if *into == nil {
		*into = map[string]string{}
	}
	(*into)[k] = v
	return nil
}

// schema lists the fields that a message may have: the last number, and as bits which of them hold
// varints; the others hold bytes.
type schema struct {
	last    protowire.Number
	varints uint32
}

func schemaOf(last protowire.Number, varints ...protowire.Number) schema {
	s := schema{last: last}
	for _, num := range varints {
		s.varints |= 1 << num
	}
	return s
}

var (
	recordFields  = schemaOf(recWithin, recKind, recPartitions, recPartition, recOffset, recTime, recLevel, recWithin)
	settingFields = schemaOf(settingValue)
)

// fields calls f for each field of a message with its varint or bytes value. A field that the
// schema does not have is an error, because a newer version wrote it; a field of another type is
// malformed.
func fields(b []byte, known schema, f func(num protowire.Number, v uint64, s []byte) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errWire
		}
		if num > known.last {
			return fmt.Errorf("field %d: written by a newer version", num)
		}
		if (typ == protowire.VarintType) != (known.varints>>num&1 != 0) {
			return fmt.Errorf("field %d: %w", num, errWire)
		}
		b = b[n:]
		var v uint64
		var s []byte
		switch typ {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			s, n = protowire.ConsumeBytes(b)
		default:
			return errWire
		}
		if n < 0 {
			return errWire
		}
		if err := f(num, v, s); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// uint32Of converts v, or fails if it does not fit.
func uint32Of(v uint64) (uint32, error) {
	if v > math.MaxUint32 {
		return 0, fmt.Errorf("%d does not fit into 32 bits: %w", v, errWire)
	}
	return uint32(v), nil
}

func copyID(id *record.ID, s []byte) error {
	if len(s) != len(id) {
		return fmt.Errorf("id of %d bytes: %w", len(s), errWire)
	}
	copy(id[:], s)
	return nil
}

func appendVarint(b []byte, num protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), v)
}

func appendBytes(b []byte, num protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), v)
}
