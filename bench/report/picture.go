package report

import (
	"fmt"
	"strings"

	"github.com/sebbroker/seb/bench/result"
)

// Picture is a chart with the name of its file, without an extension.
type Picture struct {
	Name  string
	Chart *Chart
}

// Pictures returns all charts of works: those of each, and those of several together. Their names
// are unique.
func Pictures(works []*Work) (list []Picture) {
	taken := map[string]int{}
	add := func(name string, c *Chart) {
		if len(c.Lines) == 0 {
			return
		}
		taken[name]++
		if n := taken[name]; n > 1 {
			name = fmt.Sprintf("%s-%d", name, n)
		}
		list = append(list, Picture{name, c})
	}
	for _, c := range Knees(works, 99) {
		add("rates", c)
	}
	for _, c := range Omissions(works) {
		add("loops", c)
	}
	for i, w := range works {
		name := fmt.Sprintf("%02d-%s", i+1, FileName(w.Workload.Name))
		if w.Headline() == result.E2EIntended {
			add(name+"-delivered", w.Percentiles(result.E2EIntended, result.E2ESent))
		}
		add(name+"-acknowledged", w.Percentiles(result.AckIntended, result.AckSent))
		add(name+"-seconds", w.Seconds(99))
	}
	return list
}

// FileName makes a name safe for files and links.
func FileName(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, name)
}
