package query

import (
	"bytes"
	"cmp"
	"math"
	"strconv"
)

// Kind is a type of values.
type Kind uint8

// The types. List stands for values without comparisons: lists and objects.
const (
	Nil Kind = iota
	False
	True
	Integer
	Float
	Text
	List
)

// Value is a value of a field or a constant of a query. The zero value is nil.
type Value struct {
	Kind  Kind
	Int   int64   // of Integer
	Float float64 // of Float
	Text  []byte  // of Text
}

// Event is an event that a query is evaluated over.
type Event interface {
	// Field returns the value of a field, nil if the event has none. It is valid during Match.
	Field(name string) Value
	// Tagged reports whether the event has a tag.
	Tagged(tag string) bool
}

// Number returns the value of a JSON number, exact for integers of 64 bits, or ok false.
func Number(text []byte) (v Value, ok bool) {
	if !bytes.ContainsAny(text, ".eE") { // else the error of ParseInt allocates
		if i, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			return Value{Kind: Integer, Int: i}, true
		}
	}
	f, err := strconv.ParseFloat(string(text), 64)
	return Value{Kind: Float, Float: f}, err == nil
}

func (v *Value) isNumber() bool { return v.Kind == Integer || v.Kind == Float }

// truthy is the meaning of a value that stands alone.
func (v *Value) truthy() bool { return v.Kind != Nil && v.Kind != False }

func (v *Value) equals(w *Value) bool {
	switch {
	case v.isNumber() && w.isNumber():
		order, ok := v.order(w)
		return ok && order == 0
	case v.Kind != w.Kind || v.Kind == List:
		return false
	case v.Kind == Text:
		return bytes.Equal(v.Text, w.Text)
	}
	return true
}

// order compares two numbers by their exact values; ok is false if one is NaN.
func (v *Value) order(w *Value) (order int, ok bool) {
	switch {
	case v.Kind == Integer && w.Kind == Integer:
		return cmp.Compare(v.Int, w.Int), true
	case v.Kind == Integer:
		return orderMixed(v.Int, w.Float)
	case w.Kind == Integer:
		order, ok = orderMixed(w.Int, v.Float)
		return -order, ok
	}
	return cmp.Compare(v.Float, w.Float), v.Float == v.Float && w.Float == w.Float
}

// orderMixed compares an integer with a double without rounding the integer.
func orderMixed(i int64, f float64) (order int, ok bool) {
	switch {
	case f != f:
		return 0, false
	case f >= 1<<63:
		return -1, true
	case f < -1<<63:
		return 1, true
	}
	whole := math.Floor(f)
	if order = cmp.Compare(i, int64(whole)); order == 0 && whole < f {
		order = -1
	}
	return order, true
}
