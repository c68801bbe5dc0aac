package state

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sebbroker/seb/record"
)

// PartitionsMax is the most partitions a topic may have.
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
	settingKey    = 1
	settingValue  = 2
)

// EncodeRecords appends the records as length-delimited protobuf messages. Equal records give equal bytes.
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
	}{{recPartition, uint64(r.Partition)}, {recOffset, uint64(r.Offset)}, {recTime, uint64(r.Time)}} {
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
	return b
}

// DecodeRecords parses what EncodeRecords made. A kind or field it does not know is an error: a newer version wrote it,
// and skipping it would give another state (rule R12).
func DecodeRecords(b []byte) ([]Record, error) {
	var recs []Record
	for len(b) > 0 {
		m, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return nil, fmt.Errorf("record %d: %w", len(recs), errWire)
		}
		r, err := decodeRecord(m)
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
	err := fields(b, func(num protowire.Number, v uint64, s []byte) error {
		switch num {
		case recKind:
			r.Kind = RecordKind(v)
			if v < uint64(TopicCreate) || v > uint64(CompactionDone) {
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
			r.Partition = uint32(v)
		case recOffset:
			r.Offset = int64(v)
		case recMetadata:
			r.Metadata = string(s)
		case recTime:
			r.Time = int64(v)
		case recProducer:
			return decodeProducerBatch(&r.Producer, s)
		case recPack:
			r.Pack = &PackContent{}
			return decodePack(r.Pack, s)
		case recClean:
			return decodeCompaction(&r.Clean, s)
		default:
			return fmt.Errorf("field %d: written by a newer version", num)
		}
		return nil
	})
	if err == nil && r.Kind == 0 {
		err = fmt.Errorf("no kind: %w", errWire)
	}
	return r, err
}

// appendSettings adds a message per setting, by key.
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
	err := fields(b, func(num protowire.Number, _ uint64, s []byte) error {
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

// fields calls f for each field of a message with its varint or bytes value. Other wire types are malformed.
func fields(b []byte, f func(num protowire.Number, v uint64, s []byte) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errWire
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
