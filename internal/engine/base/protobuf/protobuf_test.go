package protobuf_test

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sebbroker/seb/internal/engine/base/protobuf"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

type point struct {
	X uint32
	Y int64
}

// row lists X as it is and Y as the difference to the point before.
func row(prev, p *point, c *protobuf.Codec) {
	if prev == nil {
		prev = &point{}
	}
	protobuf.Varint(c, &p.X)
	protobuf.Delta(c, &p.Y, prev.Y)
}

type message struct {
	Small  uint8
	Signed int64
	On     bool
	Text   string
	Texts  []string
	Bytes  []byte
	ID     [4]byte
	Inner  *message
	List   []message
	Points []point
	One    point
}

func (m *message) fields(c *protobuf.Codec) {
	protobuf.Int(c, 1, "small", &m.Small)
	protobuf.Int(c, 2, "signed", &m.Signed)
	c.Bool(3, "on", &m.On)
	c.String(4, "text", &m.Text)
	c.Strings(5, "texts", &m.Texts)
	c.Bytes(6, "bytes", &m.Bytes)
	c.Fixed(7, "id", m.ID[:])
	protobuf.Optional(c, 8, "inner", &m.Inner, (*message).fields)
	protobuf.Messages(c, 9, "list", &m.List, (*message).fields)
	protobuf.Rows(c, 10, "points", &m.Points, row)
	if c.Decoding() || m.One != (point{}) {
		protobuf.Row(c, 11, "one", &m.One, func(p *point, c *protobuf.Codec) { row(nil, p, c) })
	}
}

func encode(m *message) []byte { return protobuf.Append(nil, m, (*message).fields) }

func decode(b []byte) (m message, err error) {
	err = protobuf.Decode(b, &m, (*message).fields)
	return m, err
}

func full() message {
	return message{
		Small: 255, Signed: -1, On: true, Text: strings.Repeat("t", 200), Texts: []string{"a", "", "b"}, Bytes: []byte{0, 1}, ID: [4]byte{3: 9},
		Inner: &message{Inner: &message{Text: strings.Repeat("long", 40)}}, List: []message{{}, {Small: 1}, {Text: strings.Repeat("x", 20_000)}},
		Points: []point{{1, math.MinInt64}, {math.MaxUint32, math.MaxInt64}, {0, 0}}, One: point{300, 5},
	}
}

func TestAMessageIsDecodedAsItWasEncoded(t *testing.T) {
	for _, m := range []message{{}, full()} {
		b := encode(&m)
		if got := must.Get(decode(b))(t); !reflect.DeepEqual(got, m) {
			t.Errorf("%+v became %+v", m, got)
		}
		list := []message{m, {Small: 2}, m}
		delimited := protobuf.AppendDelimited(nil, list, (*message).fields)
		if got := must.Get(protobuf.DecodeDelimited(delimited, (*message).fields))(t); !reflect.DeepEqual(got, list) {
			t.Errorf("%+v became %+v", list, got)
		}
		if len(b) > 0 {
			check.Error(t, check.Err(decode(b[:len(b)-1])), "a message without its last byte")
		}
	}
	if b := encode(&message{}); len(b) > 0 {
		t.Errorf("zeros are written: %x", b)
	}
}

// TestFieldsInAnotherOrder: the last value counts, and lists go on.
func TestFieldsInAnotherOrder(t *testing.T) {
	m := full()
	b := encode(&message{Small: 1, Texts: m.Texts[:1], Text: "lost"})
	reversed := append(encode(&message{One: m.One, Points: m.Points}), encode(&message{Texts: []string{"", "b"}, Text: m.Text})...)
	got := must.Get(decode(append(append(b, reversed...), encode(&message{Small: 7})...)))(t)
	if want := (message{Small: 7, Text: m.Text, Texts: m.Texts, Points: m.Points, One: m.One}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestErrorsNameTheField(t *testing.T) {
	bytes := func(num protowire.Number, v ...byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), v)
	}
	for want, b := range map[string][]byte{
		"small: 256 is out of range":                  {1 << 3, 0x80, 2},
		"small: wire type 2, want 0":                  bytes(1),
		"text: wire type 0, want 2":                   {4 << 3, 0},
		"text: unexpected EOF":                        {4<<3 | 2, 5, 1},
		"id: 3 bytes, want 4":                         bytes(7, 1, 2, 3),
		"inner: list: small: 256 is out of range":     bytes(8, bytes(9, 1<<3, 0x80, 2)...),
		"points: number: 4294967296 is out of range":  bytes(10, 0x80, 0x80, 0x80, 0x80, 0x10, 0),
		"points: number: unexpected EOF":              bytes(10, 1, 1, 1),
		"one: 1 bytes too many":                       bytes(11, 1, 1, 1),
		"field 12: written by a newer version":        bytes(12),
		"inner: field 99: written by a newer version": bytes(8, 0x98, 6, 0),
		"tag of a field: ":                            {0},
		"list: tag of a field: ":                      bytes(9, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
	} {
		check.ErrorContains(t, check.Err(decode(b)), want)
	}
}

// TestAnEncoderAllocatesNothing: buffers belong to the caller, and nested messages have none.
func TestAnEncoderAllocatesNothing(t *testing.T) {
	m := full()
	buf := make([]byte, 0, 64<<10)
	if n := testing.AllocsPerRun(100, func() { protobuf.Append(buf, &m, (*message).fields) }); n > 0.5 {
		t.Errorf("%v allocations", n)
	}
}
