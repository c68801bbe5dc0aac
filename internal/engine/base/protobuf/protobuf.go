// Package protobuf encodes and decodes messages of protobuf whose fields are listed once. A function
// names the fields of a message in the order of their encoding, with pointers to their values:
//
//	func (p *Principal) fields(c *protobuf.Codec) {
//		c.String(1, "id", &p.ID)
//		protobuf.Int(c, 3, "created", &p.Created)
//		protobuf.Messages(c, 5, "secret", &p.Secrets, (*Secret).fields)
//		if c.Done() && p.ID == "" {
//			c.Fail(errors.New("no id"))
//		}
//	}
//
// Append calls it once, as the encoder. It reads the values and never writes them, so several
// goroutines may encode a message. Equal messages give equal bytes.
//
// Decode calls it until no field is left: one call takes all fields that come in this order. Other
// orders are valid too, and the last of several values of a field counts. An error names the field.
// The memory of a decoded message is bounded by its bytes, because no length is believed before as
// many bytes are there.
package protobuf

import (
	"fmt"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
)

// Codec is an encoder or a decoder of one message. It is valid until the function that received it
// returns.
type Codec struct {
	b        []byte // what is encoded, or to be decoded
	err      error
	decoding bool
	frame
}

// frame is the state of a message, without those around it.
type frame struct {
	at, end int              // in b, what follows the tag of the next field
	num     protowire.Number // the next field; 0: there is none
	typ     protowire.Type
	unknown protowire.Number
	seen    uint64 // the decoded fields below 64
	started bool
	taken   bool // a field is decoded since More
	zeros   bool
	skips   bool
}

// Encoder returns an encoder that appends to dst. Append is simpler, but makes *v escape to the heap.
func Encoder(dst []byte) *Codec { return &Codec{b: dst} }

// Decoder returns a decoder of b: while More, the caller lists the fields. Decode is simpler, but makes
// *v escape to the heap.
func Decoder(b []byte) *Codec { return &Codec{b: b, decoding: true, frame: frame{end: len(b)}} }

// Result returns what is encoded, or the error of the decoder.
func (c *Codec) Result() ([]byte, error) { return c.b, c.err }

// More reports whether the fields must be listed, again if the message has fields left.
func (c *Codec) More() bool {
	switch {
	case !c.started:
		c.started = true
		c.next()
	case c.num == 0: // at the end, or failed
		return false
	case !c.taken:
		c.skip()
	}
	c.taken = false
	return c.err == nil
}

// codecs has Codecs that escape because they are passed to functions that the compiler does not know.
var codecs = sync.Pool{New: func() any { return new(Codec) }}

func pooled(like Codec) *Codec {
	c := codecs.Get().(*Codec)
	*c = like
	return c
}

func (c *Codec) release() (b []byte, err error) {
	b, err = c.b, c.err
	c.b, c.err = nil, nil
	codecs.Put(c)
	return b, err
}

// Append appends a message to dst.
func Append[T any](dst []byte, v *T, fields func(*T, *Codec)) []byte {
	c := pooled(Codec{b: dst})
	fields(v, c)
	dst, _ = c.release()
	return dst
}

// AppendDelimited appends messages to dst, each after its length.
func AppendDelimited[T any](dst []byte, list []T, fields func(*T, *Codec)) []byte {
	c := pooled(Codec{b: dst})
	for i := range list {
		c.zeros = false
		start := c.begin()
		fields(&list[i], c)
		c.finish(start)
	}
	dst, _ = c.release()
	return dst
}

// Decode decodes a message into *v.
func Decode[T any](b []byte, v *T, fields func(*T, *Codec)) error {
	c := pooled(Codec{b: b, decoding: true, frame: frame{end: len(b)}})
	for c.More() {
		fields(v, c)
	}
	_, err := c.release()
	return err
}

// DecodeDelimited decodes the output of AppendDelimited. After an error, the last message of the
// list is the one that has it.
func DecodeDelimited[T any](b []byte, fields func(*T, *Codec)) (list []T, err error) {
	if len(b) > 0 {
		list = make([]T, 0, max(1, len(b)/32)) // most messages have 32 bytes or more
	}
	for len(b) > 0 && err == nil {
		var zero T
		list = append(list, zero)
		m, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return list, protowire.ParseError(n)
		}
		err = Decode(m, &list[len(list)-1], fields)
		b = b[n:]
	}
	return list, err
}

// rest returns what is left of the message after the current tag.
func (c *Codec) rest() []byte { return c.b[c.at:c.end] }

