package driplang

// Limits of an expression. Each is checked before the allocation that it bounds. An [Error] names
// the exceeded limit.
const (
	// MaxText is the maximum length of an expression in text form, in bytes, as given and in the
	// canonical form of [Expr.String].
	MaxText = 16 << 10
	// MaxJSON is the maximum length of an expression in JSON form, in bytes. The JSON form of any
	// text within MaxText is within MaxJSON.
	MaxJSON = 128 << 10
	// MaxDepth is the maximum nesting of operators.
	MaxDepth = 64
	// MaxNames is the maximum number of event names, and of event kinds: a name with two different
	// filters is two kinds.
	MaxNames = 64
	// MaxName is the maximum length of an event name, in bytes.
	MaxName = 256
	// MaxCount is the maximum number in a comparison with a count.
	MaxCount = 1000
	// MaxMillis is the longest duration, in milliseconds: ten years of 366 days.
	MaxMillis = 3660 * 24 * 3600 * 1000
	// MaxPath is the maximum number of members in the path of a property.
	MaxPath = 16
	// MaxComparisons is the maximum number of comparisons of a [Filter].
	MaxComparisons = 64
)

// maxNesting bounds the parser's recursion: parentheses and NOTs together. The canonical form needs
// two per operator.
const maxNesting = 3 * MaxDepth
