package sim

import (
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/core"
)

// requestTimeout is when a broker gives up an unanswered request.
const requestTimeout = 10 * time.Second

// lateMost bounds how long after that a request may still take effect.
const lateMost = 3 * time.Minute

// store is the simulated object store: linearizable and correct about conditions, behind an
// unreliable network.
type store struct {
	w        *simulation
	objects  map[string][]byte
	keys     []string // sorted
	putAt    map[string]int64
	deleted  []ghost
	applied  uint64          // requests that took effect
	owned    map[string]bool // folders with a claim for a journal
	refusing bool
	restored int // restored older copies
}

func newStore(w *simulation) *store {
	return &store{w: w, objects: map[string][]byte{}, putAt: map[string]int64{}, owned: map[string]bool{}}
}

// call sends a broker's request. do is its effect, at one moment between sending and answer; then
// gets the verdict. A request of a killed sender continues, but then must not be called; the caller
// ensures that.
func (s *store) call(n *node, put bool, do func() core.Outcome, then func(core.Outcome)) {
	w := s.w
	done := n.receiving(then)
	before, after := w.around(w.schedRand, w.cfg.Latency/2), w.around(w.schedRand, w.cfg.Latency/2)
	w.requested(n)
	if w.cfg.Cluster.Exact {
		before, after = min(before, 2*w.cfg.Latency), min(after, 2*w.cfg.Latency)
	}
	if n.slow > 1 {
		before, after = before*n.slow, after*n.slow
	}
	if w.calm {
		before, after = min(before, time.Second), min(after, time.Second)
	}
	fault := func(p float64) bool { return !w.calm && chance(w.faultRand, p) }
	bucket := s.restored
	apply := func() core.Outcome {
		if s.restored != bucket {
			return core.OutcomeNoVerdict // its sender is dead, and its bucket was replaced
		}
		s.applied++
		return do()
	}
	switch {
	case n.cut&cutRequests != 0:
		w.after(w.upTo(w.cutRand, w.units(requestTimeout)), func() { done(core.OutcomeNoVerdict) })
	case s.refusing && !w.calm:
		w.after(before+after, func() { done(core.OutcomeRefused) })
	case fault(w.cfg.FailBefore):
		w.stats.Faults++
		w.stats.Failed++
		w.after(before+after, func() { done(core.OutcomeNoVerdict) })
	case put && fault(w.cfg.Conflict):
		w.stats.Faults++
		w.stats.Conflicts++
		w.after(before+after, func() { done(core.OutcomeConflict) })
	case fault(w.cfg.FailAfter):
		w.stats.Faults++
		w.stats.Applied++
		w.after(before, func() { apply() })
		w.after(before+after, func() { done(core.OutcomeNoVerdict) })
	case put && fault(w.cfg.Late):
		w.stats.Faults++
		w.stats.Late++
		w.after(before+w.upTo(w.schedRand, lateMost), func() { apply() })
		w.after(min(w.units(requestTimeout), before+after), func() { done(core.OutcomeNoVerdict) })
	default:
		w.after(before, func() {
			o := apply()
			if !put && fault(w.cfg.Damage) {
				w.stats.Faults++
				w.stats.Damaged++
				o = core.OutcomeCorrupt
			}
			w.after(after, func() { done(o) })
		})
	}
}

// put stores body under key if the key does not exist.
func (s *store) put(key string, body []byte) core.Outcome {
	if _, ok := s.objects[key]; ok {
		return core.OutcomeExists
	}
	s.objects[key] = body
	if s.w.cfg.HideLists > 0 {
		s.putAt[key] = s.w.now
	}
	i := sort.SearchStrings(s.keys, key)
	s.keys = slices.Insert(s.keys, i, key)
	s.w.check.stored(key, body)
	return core.OutcomeOK
}

// own claims a folder for a journal if it holds no object and no claim.
func (s *store) own(folder string) core.Outcome {
	if s.owned[folder] || len(s.list(folder+"/", "", 1)) > 0 {
		return core.OutcomeExists
	}
	s.owned[folder] = true
	return core.OutcomeOK
}

func (s *store) list(prefix, after string, most int) []string {
	from := max(prefix, after)
	i := sort.SearchStrings(s.keys, from)
	var out []string
	for ; i < len(s.keys) && strings.HasPrefix(s.keys[i], prefix) && (most == 0 || len(out) < most); i++ {
		if s.keys[i] > after && s.w.now-s.putAt[s.keys[i]] >= int64(s.w.cfg.HideLists) {
			out = append(out, s.keys[i])
		}
	}
	return s.addGhosts(out, prefix, after, most)
}

// ghost is a deleted name.
type ghost struct {
	key  string
	at   int64
	size int64
}

// sizes returns the sizes of listed objects, some of which may be deleted.
func (s *store) sizes(names []string) []int64 {
	sizes := make([]int64, len(names))
	for i, name := range names {
		sizes[i] = int64(len(s.objects[name]))
		for _, g := range s.deleted {
			if g.key == name && s.objects[name] == nil {
				sizes[i] = g.size
			}
		}
	}
	return sizes
}

// addGhosts adds recently deleted names to a listing.
func (s *store) addGhosts(names []string, prefix, after string, most int) []string {
	w := s.w
	if w.cfg.Ghosts == 0 || w.calm {
		return names
	}
	for len(s.deleted) > 0 && s.deleted[0].at < w.now-int64(w.cfg.Ghosts) {
		s.deleted = s.deleted[1:]
	}
	for _, g := range s.deleted {
		if !strings.HasPrefix(g.key, prefix) || g.key <= after {
			continue
		}
		if i, there := slices.BinarySearch(names, g.key); !there {
			names = slices.Insert(names, i, g.key)
			w.stats.Ghosts++
		}
	}
	if most > 0 && len(names) > most {
		names = names[:most]
	}
	return names
}

// remove deletes a name, which may be missing.
func (s *store) remove(key string) core.Outcome {
	body, ok := s.objects[key]
	if !ok {
		return core.OutcomeOK
	}
	s.w.check.deleted(key, body)
	s.lose(key)
	if s.w.cfg.Ghosts > 0 {
		s.deleted = append(s.deleted, ghost{key, s.w.now, int64(len(body))})
	}
	s.w.loss.removed(key)
	return core.OutcomeOK
}

// lose removes a name.
func (s *store) lose(key string) {
	delete(s.objects, key)
	i := sort.SearchStrings(s.keys, key)
	s.keys = slices.Delete(s.keys, i, i+1)
}
