package journal

import (
	"slices"
	"strings"
)

// order holds names in ascending order, so that a page of a list costs only its own names. The names
// of a log arrive in that order.
type order struct {
	names    []string // with names that were removed
	unsorted bool
	removed  int // names that were removed since names was cleaned; an upper bound
}

func (o *order) add(name string) {
	if n := len(o.names); n > 0 && name <= o.names[n-1] {
		o.unsorted = true
	}
	o.names = append(o.names, name)
}

// remove is called after a name was removed. Once half of the names are removed, it keeps those that
// are there.
func (o *order) remove(there func(name string) bool) {
	if o.removed++; 2*o.removed > len(o.names) {
		o.names = slices.DeleteFunc(o.names, func(name string) bool { return !there(name) })
		o.removed = 0
	}
}

// page calls visit with the names that begin with prefix and are greater than after, in order, until
// it returns false. Removed names are among them.
func (o *order) page(prefix, after string, visit func(name string) bool) {
	if o.unsorted {
		slices.Sort(o.names)
		o.names = slices.Compact(o.names)
		o.unsorted = false
	}
	i, found := slices.BinarySearch(o.names, max(prefix, after))
	if found && o.names[i] == after {
		i++
	}
	for ; i < len(o.names) && strings.HasPrefix(o.names[i], prefix) && visit(o.names[i]); i++ {
	}
}
