// The payload of a message: run, producer, sequence number, intended time and time of sending, with
// a checksum over everything.

package workload

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
)

// The header, little-endian:
//
//	 0  magic        4 bytes, "SEBm"
//	 4  checksum     4 bytes, CRC-32C of the filler, then of the header from byte 8
//	 8  run          8 bytes
//	16  producer     4 bytes
//	20  length       4 bytes, of header and filler
//	24  sequence     8 bytes, from 0 for each producer
//	32  intended     8 bytes, nanoseconds from the start of the run, as the sender's clock has it
//	40  sent         8 bytes, as intended
//	48  filler
//
// The filler comes first in the checksum, so that it is computed once for a buffer that is sent
// many times.
const MessageHeaderBytes = 48

const magic = 0x6d424553 // "SEBm"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// MessageHeader is the decoded header of a message.
type MessageHeader struct {
	Run      uint64
	Producer uint32
	Sequence uint64
	Intended int64 // scheduled time, nanoseconds from the start of the run
	Sent     int64 // time of sending, as Intended
}

// The errors of DecodeMessage.
var (
	ErrShort    = errors.New("shorter than a header")
	ErrForeign  = errors.New("not a message of this bench")
	ErrLength   = errors.New("not as long as it says")
	ErrChecksum = errors.New("checksum does not match")
)

// MessageBuffer encodes one message at a time. It is not for concurrent use.
type MessageBuffer struct {
	bytes  []byte
	length int    // message length that sum belongs to
	sum    uint32 // checksum of the filler
}

// NewMessageBuffer returns a buffer for messages of up to size bytes, at least MessageHeaderBytes.
// The fraction compressible (0 to 1) of its filler repeats; the rest is random, from seed.
func NewMessageBuffer(size int, compressible float64, seed uint64) *MessageBuffer {
	b := &MessageBuffer{bytes: make([]byte, max(size, MessageHeaderBytes)), length: -1}
	fill(b.bytes[MessageHeaderBytes:], compressible, seed)
	binary.LittleEndian.PutUint32(b.bytes, magic)
	return b
}

// fillUnit is the length of the units that each hold the same compressible fraction, so that every
// part of a payload is equally compressible.
const fillUnit = 256

func fill(p []byte, compressible float64, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	var word [8]byte
	for len(p) > 0 {
		unit := p[:min(fillUnit, len(p))]
		p = p[len(unit):]
		same := int(float64(len(unit))*compressible + 0.5)
		for i := range unit[:same] {
			unit[i] = 'a'
		}
		for rest := unit[same:]; len(rest) > 0; {
			binary.LittleEndian.PutUint64(word[:], rng.Uint64())
			rest = rest[copy(rest, word[:]):]
		}
	}
}

// Prepare sets the length of the next message in bytes, including the header. Call it before
// reading the clock, because its cost grows with the length.
func (b *MessageBuffer) Prepare(length int) {
	if length != b.length {
		b.length = length
		b.sum = crc32.Checksum(b.bytes[MessageHeaderBytes:length], castagnoli)
	}
}

// Encode returns the message, valid until the next call. The caller must call Prepare first.
func (b *MessageBuffer) Encode(h MessageHeader) []byte {
	p := b.bytes[:b.length]
	binary.LittleEndian.PutUint64(p[8:], h.Run)
	binary.LittleEndian.PutUint32(p[16:], h.Producer)
	binary.LittleEndian.PutUint32(p[20:], uint32(b.length))
	binary.LittleEndian.PutUint64(p[24:], h.Sequence)
	binary.LittleEndian.PutUint64(p[32:], uint64(h.Intended))
	binary.LittleEndian.PutUint64(p[40:], uint64(h.Sent))
	binary.LittleEndian.PutUint32(p[4:], crc32.Update(b.sum, castagnoli, p[8:MessageHeaderBytes]))
	return p
}

// DecodeMessage checks a payload and returns its header. Its errors are ErrShort, ErrForeign,
// ErrLength and ErrChecksum.
func DecodeMessage(p []byte) (MessageHeader, error) {
	switch {
	case len(p) < MessageHeaderBytes:
		return MessageHeader{}, ErrShort
	case binary.LittleEndian.Uint32(p) != magic:
		return MessageHeader{}, ErrForeign
	case uint64(binary.LittleEndian.Uint32(p[20:])) != uint64(len(p)):
		return MessageHeader{}, ErrLength
	}
	sum := crc32.Update(crc32.Checksum(p[MessageHeaderBytes:], castagnoli), castagnoli, p[8:MessageHeaderBytes])
	if sum != binary.LittleEndian.Uint32(p[4:]) {
		return MessageHeader{}, ErrChecksum
	}
	return MessageHeader{
		Run:      binary.LittleEndian.Uint64(p[8:]),
		Producer: binary.LittleEndian.Uint32(p[16:]),
		Sequence: binary.LittleEndian.Uint64(p[24:]),
		Intended: int64(binary.LittleEndian.Uint64(p[32:])),
		Sent:     int64(binary.LittleEndian.Uint64(p[40:])),
	}, nil
}
