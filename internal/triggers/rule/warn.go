package rule

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/driplang/monitor"
)

// Warnings are what the author of an expression may not have meant.
func Warnings(e driplang.Expr) (list []string) {
	text, err := e.MarshalJSON()
	if err != nil {
		return nil
	}
	var n node
	if err := json.Unmarshal(text, &n); err != nil {
		return nil
	}
	if n.openAbsence(false, false) {
		list = append(list, "NOT without WITHIN: it may fire at once, because what it waits for has not happened yet; "+
			"did you mean `A THEN (NOT B WITHIN ...)`?")
	}
	if most := instances(e); most > instancesMany {
		list = append(list, fmt.Sprintf("it keeps many instances: %d for one entity with %d events in a row, at most %d",
			most, probeEvents, monitor.MaxInstances))
	}
	return list
}

// node is as much of an expression as Warnings looks at.
type node struct {
	Not    *node   `json:"not"`
	And    []*node `json:"and"`
	Or     []*node `json:"or"`
	Then   []*node `json:"then"`
	Within *node   `json:"within"`
	After  *node   `json:"after"`
}

// openAbsence is whether the value rests on an absence without an end. One on the left of THEN does not fire.
func (n *node) openAbsence(not, bounded bool) bool {
	absent := func(k *node) bool { return k.openAbsence(not, bounded) }
	switch {
	case n.Not != nil:
		return n.Not.openAbsence(!not, bounded)
	case n.And != nil:
		return slices.ContainsFunc(n.And, absent)
	case n.Or != nil:
		return slices.ContainsFunc(n.Or, absent)
	case n.Within != nil:
		return n.Within.openAbsence(not, true)
	case n.After != nil:
		return n.After.openAbsence(not, bounded)
	case n.Then != nil && !not:
		return n.Then[len(n.Then)-1].openAbsence(not, bounded)
	}
	return not && !bounded
}

const (
	probeEvents   = 400
	instancesMany = 16
)

// instances is how many instances a made-up history needs at most: its events in turn, a minute apart, as many fit into
// any longer window.
func instances(e driplang.Expr) (most int) {
	p, err := monitor.Compile(e, monitor.Options{})
	if err != nil {
		return 0
	}
	names := e.Names()
	for _, every := range []int{1, 2, 7} { // how often another event than the first comes
		m := monitor.New(p)
		for i := range probeEvents {
			name := names[0]
			if i%every == 0 {
				name = names[(i/every)%len(names)]
			}
			m.Step(p.Match(name, nil), int64(i)*60_000, uint64(i))
			most = max(most, m.Instances())
		}
	}
	return most
}

// nearestMax is how many letters a name may differ in from the one that was meant.
const nearestMax = 3

// Nearest is the name in list that differs least from a name, or "" if none is near.
func Nearest(name string, list []string) (near string) {
	best := min(nearestMax, len(name)/2) + 1
	for _, other := range list {
		if d := distance(name, other, best); d < best {
			near, best = other, d
		}
	}
	return near
}

// distance is how many bytes are to be inserted, deleted or replaced to make b of a; most if it is more than that.
func distance(a, b string, most int) int {
	if len(a)-len(b) > most || len(b)-len(a) > most {
		return most
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return min(row[len(b)], most)
}
