// Package quiet silences the standard logger while packages are initialized. The metrics library
// then prints a line on kernels without pressure stall information. Commands of seb, and a broker
// inside another program, must write to stderr only if something is wrong. Import the package for
// its effect and call Restore afterwards.
//
// Go initializes packages in the order of their import paths, each as soon as its imports are
// ready. This package is ready immediately and comes before the metrics library in that order. A
// test of the built program checks the effect.
package quiet

import (
	"io"
	"log"
)

// before is the original output of the standard logger.
var before = log.Writer()

func init() { log.SetOutput(io.Discard) }

// Restore gives the standard logger its original output back, unless the program has set another
// one. It may be called again.
func Restore() {
	if log.Writer() == io.Discard {
		log.SetOutput(before)
	}
}
