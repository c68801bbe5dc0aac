package journal

import (
	"slices"
	"strings"
)

// chunkNames is how many names a chunk of an order holds at most.
const chunkNames = 512

// order holds names in ascending order, so that a page of a list costs only its own names. Adding
// or removing a name moves the names of one chunk only: both happen under the lock that every flush
// needs, so none of them may take long.
type order struct {
	chunks [][]string // none is empty
}

// chunk returns the chunk that a name is in or belongs to.
func (o *order) chunk(name string) int {
	i, found := slices.BinarySearchFunc(o.chunks, name, func(c []string, name string) int {
		return strings.Compare(c[0], name)
	})
	if !found && i > 0 {
		i--
	}
	return i
}

// add adds a name that is not there.
func (o *order) add(name string) {
	if len(o.chunks) == 0 {
		o.chunks = append(o.chunks, []string{name})
		return
	}
	c := o.chunk(name)
	names := o.chunks[c]
	i, _ := slices.BinarySearch(names, name)
	switch {
	case len(names) < chunkNames:
		o.chunks[c] = slices.Insert(names, i, name)
	case i == len(names): // the names of a log arrive in ascending order
		o.chunks = slices.Insert(o.chunks, c+1, []string{name})
	default:
		half := slices.Clone(names[chunkNames/2:])
		clear(names[chunkNames/2:])
		o.chunks[c] = names[:chunkNames/2]
		o.chunks = slices.Insert(o.chunks, c+1, half)
		o.add(name)
	}
}

// remove removes a name, if it is there.
func (o *order) remove(name string) {
	if len(o.chunks) == 0 {
		return
	}
	c := o.chunk(name)
	i, found := slices.BinarySearch(o.chunks[c], name)
	if !found {
		return
	}
	names := slices.Delete(o.chunks[c], i, i+1)
	switch {
	case len(names) == 0:
		o.chunks = slices.Delete(o.chunks, c, c+1)
	case len(names) <= cap(names)/4:
		o.chunks[c] = slices.Clone(names)
	default:
		o.chunks[c] = names
	}
}

// page calls visit with the names that begin with prefix and are greater than after, in order, until
// it returns false.
func (o *order) page(prefix, after string, visit func(name string) bool) {
	from := max(prefix, after)
	for c := o.chunk(from); c < len(o.chunks); c++ {
		names := o.chunks[c]
		i, found := slices.BinarySearch(names, from)
		if found && from == after {
			i++
		}
		for ; i < len(names); i++ {
			if !strings.HasPrefix(names[i], prefix) || !visit(names[i]) {
				return
			}
		}
	}
}
