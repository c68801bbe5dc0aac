package story

import (
	"slices"
	"strings"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/driplang/internal/form"
	"github.com/sebbroker/seb/driplang/monitor"
)

// sample is an event without its time.
type sample struct {
	name  string
	props []form.Property
	data  string
	kinds monitor.Kinds
}

// samples are the events of the histories of an expression.
type samples struct {
	kinds  []*sample   // by kind: the plainest one that matches; nil if none was found
	misses [][]*sample // by kind: events that differ from it in their data and do not match
	filter map[string]bool
	lacks  bool // an event, or data that differs, because of its bounds
}

// maxMisses bounds the events that differ from one that matches.
const maxMisses = 3

// maxMatches bounds the evaluations of filters for events that do not match.
const maxMatches = 2000

func newSamples(p *monitor.Program, kinds []form.Kind) *samples {
	s := &samples{kinds: make([]*sample, len(kinds)), misses: make([][]*sample, len(kinds)), filter: map[string]bool{}}
	byName, misses := map[string][]*sample{}, make([][]*sample, len(kinds))
	add := func(name string, props []form.Property) *sample {
		e := &sample{name: name, props: props, data: string(form.Document(props))}
		e.kinds = p.Match(name, []byte(e.data))
		byName[name] = append(byName[name], e)
		return e
	}
	same, cost := map[string]int{}, 0 // kinds of each name
	for _, k := range kinds {
		same[k.Name]++
	}
	for i, k := range kinds {
		if k.Where == nil {
			add(k.Name, nil)
			continue
		}
		s.filter[k.Name] = true
		match, others := k.Where.Examples()
		if match == nil {
			s.lacks = true
			continue
		}
		add(k.Name, match)
		for _, props := range others[:min(maxMisses, len(others))] {
			if cost += same[k.Name]; cost > maxMatches {
				s.lacks = true
				break
			}
			misses[i] = append(misses[i], add(k.Name, props))
		}
	}
	for i, k := range kinds {
		for _, e := range byName[k.Name] { // the fewest other kinds
			if e.kinds&(1<<i) != 0 && (s.kinds[i] == nil || count(e.kinds) < count(s.kinds[i].kinds)) {
				s.kinds[i] = e
			}
		}
		if s.kinds[i] == nil {
			continue
		}
		for _, e := range misses[i] {
			if e.kinds&(1<<i) == 0 {
				s.misses[i] = append(s.misses[i], e)
			}
		}
	}
	return s
}

func count(k monitor.Kinds) (n int) {
	for ; k != 0; k &= k - 1 {
		n++
	}
	return n
}

// same reports whether two events are equal, apart from their time.
func (e *sample) same(f *sample) bool { return e.name == f.name && e.data == f.data }

// textWords are the words of texts that could be mistaken for a name, or a name for them.
const textWords = " after and apart as at before comes decided does earlier events exactly fewer fires first for instead is it later less missing more not " +
	"nothing of once one same seen than that the time times twice with without yet "

// subject returns an event in English.
func (e *sample) subject() string {
	name := driplang.FormatName(e.name)
	if name == e.name && strings.Contains(textWords, " "+strings.ToLower(name)+" ") {
		name = `"` + name + `"`
	}
	if len(e.props) == 0 {
		return name
	}
	list := make([]string, len(e.props))
	for i, p := range e.props {
		list[i] = driplang.FormatPath(p.Path) + " " + p.JSON
	}
	return name + " (" + clip(strings.Join(list, ", ")) + ")"
}

// clip shortens data for a text.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

// value returns the value of a property; "" if it is missing.
func (e *sample) value(path []string) string {
	for _, p := range e.props {
		if slices.Equal(p.Path, path) {
			return p.JSON
		}
	}
	return ""
}
