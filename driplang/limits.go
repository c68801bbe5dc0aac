package driplang

// Limits of an expression. Each is checked before what it bounds is allocated; an expression beyond one is refused with
// an [Error] that names it.
const (
	// MaxText is the greatest length of an expression in text form, in bytes, as it is written and as
	// [Expr.String] writes it out in full.
	MaxText = 16 << 10
	// MaxJSON is the greatest length of an expression in JSON form, in bytes. Whatever fits into MaxText fits.
	MaxJSON = 128 << 10
	// MaxDepth is how deeply operators may stand in one another.
	MaxDepth = 64
	// MaxNames is how many event names an expression may mention, and how many kinds of event it may tell apart:
	// a name with two different filters is two kinds.
	MaxNames = 64
	// MaxName is the greatest length of an event's name, in bytes.
	MaxName = 256
	// MaxCount is the greatest number that a count may be compared with.
	MaxCount = 1000
	// MaxMillis is the longest duration, in milliseconds: ten years of 366 days.
	MaxMillis = 3660 * 24 * 3600 * 1000
	// MaxPath is the greatest number of members in the path of a property.
	MaxPath = 16
)

// maxNesting bounds the parser's recursion: parentheses and NOTs together. The canonical form needs two for each operator.
const maxNesting = 3 * MaxDepth
