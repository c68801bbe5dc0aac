// The payload of a message: run, producer, sequence number, intended time and time of sending, with
// a checksum over everything.

package workload

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Sizes is the distribution of message sizes, including the header.
type Sizes struct {
	parts []sizePart
	total int // of the weights
}

// sizePart is a uniform distribution of sizes from min to max bytes.
type sizePart struct{ min, max, weight int }

// FixedSize returns the distribution of a single size.
func FixedSize(bytes int) Sizes {
	return Sizes{parts: []sizePart{{bytes, bytes, 1}}, total: 1}
}

// sizePartsMax limits the cost of drawing a size.
const sizePartsMax = 64

// weightMax is the highest weight of a part.
const weightMax = 1_000_000

// ParseSizes parses a size (1KiB), a range (256B..4KiB), or several of them with weights
// (256B:90,1MiB:10).
func ParseSizes(s string) (Sizes, error) {
	var z Sizes
	list := strings.Split(s, ",")
	if len(list) > sizePartsMax {
		return Sizes{}, fmt.Errorf("size %q: has %d parts, the limit is %d", s, len(list), sizePartsMax)
	}
	for _, part := range list {
		size, weight, weighted := strings.Cut(part, ":")
		low, high, ranged := strings.Cut(size, "..")
		if !ranged {
			high = low
		}
		p := sizePart{weight: 1}
		var err error
		if p.min, err = parseBytes(low); err != nil {
			return Sizes{}, fmt.Errorf("size %q: %w", s, err)
		}
		if p.max, err = parseBytes(high); err != nil {
			return Sizes{}, fmt.Errorf("size %q: %w", s, err)
		}
		if weighted {
			if p.weight, err = strconv.Atoi(weight); err != nil || p.weight < 1 || p.weight > weightMax {
				return Sizes{}, fmt.Errorf("size %q: weight %q: want 1 to %d", s, weight, weightMax)
			}
		}
		if p.min > p.max {
			return Sizes{}, fmt.Errorf("size %q: %s is more than %s", s, low, high)
		}
		z.parts = append(z.parts, p)
		z.total += p.weight
	}
	return z, nil
}

// units are the units of sizes, the longest names first.
var units = []struct {
	name  string
	bytes int
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"KB", 1000}, {"MB", 1_000_000}, {"B", 1}, {"", 1}}

// SizeMax is the largest message size.
const SizeMax = 64 << 20

func parseBytes(s string) (int, error) {
	s = strings.TrimSpace(s)
	for _, u := range units {
		number, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(number))
		if err != nil || n < 1 || n > SizeMax/u.bytes {
			break
		}
		return n * u.bytes, nil
	}
	return 0, fmt.Errorf("%q: want 1 to %d bytes with B, KB, KiB, MB or MiB", s, SizeMax)
}

func formatBytes(n int) string {
	for _, u := range []struct {
		name  string
		bytes int
	}{{"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n%u.bytes == 0 {
			return strconv.Itoa(n/u.bytes) + u.name
		}
	}
	return strconv.Itoa(n) + "B"
}

// String returns the sizes in the form of ParseSizes.
func (z Sizes) String() string {
	var list []string
	for _, p := range z.parts {
		s := formatBytes(p.min)
		if p.max != p.min {
			s += ".." + formatBytes(p.max)
		}
		if len(z.parts) > 1 {
			s += ":" + strconv.Itoa(p.weight)
		}
		list = append(list, s)
	}
	return strings.Join(list, ",")
}

// MarshalText implements encoding.TextMarshaler.
func (z Sizes) MarshalText() ([]byte, error) { return []byte(z.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler with ParseSizes.
func (z *Sizes) UnmarshalText(text []byte) error {
	sizes, err := ParseSizes(string(text))
	if err == nil {
		*z = sizes
	}
	return err
}

// Draw returns a random message size. It uses no random number if there is only one size.
func (z *Sizes) Draw(rng *rand.Rand) int {
	p := z.parts[0]
	if len(z.parts) > 1 {
		n := rng.IntN(z.total)
		for i := 0; n >= 0; i++ {
			p = z.parts[i]
			n -= p.weight
		}
	}
	if p.min == p.max {
		return p.min
	}
	return p.min + rng.IntN(p.max-p.min+1)
}

// Max returns the largest size in bytes.
func (z Sizes) Max() int {
	n := 0
	for _, p := range z.parts {
		n = max(n, p.max)
	}
	return n
}

// Min returns the smallest size in bytes; 0 if there are none.
func (z Sizes) Min() int {
	if len(z.parts) == 0 {
		return 0
	}
	n := z.parts[0].min
	for _, p := range z.parts {
		n = min(n, p.min)
	}
	return n
}

// Mean returns the mean size in bytes.
func (z Sizes) Mean() float64 {
	var sum float64
	for _, p := range z.parts {
		sum += float64(p.min+p.max) / 2 * float64(p.weight)
	}
	return sum / float64(max(z.total, 1))
}

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
