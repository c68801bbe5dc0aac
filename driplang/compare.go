package driplang

import "slices"

// compare is a comparison in a filter or of a count.
type compare uint8

// The comparisons: =, !=, <, <=, > and >=.
const (
	equal compare = iota + 1
	unequal
	less
	atMost
	greater
	atLeast
)

var compareSigns = [...]string{equal: "=", unequal: "!=", less: "<", atMost: "<=", greater: ">", atLeast: ">="}

func (c compare) String() string { return compareSigns[c] }

// parseCompare returns the comparison with this sign.
func parseCompare(sign string) (compare, bool) {
	i := slices.Index(compareSigns[:], sign)
	return compare(max(i, 0)), i > 0
}

// holds reports whether the comparison holds for two values with this order: negative, zero or
// positive.
func (c compare) holds(order int) bool {
	switch c {
	case equal:
		return order == 0
	case unequal:
		return order != 0
	case less:
		return order < 0
	case atMost:
		return order <= 0
	case greater:
		return order > 0
	}
	return order >= 0
}
