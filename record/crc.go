package record

import (
	"hash/crc32"
	"sync"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CRC32C returns the Castagnoli checksum of b. All checksums of this package use it.
func CRC32C(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// CombineCRC32C returns the CRC-32C of A followed by B from the CRC-32C of each and the length of
// B. It takes about 100 ns for any length. lenB must not be negative.
func CombineCRC32C(a, b uint32, lenB int64) uint32 { return crcShift(a, lenB) ^ b }

// A checksum is a polynomial over GF(2) modulo P, lowest power in the highest bit. Appending n
// bytes multiplies it by x^(8n); the pre- and post-inversion of CRC-32C cancel out in
// CombineCRC32C.
const (
	crcPoly = 0x82f63b78 // P, reflected
	crcOne  = 1 << 31    // x^0
	crcX8   = 1 << 23    // x^8
)

// crcPowers returns t with t[k][v] = x^(8 * v * 256^k) mod P. The table has 8 KiB and is computed
// at the first use.
var crcPowers = sync.OnceValue(func() *[8][256]uint32 {
	var t [8][256]uint32
	step := uint32(crcX8)
	for k := range t {
		t[k][0] = crcOne
		for v := 1; v < 256; v++ {
			t[k][v] = crcMul(t[k][v-1], step)
		}
		step = crcMul(t[k][255], step)
	}
	return &t
})

// crcMul returns a*b mod P.
func crcMul(a, b uint32) uint32 {
	var p uint32
	for range 32 {
		p ^= b & -(a >> 31)
		a <<= 1
		b = b>>1 ^ crcPoly&-(b&1)
	}
	return p
}

// crcShift returns c * x^(8n) mod P.
func crcShift(c uint32, n int64) uint32 {
	t := crcPowers()
	for k := 0; n > 0; k++ {
		if v := n & 0xff; v != 0 {
			c = crcMul(c, t[k][v])
		}
		n >>= 8
	}
	return c
}

// crcUpdate extends the checksum c by b.
func crcUpdate(c uint32, b []byte) uint32 { return crc32.Update(c, castagnoli, b) }
