package filter

import "slices"

// Compare is a comparison in a filter or of a count.
type Compare uint8

// The comparisons: =, !=, <, <=, > and >=.
const (
	Equal Compare = iota + 1
	Unequal
	Less
	AtMost
	Greater
	AtLeast
)

var words = [...]string{Equal: "=", Unequal: "!=", Less: "<", AtMost: "<=", Greater: ">", AtLeast: ">="}

func (c Compare) String() string { return words[c] }

// ParseCompare returns the comparison with this sign.
func ParseCompare(sign string) (Compare, bool) {
	i := slices.Index(words[:], sign)
	return Compare(max(i, 0)), i > 0
}

// Holds reports whether the comparison holds for two values with this order: negative, zero or
// positive.
func (c Compare) Holds(order int) bool {
	switch c {
	case Equal:
		return order == 0
	case Unequal:
		return order != 0
	case Less:
		return order < 0
	case AtMost:
		return order <= 0
	case Greater:
		return order > 0
	}
	return order >= 0
}
