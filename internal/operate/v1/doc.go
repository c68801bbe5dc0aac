// Package v1 copies topics between buckets of the original program (version 1) and a broker, over the
// broker's HTTP API, and reads and writes the files of those buckets (FORMAT.md).
package v1

import "fmt"

// Reporter receives the progress of an import or export, from one goroutine. Its functions may be nil.
type Reporter struct {
	Say func(line string) // messages for a person
	// Start gets the total of the work (bytes of files for an import, records for an export). The
	// returned function gets the size of each completed part.
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
