package journal

import (
	"slices"
	"strings"
)

// chunkNames is how many names a chunk of an index holds at most.
const chunkNames = 512

// index holds the objects of a journal in ascending order of their names, so that a page of a list
// costs only its own names. It takes about 85 bytes for each object of a log. Adding or removing a name moves the
// entries of one chunk only: both happen under the lock that every flush needs, so none of them may
// take long.
type index struct {
	chunks [][]entry // none is empty
}

type entry struct {
	name string
	object
}

// find returns the chunk that a name is in or belongs to, and where.
func (x *index) find(name string) (c, i int, found bool) {
	c, found = slices.BinarySearchFunc(x.chunks, name, func(c []entry, name string) int {
		return strings.Compare(c[0].name, name)
	})
	if found {
		return c, 0, true
	}
	if c == 0 {
		return 0, 0, false
	}
	i, found = slices.BinarySearchFunc(x.chunks[c-1], name, func(e entry, name string) int {
		return strings.Compare(e.name, name)
	})
	return c - 1, i, found
}

// get returns the object of a name.
func (x *index) get(name string) (o object, ok bool) {
	c, i, found := x.find(name)
	if !found {
		return o, false
	}
	return x.chunks[c][i].object, true
}

// add adds a name that is not there. It keeps a copy of the name, which may be a part of a longer
// string.
func (x *index) add(name string, o object) {
	e := entry{strings.Clone(name), o}
	if len(x.chunks) == 0 {
		x.chunks = append(x.chunks, []entry{e})
		return
	}
	c, i, _ := x.find(name)
	entries := x.chunks[c]
	switch {
	case len(entries) < chunkNames:
		if len(entries) == cap(entries) {
			entries = append(make([]entry, 0, min(2*len(entries)+2, chunkNames)), entries...)
		}
		x.chunks[c] = slices.Insert(entries, i, e)
	case i == len(entries): // the names of a log arrive in ascending order
		x.chunks = slices.Insert(x.chunks, c+1, []entry{e})
	default:
		half := slices.Clone(entries[chunkNames/2:])
		clear(entries[chunkNames/2:])
		x.chunks[c] = entries[:chunkNames/2]
		x.chunks = slices.Insert(x.chunks, c+1, half)
		x.add(name, o)
	}
}

// remove removes a name, if it is there.
func (x *index) remove(name string) {
	c, i, found := x.find(name)
	if !found {
		return
	}
	entries := x.chunks[c]
	if i == 0 { // collection removes the oldest names
		entries[0] = entry{}
		entries = entries[1:]
	} else {
		entries = slices.Delete(entries, i, i+1)
	}
	switch {
	case len(entries) == 0:
		x.chunks = slices.Delete(x.chunks, c, c+1)
	case len(entries) == chunkNames/4 || len(entries) == chunkNames/16:
		x.chunks[c] = slices.Clone(entries)
	default:
		x.chunks[c] = entries
	}
}

// page calls visit with the names that begin with prefix and are greater than after, in order, until
// it returns false.
func (x *index) page(prefix, after string, visit func(name string, o object) bool) {
	from := max(prefix, after)
	c, i, found := x.find(from)
	if found && from == after {
		i++
	}
	for ; c < len(x.chunks); c, i = c+1, 0 {
		for ; i < len(x.chunks[c]); i++ {
			e := &x.chunks[c][i]
			if !strings.HasPrefix(e.name, prefix) || !visit(e.name, e.object) {
				return
			}
		}
	}
}

// names returns the names of the objects for which wanted is true.
func (x *index) names(wanted func(object) bool) (names []string) {
	for _, entries := range x.chunks {
		for i := range entries {
			if wanted(entries[i].object) {
				names = append(names, entries[i].name)
			}
		}
	}
	return names
}
