package workload

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"io"
	"math/bits"
)

// SequenceSet is a bitmap of sequence numbers up to the highest: 1.25 MB for ten million. It is not
// for concurrent use.
type SequenceSet struct {
	words []uint64
	n     uint64
}

// Add adds a number and reports whether it was missing. The caller must limit seq, because memory
// grows with it.
func (s *SequenceSet) Add(seq uint64) bool {
	i, bit := seq/64, uint64(1)<<(seq%64)
	if i >= uint64(len(s.words)) {
		s.words = append(s.words, make([]uint64, i+1-uint64(len(s.words)))...)
	}
	if s.words[i]&bit != 0 {
		return false
	}
	s.words[i] |= bit
	s.n++
	return true
}

// Has reports whether a number is in the set.
func (s *SequenceSet) Has(seq uint64) bool {
	i := seq / 64
	return i < uint64(len(s.words)) && s.words[i]&(1<<(seq%64)) != 0
}

// Len returns the number of elements.
func (s *SequenceSet) Len() uint64 { return s.n }

// Without returns the count of numbers in s that are not in other.
func (s *SequenceSet) Without(other *SequenceSet) uint64 {
	var n int
	for i, w := range s.words {
		if i < len(other.words) {
			w &^= other.words[i]
		}
		n += bits.OnesCount64(w)
	}
	return uint64(n)
}

// Join adds all numbers of other, and returns the count of those that s already had.
func (s *SequenceSet) Join(other *SequenceSet) (common uint64) {
	if n := len(other.words); n > len(s.words) {
		s.words = append(s.words, make([]uint64, n-len(s.words))...)
	}
	for i, w := range other.words {
		common += uint64(bits.OnesCount64(s.words[i] & w))
		s.words[i] |= w
	}
	s.n += other.n - common
	return common
}

// Pack returns the compressed set. A set with few gaps is small.
func (s *SequenceSet) Pack() []byte {
	var out bytes.Buffer
	z, err := flate.NewWriter(&out, flate.BestSpeed)
	if err == nil {
		err = binary.Write(z, binary.LittleEndian, s.words)
	}
	if err = errors.Join(err, z.Close()); err != nil {
		panic("pack a set: " + err.Error()) // the level is valid, and writes to memory succeed
	}
	return out.Bytes()
}

// ErrSequenceSet means that the bytes are not a packed set below the limit.
var ErrSequenceSet = errors.New("not a set of sequence numbers, or one beyond its limit")

// UnpackSequenceSet decodes the output of Pack. It uses no more memory than a set of numbers below
// limit. The error is ErrSequenceSet if a number is not below limit.
func UnpackSequenceSet(p []byte, limit uint64) (*SequenceSet, error) {
	room := int64(limit/64+1) * 8
	raw, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(p)), room+1))
	if err != nil || int64(len(raw)) > room || len(raw)%8 != 0 {
		return nil, ErrSequenceSet
	}
	s := &SequenceSet{words: make([]uint64, len(raw)/8)}
	for i := range s.words {
		s.words[i] = binary.LittleEndian.Uint64(raw[8*i:])
		s.n += uint64(bits.OnesCount64(s.words[i]))
	}
	return s, nil
}

// Verdict is a Tracker's classification of an arriving message.
type Verdict uint8

// The verdicts.
const (
	InOrder   Verdict = iota // the first time, and before all later messages of its producer
	Reordered                // the first time, after a later message of its producer
	Duplicate                // not the first time
)

// Tracker classifies the messages of one producer that one consumer, or several sharing consumers,
// receive. It is not for concurrent use.
type Tracker struct {
	seen SequenceSet
	next uint64 // one above the highest number that arrived
}

// Saw classifies a message that arrived. The caller must check that seq was sent.
func (t *Tracker) Saw(seq uint64) Verdict {
	if !t.seen.Add(seq) {
		return Duplicate
	}
	if seq < t.next {
		return Reordered
	}
	t.next = seq + 1
	return InOrder
}

// Seen returns the set of arrived numbers. The tracker owns it.
func (t *Tracker) Seen() *SequenceSet { return &t.seen }
