// Command run runs the simulator on one kind of seeds after the other, as given by its arguments
// (mutants.ParseSeeds), until an invariant breaks in each. It prints a line for each: the number of
// runs (0: nothing broke), the CPU time in ms, the last seed, and the violation. The tests of
// mutants build it with one mutant at a time.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/sebbroker/seb/internal/machine"
	"github.com/sebbroker/seb/test/mutants"
)

func main() {
	debug.SetGCPercent(400) // as in the tests of the simulator
	for _, arg := range os.Args[1:] {
		seeds, err := mutants.ParseSeeds(arg)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		for _, k := range mutants.Kinds {
			if k.Name == seeds.Kind {
				until(&k, seeds.From)
			}
		}
	}
}

func until(k *mutants.Kind, from uint64) {
	began := machine.CPUTime()
	for i := from; i < k.N; i++ {
		if seed, err := k.Run(i); err != nil {
			what, _, _ := strings.Cut(err.Error(), "\n")
			fmt.Printf("%s %d %d %d %s\n", k.Name, i+1-from, (machine.CPUTime() - began).Milliseconds(), seed, what)
			return
		}
	}
	fmt.Printf("%s 0 %d 0 nothing\n", k.Name, (machine.CPUTime() - began).Milliseconds())
}
