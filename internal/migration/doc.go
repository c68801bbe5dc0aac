// Package migration moves topics between version-1 buckets and a broker, over its HTTP interface.
package migration

import "fmt"

// Reporter is told how a migration goes, from one goroutine. Nil functions are left out.
type Reporter struct {
	Say func(line string) // what a person should know
	// Start is told how much there is to do (bytes of files for an import, records for an export) and returns what is told
	// of each part that is done.
	Start func(total int64) (progress func(n int64))
}

type sayFunc func(format string, args ...any)

func (r *Reporter) sayFunc() sayFunc {
	return func(format string, args ...any) {
		if r.Say != nil {
			r.Say(fmt.Sprintf(format, args...))
		}
	}
}

func (r *Reporter) start(total int64) func(int64) {
	if r.Start == nil {
		return func(int64) {}
	}
	return r.Start(total)
}
