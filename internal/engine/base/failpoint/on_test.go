//go:build failpoints

package failpoint

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
)

func TestParse(t *testing.T) {
	clear(points)
	must.NoError(t, parse("put.data.after=kill:3,list.before=stop:1,role=sleep:2:5ms"))
	p := points["put.data.after"]
	if len(points) != 3 || p.action != "kill" || p.left.Load() != 3 || points["role"].sleep != 5*time.Millisecond {
		t.Errorf("%v", points)
	}
	for _, bad := range []string{"nowhere=kill:1", "role", "role=kill", "role=kill:x", "role=kill:0", "role=dance:1", "role=sleep:1", "role=sleep:1:x", "role=slow:2"} {
		if err := parse(bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	clear(points)
}

func TestSlowRepeats(t *testing.T) {
	defer clear(points)
	must.NoError(t, parse("role=slow:3:20ms"))
	slow := 0
	for i := range 9 {
		begin := time.Now()
		Hit("role")
		if time.Since(begin) >= 20*time.Millisecond && (i+1)%3 == 0 {
			slow++
		}
	}
	if slow != 3 {
		t.Errorf("slow %d times of 3", slow)
	}
}

func TestEachHappensOnce(t *testing.T) {
	defer clear(points)
	must.NoError(t, parse("role=sleep:2:30ms"))
	var took [4]time.Duration
	for i := range took {
		begin := time.Now()
		Hit("role")
		took[i] = time.Since(begin)
	}
	if took[1] < 30*time.Millisecond || points["role"].left.Load() != -2 {
		t.Errorf("%v, %d left", took, points["role"].left.Load())
	}
}

// Names lists exactly the failpoints in the code.
func TestNames(t *testing.T) {
	used := []string{}
	hit := regexp.MustCompile(`failpoint\.Hit\("([^"]+)"\)`)
	put := regexp.MustCompile(`return "(put\.[a-z]+)"`)
	err := filepath.WalkDir("../../../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range hit.FindAllStringSubmatch(string(text), -1) {
			used = append(used, m[1])
		}
		if strings.HasSuffix(path, "/log/request.go") {
			for _, m := range put.FindAllStringSubmatch(string(text), -1) {
				used = append(used, m[1]+".before", m[1]+".after")
			}
		}
		return err
	})
	must.NoError(t, err)
	slices.Sort(used)
	names := slices.Sorted(slices.Values(Names))
	if !slices.Equal(used, names) {
		t.Errorf("used in the code %q\nlisted in Names %q", used, names)
	}
}
