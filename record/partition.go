package record

import "encoding/binary"

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
