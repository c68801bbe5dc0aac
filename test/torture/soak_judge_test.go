package torture

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
)

// keyed returns seqs of a compacted topic with one key: two values, then a tombstone.
func keyed(name string) (first, second, tombstone int) {
	seqs := map[string][]int{}
	for seq := range 100_000 {
		r := id{name, 0, seq}.record(true)
		list := seqs[string(r.Key)]
		if len(list) < 2 && r.Value != nil || len(list) == 2 && r.Value == nil {
			list = append(list, seq)
			seqs[string(r.Key)] = list
		}
		if len(list) == 3 {
			return list[0], list[1], list[2]
		}
	}
	panic("soak: no key has a tombstone")
}

// A judge that finds nothing would make the soak worthless.
func TestJudgeFindsEveryFault(t *testing.T) {
	now := time.Now()
	plain := func() *ledger {
		return &ledger{name: "plain", acked: []acked{{0, 10, 2, now}, {3, 13, 1, now}}, unknown: map[int]bool{12: true}, next: 14}
	}
	cut := plain()
	cut.partial = true
	trimmed := plain()
	trimmed.partial, trimmed.trimmed = true, 3
	ordered := plain()
	ordered.ordered = true
	a, b, x := keyed("k")
	compact := &ledger{name: "k", keyed: true, acked: []acked{{0, a, 1, now}, {1, b, 1, now}}, unknown: map[int]bool{}}
	removed := &ledger{name: "k", keyed: true, acked: []acked{{0, a, 1, now}, {1, x, 1, now}}, unknown: map[int]bool{}}
	perhaps := &ledger{name: "k", keyed: true, acked: []acked{{0, a, 1, now}, {1, b, 1, now}}, unknown: map[int]bool{x: true}}
	type at struct {
		offset int64
		seq    int
	}
	for name, c := range map[string]struct {
		p     *ledger
		start int64
		seen  []at
		want  []string
	}{
		"nothing wrong":                {plain(), 0, []at{{0, 10}, {1, 11}, {2, 12}, {3, 13}}, nil},
		"the last is missing":          {plain(), 0, []at{{0, 10}, {1, 11}, {2, 12}}, []string{faultMissing}},
		"one in the middle is":         {plain(), 0, []at{{0, 10}, {2, 12}, {3, 13}}, []string{faultGap}},
		"two swapped":                  {plain(), 0, []at{{0, 11}, {1, 10}, {2, 12}, {3, 13}}, []string{faultMoved}},
		"the unknown one too late":     {ordered, 0, []at{{0, 10}, {1, 11}, {2, 99}, {3, 13}, {4, 12}}, []string{faultOrder, faultForeign}},
		"a rejected one":               {plain(), 0, []at{{0, 10}, {1, 11}, {2, 99}, {3, 13}}, []string{faultForeign}},
		"the unknown twice":            {plain(), 0, []at{{0, 10}, {1, 11}, {2, 12}, {3, 13}, {4, 12}}, []string{faultTwice}},
		"begins too late":              {plain(), 3, []at{{3, 13}}, []string{faultTooEarly}},
		"retention took too much":      {cut, 2, []at{{2, 12}, {3, 13}}, []string{faultTooEarly}},
		"trimmed":                      {trimmed, 3, []at{{3, 13}}, nil},
		"trimmed too far":              {trimmed, 4, nil, []string{faultTooEarly}},
		"compacted":                    {compact, 0, []at{{1, b}}, nil},
		"not yet compacted":            {compact, 0, []at{{0, a}, {1, b}}, nil},
		"the newest is missing":        {compact, 0, []at{{0, a}}, []string{faultNewest}},
		"all are missing":              {compact, 0, nil, []string{faultNewest}},
		"perhaps removed":              {perhaps, 0, nil, nil},
		"perhaps removed, not the old": {perhaps, 0, []at{{0, a}}, []string{faultNewest}},
		"removed":                      {removed, 0, []at{{1, x}}, nil},
		"removed, no tombstone":        {removed, 0, nil, nil},
		"removed, and the value lives": {removed, 0, []at{{0, a}}, []string{faultRevived}},
	} {
		j := newJudge(c.p, c.start)
		for _, s := range c.seen {
			r := id{c.p.name, 0, s.seq}.record(c.p.keyed)
			r.Offset = s.offset
			j.see(&r)
		}
		j.end(c.start, now.Add(-time.Minute))
		got := slices.Sorted(maps.Keys(j.faults))
		check.EqualSlicesf(t, got, c.want, "%s: found", name)
	}
	j := newJudge(plain(), 0)
	r := id{"plain", 0, 10}.record(false)
	r.Value[len(r.Value)-1] ^= 1
	j.see(&r)
	j.see(&record.Record{Offset: 1, Value: []byte("what")})
	if got := slices.Sorted(maps.Keys(j.faults)); !slices.Equal(got, []string{faultContent, faultForeign}) {
		t.Errorf("found %q in damaged records", got)
	}
}
