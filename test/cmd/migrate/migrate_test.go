package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestPartition: the judge of a copy counts what is lost, out of order and doubled, and says where the copy
// begins again.
func TestPartition(t *testing.T) {
	for _, c := range []struct {
		name                    string
		numbers                 []int64
		lost, disorder, doubled int64
		agains                  []again
	}{
		{"equal", []int64{0, 1, 2, 3}, 0, 0, 0, nil},
		{"lost", []int64{0, 1, 3}, 1, 0, 0, nil},
		{"lost at the end", []int64{0, 1}, 2, 0, 0, nil},
		{"late", []int64{0, 2, 1, 3}, 0, 1, 0, []again{{before: 2, number: 1}}},
		{"foreign", []int64{0, 1, -1, 2, 3, 4}, 0, 2, 0, nil},
		{"begins again", []int64{0, 1, 2, 0, 1, 2, 3}, 0, 0, 3, []again{{before: 2, number: 0, records: 3}}},
		{"twice", []int64{0, 1, 1, 2, 0, 1, 2, 3}, 0, 0, 4, []again{{before: 1, number: 1, records: 1}, {before: 2, number: 0, records: 3}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var j copied
			j.numbers[0] = c.numbers
			j.partition(0, 4)
			check.Equal(t, [3]int64{j.lost, j.disorder, j.doubled}, [3]int64{c.lost, c.disorder, c.doubled})
			if !slices.Equal(j.agains, c.agains) {
				t.Errorf("it begins again at %+v, want %+v", j.agains, c.agains)
			}
		})
	}
}

// TestGuide: the guide has what a move takes from it.
func TestGuide(t *testing.T) {
	t.Chdir("../../..")
	g := must.Get(readGuide())(t)
	for _, name := range []string{"seb-to-kafka.properties", "kafka-to-seb.properties"} {
		check.Containsf(t, g.files[name], "\nclusters = ", "%s", name)
		if !slices.Contains(g.commands, "connect-mirror-maker.sh "+name) {
			t.Errorf("no command uses %s", name)
		}
	}
	for _, begin := range []string{commandGroups, commandCheckOut, commandCheckBack} {
		if !slices.ContainsFunc(g.commands, func(c string) bool { return strings.HasPrefix(c, begin) }) {
			t.Errorf("no command begins with %q", begin)
		}
	}
	out := g.files["seb-to-kafka.properties"]
	for name, changes := range variants {
		changed := set(out, changes)
		if (changed == out) != (name == "guide") {
			t.Errorf("-settings %s: the properties are those of the guide: %v", name, changed == out)
		}
	}
}
