package protobuf

import (
	"bytes"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Integer is the type of a field of varints. A negative value has ten bytes.
type Integer interface {
	~uint8 | ~uint16 | ~uint32 | ~uint64 | ~int32 | ~int64
}

// Int is an integer. Decoding refuses one that the type cannot hold.
func Int[T Integer](c *Codec, num protowire.Number, name string, p *T) {
	if !c.decoding {
		if *p != 0 || c.zeros {
			c.b = protowire.AppendVarint(protowire.AppendTag(c.b, num, protowire.VarintType), uint64(*p))
		}
		return
	}
	if c.num == num {
		v := c.varint(name)
		if *p = T(v); uint64(*p) != v {
			c.outOfRange(name, v)
		}
	}
}

// Bool is a flag. Each value but 0 is true.
func (c *Codec) Bool(num protowire.Number, name string, p *bool) {
	v := bit(*p)
	if Int(c, num, name, &v); c.decoding {
		*p = v != 0
	}
}

func bit(b bool) (v uint64) {
	if b {
		v = 1
	}
	return v
}

// String is a text.
func (c *Codec) String(num protowire.Number, name string, p *string) {
	if !c.decoding {
		if *p != "" || c.zeros {
			c.b = protowire.AppendString(protowire.AppendTag(c.b, num, protowire.BytesType), *p)
		}
		return
	}
	if c.num == num {
		*p = string(c.bytes(name))
	}
}

// Strings is a repeated text.
func (c *Codec) Strings(num protowire.Number, name string, p *[]string) {
	if !c.decoding {
		for _, s := range *p {
			c.b = protowire.AppendString(protowire.AppendTag(c.b, num, protowire.BytesType), s)
		}
	}
	for c.num == num {
		*p = append(*p, string(c.bytes(name)))
	}
}

// Bytes is a byte string. A decoded one is a copy.
func (c *Codec) Bytes(num protowire.Number, name string, p *[]byte) {
	at := c.num == num
	if c.Alias(num, name, p); at {
		*p = slices.Clone(*p)
	}
}

// Alias is a byte string. A decoded one is part of the message.
func (c *Codec) Alias(num protowire.Number, name string, p *[]byte) {
	if !c.decoding {
		if len(*p) > 0 || c.zeros {
			c.b = protowire.AppendBytes(protowire.AppendTag(c.b, num, protowire.BytesType), *p)
		}
		return
	}
	if c.num == num {
		*p = c.bytes(name)
	}
}

// Fixed is a byte string of len(p) bytes, such as an ID. It is zero if all its bytes are.
func (c *Codec) Fixed(num protowire.Number, name string, p []byte) {
	if !c.decoding {
		if c.zeros || bytes.Count(p, []byte{0}) < len(p) {
			c.b = protowire.AppendBytes(protowire.AppendTag(c.b, num, protowire.BytesType), p)
		}
		return
	}
	if c.num == num {
		if v := c.bytes(name); copy(p, v) != len(v) || len(v) != len(p) {
			c.Fail(fmt.Errorf("%s: %d bytes, want %d", name, len(v), len(p)))
		}
	}
}

// Message is a message, which the encoder writes also if it is empty.
func Message[T any](c *Codec, num protowire.Number, name string, v *T, fields func(*T, *Codec)) {
	if !c.decoding {
		zeros, start := c.open(num)
		fields(v, c)
		c.close(zeros, start)
	} else if c.num == num {
		outer := c.enter(name)
		for c.More() {
			fields(v, c)
		}
		c.leave(&outer, name)
	}
}

// open begins a nested message or packed field, and close ends it.
func (c *Codec) open(num protowire.Number) (zeros bool, start int) {
	zeros, c.zeros = c.zeros, false
	c.b = protowire.AppendTag(c.b, num, protowire.BytesType)
	return zeros, c.begin()
}

func (c *Codec) close(zeros bool, start int) {
	c.finish(start)
	c.zeros = zeros
}

// enter makes c the decoder of the current field, and leave that of the message outside again.
func (c *Codec) enter(name string) (outer frame) {
	start, end := c.span(name)
	outer = c.frame
	c.frame = frame{at: start, end: end}
	return outer
}

func (c *Codec) leave(outer *frame, name string) {
	if c.frame = *outer; c.err != nil {
		c.err, c.num, c.at = fmt.Errorf("%s: %w", name, c.err), 0, c.end
	}
}

// Optional is a message that is present if *p is not nil.
func Optional[T any](c *Codec, num protowire.Number, name string, p **T, fields func(*T, *Codec)) {
	if c.decoding && c.num == num {
		*p = new(T)
	}
	if *p != nil {
		Message(c, num, name, *p, fields)
	}
}

// Messages is a repeated message.
func Messages[T any](c *Codec, num protowire.Number, name string, p *[]T, fields func(*T, *Codec)) {
	if !c.decoding {
		for i := range *p {
			Message(c, num, name, &(*p)[i], fields)
		}
		return
	}
	for c.num == num {
		var zero T
		*p = append(*p, zero)
		Message(c, num, name, &(*p)[len(*p)-1], fields)
	}
}

// Row is a field of packed varints, which row lists. The encoder always writes it.
func Row[T any](c *Codec, num protowire.Number, name string, v *T, row func(*T, *Codec)) {
	if !c.decoding {
		zeros, start := c.open(num)
		row(v, c)
		c.close(zeros, start)
	} else if c.num == num {
		outer := c.enter(name)
		if row(v, c); c.at < c.end {
			c.Fail(fmt.Errorf("%d bytes too many", c.end-c.at))
		}
		c.leave(&outer, name)
	}
}

// Rows is a field of packed varints with several elements. row lists the varints of one; prev is the
// element before it, nil for the first.
func Rows[T any](c *Codec, num protowire.Number, name string, p *[]T, row func(prev, v *T, c *Codec)) {
	if !c.decoding {
		if len(*p) == 0 && !c.zeros {
			return
		}
		zeros, start := c.open(num)
		var prev *T
		for i := range *p {
			v := &(*p)[i]
			row(prev, v, c)
			prev = v
		}
		c.close(zeros, start)
	} else if c.num == num {
		outer := c.enter(name)
		var zero T
		var prev *T
		for start := c.at; c.at < c.end; {
			list := append(*p, zero)
			row(prev, &list[len(*p)], c)
			if prev == nil { // the others have as many numbers, so that the list grows once
				list = slices.Grow(list, numbers(c.rest())/max(1, numbers(c.b[start:c.at])))
			}
			*p, prev = list, &list[len(*p)]
		}
		c.leave(&outer, name)
	}
}

// numbers counts the varints of b.
func numbers(b []byte) (n int) {
	for _, v := range b {
		n += int(^v >> 7)
	}
	return n
}

// Varint is an integer of a row. Decoding refuses one that the type cannot hold.
func Varint[T Integer](c *Codec, p *T) {
	if !c.decoding {
		c.pack(uint64(*p))
		return
	}
	v := c.packed()
	if *p = T(v); uint64(*p) != v {
		c.outOfRange("number", v)
	}
}

// Delta is an integer of a row, as the zigzag difference to another one.
func Delta[T Integer](c *Codec, p *T, from T) {
	if !c.decoding {
		c.pack(protowire.EncodeZigZag(int64(*p) - int64(from)))
		return
	}
	v := uint64(int64(from) + protowire.DecodeZigZag(c.packed()))
	if *p = T(v); uint64(*p) != v {
		c.outOfRange("number", v)
	}
}

// pack appends a varint of a row, and packed returns the next one.
func (c *Codec) pack(v uint64) {
	if v < 1<<7 {
		c.b = append(c.b, byte(v))
		return
	}
	c.b = protowire.AppendVarint(c.b, v)
}

func (c *Codec) packed() uint64 {
	if c.at < c.end && c.b[c.at] < 1<<7 {
		c.at++
		return uint64(c.b[c.at-1])
	}
	v, n := protowire.ConsumeVarint(c.rest())
	if n < 0 {
		c.Fail(fmt.Errorf("number: %w", protowire.ParseError(n)))
		return 0
	}
	c.at += n
	return v
}

func (c *Codec) outOfRange(name string, v uint64) {
	c.Fail(fmt.Errorf("%s: %d is out of range", name, v))
}
