// Package record defines the bytes that Seb stores: records, Kafka RecordBatch v2 batches, and the
// files that contain them.
//
// A batch (Batch) is the unit of storage. A batch of a Kafka client is checked (Check) and stored
// unchanged. Other batches are made here: by Append from records, or by a Frame directly from a
// socket. A Reader reads stored batches. An object of version 2 (Head, EncodeObject, DecodeObject)
// contains batches of many partitions. FORMAT.md draws every layout.
//
// Only Frame.ReadFrom does I/O. Functions keep no buffer of the caller unless their
// comment says so. They may be called concurrently on different buffers; use a Reader or Frame from
// one goroutine.
package record

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// Header is one header of a record. A nil Value is null, which differs from an empty one.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record. A nil Key or Value is null, which differs from an empty one.
type Record struct {
	// Offset is the position in the partition. Append ignores it, because a batch numbers its
	// records.
	Offset int64
	// Timestamp is in milliseconds since the Unix epoch.
	Timestamp int64
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Summary describes concatenated batches of one partition.
type Summary struct {
	Batches int
	Records int
	// Span is the number of offsets of the batches. It equals Records, or is larger after
	// compaction.
	Span int64
	// MinTimestamp and MaxTimestamp are in milliseconds. Check, Append and Frame set them from the
	// records. Verify does not parse records: it sets the smallest base timestamp and the largest
	// max timestamp of the batch headers.
	MinTimestamp, MaxTimestamp int64
	// ProducerID, ProducerEpoch and BaseSequence are those of the first batch, all -1 without an
	// idempotent producer. Check makes sure that all batches have the same producer and consecutive
	// sequences.
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32
	// Transactional: the batches are part of a transaction.
	Transactional bool
}

// KeyRecord is a record of a key. Unlike the records of a read, the caller may keep it.
type KeyRecord struct {
	Partition int32
	Record
}

// KeyEntry is a key with the position of its newest record. The caller may keep it.
type KeyEntry struct {
	Key       []byte
	Partition int32
	Offset    int64
	Timestamp int64 // ms since 1970
}

// ID is a random number of 16 bytes: a cluster ID, a topic ID or the nonce of an epoch. The zero ID
// means none.
type ID [16]byte

// NewID returns a random ID from the system's generator. It is never zero.
func NewID() ID {
	for {
		var id ID
		rand.Read(id[:]) // never returns an error: it ends the process instead
		if id != (ID{}) {
			return id
		}
	}
}

// String returns 32 lower-case hex digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// IsZero reports whether id is the zero ID, which NewID never returns.
func (id ID) IsZero() bool { return id == ID{} }

// ParseID parses the text of String: exactly 32 lower-case hex digits.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 2*len(id) {
		return ID{}, fmt.Errorf("parse id: %d characters, want %d", len(s), 2*len(id))
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return ID{}, fmt.Errorf("parse id: %w", err)
	}
	if id.String() != s {
		return ID{}, fmt.Errorf("parse id: upper-case digits")
	}
	return id, nil
}

// murmur2 is the hash of the Java client's default partitioner: 32-bit MurmurHash2 with its seed.
func murmur2(key []byte) uint32 {
	const (
		seed = 0x9747b28c
		m    = 0x5bd1e995
		r    = 24
	)
	h := uint32(seed) ^ uint32(len(key))
	for ; len(key) >= 4; key = key[4:] {
		k := binary.LittleEndian.Uint32(key) * m
		k ^= k >> r
		h = h*m ^ k*m
	}
	switch len(key) {
	case 3:
		h ^= uint32(key[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(key[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(key[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}

// PartitionOf returns the partition of a record if the request has none. A key selects the
// partition by its hash, as in Kafka's Java client; a record without a key (nil) goes to partition
// 0.
func PartitionOf(key []byte, partitions int) int32 {
	if key == nil || partitions <= 1 {
		return 0
	}
	return int32(murmur2(key)&0x7fffffff) % int32(partitions)
}
