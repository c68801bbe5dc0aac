package interop

import (
	"strings"
	"testing"
)

// TestJudge has histories of groups with one fault each, which judge must find.
func TestJudge(t *testing.T) {
	good := []string{
		"1 a assigned 0 0", "2 a read 0 0 10", "3 a committed 0 10", "4 a read 0 10 20", "5 a revoked 0",
		"6 b assigned 0 10", "7 b read 0 10 30", "8 b committed 0 30",
	}
	for _, c := range []struct{ name, old, now, want string }{
		{"good", "", "", ""},
		{"two owners", "5 a revoked 0", "5 a read 0 20 20", "which a has"},
		{"a commit that was lost", "6 b assigned 0 10", "6 b assigned 0 5", "10 was committed"},
		{"a start after the last read", "6 b assigned 0 10", "6 b assigned 0 21", "read until 20"},
		{"a gap", "7 b read 0 10 30", "7 b read 0 25 30", "no member has read from 20"},
		{"an end that is missing", "7 b read 0 10 30", "7 b read 0 10 29", "read until 29"},
		{"a commit that is missing", "8 b committed 0 30", "8 b committed 0 29", "committed 29"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d diary
			for _, line := range good {
				if line == c.old {
					line = c.now
				}
				f := strings.SplitN(line, " ", 3)
				d.line(f[1], f[0]+" "+f[2])
			}
			got := strings.Join(judge(d.sorted(), 30, 1, false), "; ")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
