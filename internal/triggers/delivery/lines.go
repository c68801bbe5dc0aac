package delivery

import (
	"maps"
	"slices"

	"github.com/sebbroker/seb/internal/triggers/rules"
)

// lines are firings of a trigger that were read ahead, in a line for each entity. Messages of an
// entity are sent one after the other, so the line of an entity with a message in flight waits. The
// first ones of the other lines are ready.
//
//	ready   a1 c1            next takes a1: a is busy, and a2 waits until free(a)
//	of      a: a2 a3
//	        b: busy, b2      b1 is in flight
//	        c:
//
// A reading passes the firings of entities in left, because those in their lines come first. The
// other entities have no pending firing up to the last one that was read, besides those in their
// lines and in flight.
type lines struct {
	ready   []*rules.Firing
	of      map[string]*line
	left    map[string]struct{} // since the last reading that began with the first pending firing
	touched map[string]struct{} // entities of which a firing has begun or ended since the reading began
	read    rules.DuePosition   // position of the last firing that was read or passed
}

// line is that of an entity that is busy, or whose first firing is ready.
type line struct {
	busy  bool
	waits []*rules.Firing // after the one that is in flight or ready
}

func newLines() lines {
	return lines{of: map[string]*line{}, left: map[string]struct{}{}, touched: map[string]struct{}{}}
}

// begin begins a reading, and returns the entities to pass. fill ends it.
func (l *lines) begin(first bool) (except []string) {
	if first {
		clear(l.left)
	}
	clear(l.touched)
	for entity, line := range l.of {
		if line.busy {
			l.left[entity] = struct{}{}
		}
	}
	return slices.Collect(maps.Keys(l.left))
}

// fill adds what a reading has returned. first: it began with the first pending firing, so the lines
// of entities that it did not pass are replaced. Lines are cut if they contain more than most firings.
func (l *lines) fill(first bool, list []rules.Firing, most int) {
	maps.Copy(l.left, l.touched) // their firings in list may have ended
	if first {
		l.drop(func(entity string) bool { _, left := l.left[entity]; return !left })
	}
	for i := range list {
		if _, there := l.touched[list[i].Entity]; !there {
			l.add(&list[i])
		}
	}
	l.cut(most)
}

func (l *lines) add(x *rules.Firing) {
	if of := l.of[x.Entity]; of != nil {
		of.waits = append(of.waits, x)
		return
	}
	l.of[x.Entity] = &line{}
	l.ready = append(l.ready, x)
}

// cut shortens the longest lines.
func (l *lines) cut(most int) {
	sum := 0
	for _, line := range l.of {
		sum += len(line.waits)
	}
	if sum <= most {
		return
	}
	for entity, line := range l.of {
		if each := most / len(l.of); len(line.waits) > each {
			line.waits = slices.Clip(line.waits[:each])
			l.left[entity] = struct{}{}
		}
	}
}

// next takes a firing, whose entity is busy then; nil if none is ready.
func (l *lines) next() *rules.Firing {
	if len(l.ready) == 0 {
		return nil
	}
	x := l.ready[0]
	l.ready = l.ready[1:]
	l.of[x.Entity].busy = true
	l.touch(x.Entity)
	return x
}

// touch notes that a firing of an entity has begun or ended.
func (l *lines) touch(entity string) { l.touched[entity] = struct{}{} }

// free ends the time in which an entity is busy.
func (l *lines) free(entity string) {
	of := l.of[entity]
	if len(of.waits) == 0 {
		delete(l.of, entity)
		return
	}
	l.ready = slices.Insert(l.ready, 0, of.waits[0]) // it has waited the longest
	of.busy, of.waits = false, of.waits[1:]
}

// forget drops the firings of a busy entity.
func (l *lines) forget(entity string) { l.of[entity].waits = nil }

// clear drops all firings.
func (l *lines) clear() { l.drop(func(string) bool { return true }) }

// drop drops the firings of some entities.
func (l *lines) drop(those func(entity string) bool) {
	l.ready = slices.DeleteFunc(l.ready, func(x *rules.Firing) bool { return those(x.Entity) })
	for entity, line := range l.of {
		if !those(entity) {
			continue
		}
		line.waits = nil
		if !line.busy {
			delete(l.of, entity)
		}
	}
}
