package riemann

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// The builders of messages. A part is the encoding of a field.

func str(num protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, num, protowire.BytesType), s)
}

func sub(num protowire.Number, parts ...[]byte) []byte { return str(num, string(join(parts...))) }

func varint(num protowire.Number, n int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, num, protowire.VarintType), uint64(n))
}

func float(num protowire.Number, f float32) []byte {
	return protowire.AppendFixed32(protowire.AppendTag(nil, num, protowire.Fixed32Type), math.Float32bits(f))
}

func double(num protowire.Number, f float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(nil, num, protowire.Fixed64Type), math.Float64bits(f))
}

func sint(num protowire.Number, n int64) []byte {
	return varint(num, int64(protowire.EncodeZigZag(n)))
}

func attr(key, value string) []byte {
	return sub(fieldAttributes, str(fieldKey, key), str(fieldValue, value))
}

func join(parts ...[]byte) (b []byte) {
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

func ev(parts ...[]byte) []byte { return sub(fieldEvents, parts...) }

// named is an event of a service of a host.
func named(host, service string, more ...[]byte) []byte {
	return ev(append([][]byte{str(fieldHost, host), str(fieldService, service)}, more...)...)
}
