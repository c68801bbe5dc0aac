package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
)

// profiles are the profile files of this process; "": none.
type profiles struct{ cpu, memory string }

// around runs f with profiling. It writes the profiles even if f fails.
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
	runtime.GC() // an allocation profile covers the time up to the last collection
	return errors.Join(err, pprof.Lookup("allocs").WriteTo(out, 0), out.Close())
}
