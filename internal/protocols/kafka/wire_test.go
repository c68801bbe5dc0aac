package kafka_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
	"github.com/sebbroker/seb/test/must"
)

// shape has every kind of field.
var shape = wire.Shape{Flexible: 1, Fields: []wire.Field{
	wire.Int16, wire.Text, wire.Bytes, wire.List(wire.Int32), wire.Array(wire.Int8, wire.Text), wire.Int64.Since(1), wire.Bool.Until(0),
	wire.Optional(wire.Int8), wire.Tagged(1, wire.Int32),
}}

// TestSkim: a complete request passes, with the bytes after it as rest. A truncated request, or one
// with a count above its bytes, is refused.
func TestSkim(t *testing.T) {
	for name, c := range map[string]struct {
		version int16
		body    []byte
	}{
		"plain":       {0, []byte{0, 1, 0, 1, 'a', 0, 0, 0, 1, 'b', 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 1, 7, 0, 1, 'c', 1, 0, 5}},
		"plain nulls": {0, []byte{0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1, 0xff}},
		"flexible":    {1, []byte{0, 1, 2, 'a', 2, 'b', 2, 0, 0, 0, 9, 2, 7, 2, 'c', 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 5, 0, 2, 1, 5, 0, 0, 0, 3, 0, 9, 2, 'x', 'y'}},
		"nulls":       {1, []byte{0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0xff, 0}},
	} {
		cost, rest, err := shape.Skim(c.version, append(c.body[:len(c.body):len(c.body)], 'r', 'e'))
		if err != nil || string(rest) != "re" || cost <= 0 {
			t.Errorf("%s: cost %d, rest %q, %v", name, cost, rest, err)
		}
		for i := range c.body {
			if _, _, err := shape.Skim(c.version, c.body[:i]); !errors.Is(err, wire.ErrMalformed) {
				t.Errorf("%s: the first %d of %d bytes pass: %v", name, i, len(c.body), err)
			}
		}
	}
	for name, body := range map[string][]byte{
		"a list of 2^31-1":       {0, 1, 0, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff},
		"bytes of 2^31-1":        {0, 1, 0, 0, 0x7f, 0xff, 0xff, 0xff, 1, 2, 3},
		"a text longer than all": {0, 1, 0x7f, 0xff, 'a'},
	} {
		if _, _, err := shape.Skim(0, body); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	good := []byte{0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0xff}
	for name, tags := range map[string][]byte{
		"2^32-1 tags":         {0xff, 0xff, 0xff, 0xff, 0x0f},
		"a number too long":   {0xff, 0xff, 0xff, 0xff, 0x1f},
		"a tag beyond":        {1, 9, 5, 0},
		"tags inside a tag":   {1, 1, 6, 0, 0, 0, 3, 0xff, 0x7f},
		"a tag that is short": {1, 1, 2, 0, 0},
	} {
		if _, _, err := shape.Skim(1, append(good[:len(good):len(good)], tags...)); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHead: heads of both kinds, with a client ID or without. Truncated heads are refused.
func TestHead(t *testing.T) {
	fixed := []byte{0, 3, 0, 9, 0, 0, 0, 7}
	for name, c := range map[string]struct {
		more     []byte
		flexible bool
		client   string
	}{
		"no name":        {[]byte{0xff, 0xff}, false, ""},
		"an empty name":  {[]byte{0, 0}, false, ""},
		"a name":         {[]byte{0, 2, 'm', 'e'}, false, "me"},
		"flexible":       {[]byte{0, 2, 'm', 'e', 0}, true, "me"},
		"flexible, tags": {[]byte{0, 2, 'm', 'e', 1, 5, 1, 9}, true, "me"},
	} {
		b := append(fixed[:len(fixed):len(fixed)], c.more...)
		h, rest, err := wire.ParseHead(append(b[:len(b):len(b)], 'x'), c.flexible)
		if err != nil || string(rest) != "x" || h.Key != 3 || h.Version != 9 || h.Correlation != 7 || string(h.Client) != c.client {
			t.Errorf("%s: %+v %q %v", name, h, rest, err)
		}
		for i := range b {
			if _, _, err := wire.ParseHead(b[:i], c.flexible); !errors.Is(err, wire.ErrMalformed) {
				t.Errorf("%s: the first %d of %d bytes pass", name, i, len(b))
			}
		}
	}
}

// FuzzParseHead: head and rest together are all bytes, and the client ID has the encoded length.
func FuzzParseHead(f *testing.F) {
	f.Add([]byte{0, 3, 0, 9, 0, 0, 0, 1, 0, 1, 'c', 0, 7}, true)
	f.Add([]byte{0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 7}, false)
	f.Add([]byte{0, 3, 0, 9, 0, 0, 0, 1, 0, 0, 1, 5, 2, 'a', 'b', 7}, true)
	f.Fuzz(func(t *testing.T, b []byte, flexible bool) {
		h, rest, err := wire.ParseHead(b, flexible)
		if err != nil {
			return
		}
		if h.Key != int16(binary.BigEndian.Uint16(b)) || h.Correlation != int32(binary.BigEndian.Uint32(b[4:])) || !bytes.HasSuffix(b, rest) {
			t.Fatalf("%x: %+v, rest %x", b, h, rest)
		}
		n := max(0, int(int16(binary.BigEndian.Uint16(b[8:]))))
		must.Equalf(t, string(h.Client), string(b[10:10+n]), "%x: client %q", b, h.Client)
		if used := len(b) - len(rest); !flexible && used != 10+n || flexible && used < 11+n {
			t.Fatalf("%x: the head has %d bytes", b, used)
		}
	})
}
