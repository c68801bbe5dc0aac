package driplang_test

import (
	"testing"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/test/must"
)

// TestRepeatedMembersOfData: data is stored as it was sent. Of repeated members the last one counts,
// with all that it contains, and names must be equal in each letter.
func TestRepeatedMembersOfData(t *testing.T) {
	for data, want := range map[string]map[string]bool{
		`{"x":1,"x":2}`:             {"x = 2": true, "x = 1": false},
		`{"x":2,"x":null}`:          {"x = null": true, "x = 2": false},
		`{"x":{"y":1},"x":{"z":2}}`: {"x.y = 1": false, "x.y = null": true, "x.z = 2": true},
		`{"x":{"y":1,"y":2}}`:       {"x.y = 2": true},
		`{"x":{"y":1},"x":3}`:       {"x = 3": true, "x.y = null": true},
		`{"x":3,"x":{"y":1}}`:       {"x.y = 1": true, "x = 3": false},
		`{"x":1,"X":2,"\u0078":3}`:  {"x = 3": true, "X = 2": true},
		`{"x":"\ud800"}`:            {"x = null": false, "x != \"a\"": true},
	} {
		for text, matches := range want {
			f := must.Get(driplang.ParseFilter(text))(t)
			if f.Match([]byte(data)) != matches {
				t.Errorf("%s for %s: %t", text, data, !matches)
			}
		}
	}
}
