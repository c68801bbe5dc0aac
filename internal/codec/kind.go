// Package codec compresses and decompresses the records of batches, in all codecs of Kafka. What decompressing takes is bounded, in each
// batch by what the caller allows and in the process by SetMemory, whatever the data claims.
package codec

// Kind is a codec, as batches number it.
type Kind uint8

// The codecs of Kafka.
const (
	None Kind = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

// String returns the codec's name as topic settings write it.
func (k Kind) String() string {
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

var names = [...]string{None: "none", Gzip: "gzip", Snappy: "snappy", LZ4: "lz4", Zstd: "zstd"}
