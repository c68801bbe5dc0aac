package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
)

// profiles are the files that profiles of this process go to; "": none.
type profiles struct{ cpu, memory string }

// around calls f and profiles it. What was measured is written although f failed.
func (p *profiles) around(f func() error) (err error) {
	if p.cpu != "" {
		out, e := os.Create(p.cpu)
		if e != nil {
			return usageError{fmt.Errorf("--cpuprofile: %w", e)}
		}
		defer func() { err = errors.Join(err, out.Close()) }()
		if e := pprof.StartCPUProfile(out); e != nil {
			return e
		}
		defer pprof.StopCPUProfile()
	}
	if p.memory == "" {
		return f()
	}
	out, err := os.Create(p.memory)
	if err != nil {
		return usageError{fmt.Errorf("--memprofile: %w", err)}
	}
	err = f()
	runtime.GC() // the profile is that of the last collection
	return errors.Join(err, pprof.Lookup("allocs").WriteTo(out, 0), out.Close())
}
