package differential

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/recordtest"
)

// Positions in a batch of magic 2.
const (
	atLength      = 8
	atEpoch       = 12
	atMagic       = 16
	atCRC         = 17
	atAttributes  = 21
	atLastDelta   = 23
	atFirstTime   = 27
	atMaxTime     = 35
	atProducer    = 43
	atProdEpoch   = 51
	atSequence    = 53
	atCount       = 57
	batchHead     = 61
	lengthIsAfter = 12

	attrCodec      = 7
	attrAppendTime = 8
	attrControl    = 32
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal recomputes the checksum of a batch.
func seal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[atCRC:], crc32.Checksum(b[atAttributes:], castagnoli))
	return b
}

// batches flattens batches in an answer to Fetch: heads, and records if they are uncompressed. It
// verifies checksums but does not compare them, because producer ids and append times differ. It
// ignores an incomplete last batch, which Kafka may send and clients ignore.
func (f *flattener) batches(path string, b []byte) {
	n := 0
	for len(b) >= batchHead {
		size := int(binary.BigEndian.Uint32(b[atLength:])) + lengthIsAfter
		if size < batchHead || size > len(b) {
			break
		}
		base := int64(binary.BigEndian.Uint64(b))
		f.batch(path+"["+strconv.FormatInt(base, 10)+"]", b[:size])
		b = b[size:]
		n++
	}
	f.out[path+".len"] = strconv.Itoa(n)
}

func (f *flattener) batch(path string, b []byte) {
	f.out[path] = here
	i16 := func(at int) int64 { return int64(int16(binary.BigEndian.Uint16(b[at:]))) }
	i32 := func(at int) int64 { return int64(int32(binary.BigEndian.Uint32(b[at:]))) }
	i64 := func(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }
	set := func(name, value string) { f.out[path+"."+name] = value }
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	attributes := i16(atAttributes)
	set("PartitionLeaderEpoch", f.epoch(i32(atEpoch)))
	set("Magic", number(int64(b[atMagic])))
	set("CRC", strconv.FormatBool(crc32.Checksum(b[atAttributes:], castagnoli) == binary.BigEndian.Uint32(b[atCRC:])))
	set("Attributes", number(attributes))
	set("LastOffsetDelta", number(i32(atLastDelta)))
	set("FirstTimestamp", number(i64(atFirstTime)))
	set("MaxTimestamp", number(i64(atMaxTime)))
	if attributes&attrAppendTime != 0 {
		set("MaxTimestamp", "now")
	}
	set("Producer", f.side.symbols.of("producer", number(i64(atProducer))))
	set("ProducerEpoch", f.side.pair(number(i64(atProducer)), i16(atProdEpoch)))
	set("Sequence", number(i32(atSequence)))
	set("Count", number(i32(atCount)))
	if attributes&attrControl != 0 {
		f.marker(path, b)
		return
	}
	data, err := kgo.DefaultDecompressor().Decompress(b[batchHead:], kgo.CompressionCodecType(attributes&attrCodec))
	if err != nil {
		set("Records", fmt.Sprintf("broken: %v", err))
		return
	}
	set("Records", hex.EncodeToString(data))
}

// content is a batch of a produce. The generator chooses it, and each side encodes it with its own
// producer id.
type content struct {
	records         []record.Record
	codec           record.Compression
	producer        int // -1: none
	unknownProducer bool
	epoch           int16 // added to the producer's epoch
	sequence        int32
	spoil           func(b []byte) []byte // applied after encoding; nil: none
	alone           bool                  // it must be the only batch of its request
}

// encode encodes the batch for a side.
func (c *content) encode(s *side) []byte {
	o := record.EncodeOptions{Compression: c.codec}
	if c.producer >= 0 {
		p := s.producers[c.producer]
		o.Producer = &record.Producer{ID: p.id, Epoch: p.epoch + c.epoch, Sequence: c.sequence}
		if c.unknownProducer {
			const unknown = 1 << 50
			o.Producer.ID = unknown
		}
	}
	b, _ := recordtest.Encode(c.records, o)
	if c.spoil != nil {
		b = c.spoil(b)
	}
	return b
}