// next reads the tag of the next field.
func (c *Codec) next() {
	if c.num = 0; c.at == c.end {
		return
	}
	if b := c.b[c.at]; b >= 1<<3 && b < 1<<7 { // a tag of one byte
		c.num, c.typ = protowire.Number(b>>3), protowire.Type(b&7)
		c.at++
		return
	}
	num, typ, n := protowire.ConsumeTag(c.rest())
	if n < 0 {
		c.Fail(fmt.Errorf("tag of a field: %w", protowire.ParseError(n)))
		return
	}
	c.num, c.typ = num, typ
	c.at += n
}

// skip skips an unknown field.
func (c *Codec) skip() {
	if !c.skips {
		c.Fail(fmt.Errorf("field %d: written by a newer version", c.num))
		return
	}
	n := protowire.ConsumeFieldValue(c.num, c.typ, c.rest())
	if n < 0 {
		c.Fail(fmt.Errorf("field %d: %w", c.num, protowire.ParseError(n)))
		return
	}
	c.unknown = c.num
	c.at += n
	c.next()
}

// Decoding reports whether c decodes.
func (c *Codec) Decoding() bool { return c.decoding }

// At reports whether the next field to decode has a number.
func (c *Codec) At(num protowire.Number) bool { return c.num == num }

// Done reports whether all fields of the message are decoded. Its values may be checked then.
func (c *Codec) Done() bool { return c.decoding && c.num == 0 && c.err == nil }

// Has reports whether a field below 64 of the message is decoded.
func (c *Codec) Has(num protowire.Number) bool { return c.seen>>num&1 != 0 }

// Fail ends the decoding of the message with an error, unless that is nil or there was one before. It
// does nothing to an encoder.
func (c *Codec) Fail(err error) {
	if c.decoding && err != nil && c.err == nil {
		c.err, c.num, c.at = err, 0, c.end
	}
}

// KeepZeros makes the encoder write the following fields of the message also if they are zero. By
// default it omits those.
func (c *Codec) KeepZeros(keep bool) { c.zeros = keep }

// SkipUnknown makes the decoder skip the fields of the message that are not listed. By default they
// are an error.
func (c *Codec) SkipUnknown() { c.skips = true }

// Unknown returns the last field that was skipped; 0: none.
func (c *Codec) Unknown() protowire.Number { return c.unknown }

// begin leaves a byte for the length of what follows, and finish sets it.
func (c *Codec) begin() (start int) {
	c.b = append(c.b, 0)
	return len(c.b)
}

func (c *Codec) finish(start int) {
	n := len(c.b) - start
	if n < 1<<7 {
		c.b[start-1] = byte(n)
		return
	}
	var room [9]byte
	more := protowire.SizeVarint(uint64(n)) - 1
	c.b = append(c.b, room[:more]...)
	copy(c.b[start+more:], c.b[start:])
	protowire.AppendVarint(c.b[:start-1], uint64(n))
}

// taking skips n bytes, the value of the current field; less than 0 is an error of protowire.
func (c *Codec) taking(name string, n int) {
	if n < 0 {
		c.Fail(fmt.Errorf("%s: %w", name, protowire.ParseError(n)))
		return
	}
	c.at += n
	c.taken, c.seen = true, c.seen|1<<c.num
	c.next()
}

// typed reports whether the current field has a type.
func (c *Codec) typed(name string, want protowire.Type) bool {
	if c.typ != want {
		c.Fail(fmt.Errorf("%s: wire type %d, want %d", name, c.typ, want))
	}
	return c.err == nil
}

// varint returns the value of the current field.
func (c *Codec) varint(name string) (v uint64) {
	if !c.typed(name, protowire.VarintType) {
		return 0
	}
	n := 1
	if c.at < c.end && c.b[c.at] < 1<<7 {
		v = uint64(c.b[c.at])
	} else {
		v, n = protowire.ConsumeVarint(c.rest())
	}
	c.taking(name, n)
	return v
}

// span returns where in b the value of the current field is; nowhere after an error.
func (c *Codec) span(name string) (start, end int) {
	if !c.typed(name, protowire.BytesType) {
		return 0, 0
	}
	v, n := protowire.ConsumeBytes(c.rest())
	end = c.at + n
	if c.taking(name, n); c.err != nil {
		return 0, 0
	}
	return end - len(v), end
}

// bytes returns the value of the current field, which is part of the message.
func (c *Codec) bytes(name string) []byte {
	start, end := c.span(name)
	return c.b[start:end:end]
}
