// Package codec compresses and decompresses the records of batches with the codecs of Kafka. The
// caller bounds the output of each decompression and SetMemory bounds the working memory of the
// process, so compressed data that claims large sizes cannot exhaust memory.
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
