// Command run runs the simulator on one kind of seeds after the other until an invariant breaks in each, and prints a line for each: how many
// runs that took (0: nothing broke), the CPU time, the last seed, what broke. The tests of mutants build it with one mutant at a time.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/sebbroker/seb/internal/machine"
	"github.com/sebbroker/seb/test/mutants"
)

func main() {
	debug.SetGCPercent(400) // as the tests of the simulator do
	for _, k := range mutants.Kinds {
		if slices.Contains(os.Args[1:], k.Name) {
			until(&k)
		}
	}
}

func until(k *mutants.Kind) {
	began := machine.CPUTime()
	for i := range k.N {
		if seed, err := k.Run(i); err != nil {
			what, _, _ := strings.Cut(err.Error(), "\n")
			fmt.Printf("%s %d %d %d %s\n", k.Name, i+1, (machine.CPUTime() - began).Milliseconds(), seed, what)
			return
		}
	}
	fmt.Printf("%s 0 %d 0 nothing\n", k.Name, (machine.CPUTime() - began).Milliseconds())
}
