// Package quiet keeps the standard logger silent while packages are being initialized. The metrics library prints a line
// there on kernels without pressure stall information, and the commands of seb have nothing to say on stderr unless
// something is wrong. Go initializes packages in the order of their import paths as soon as what they import is ready;
// this one is ready at once, the metrics library waits for packages whose paths come later. A test of the built program
// notices if that ever changes. Import it for its effect and call Restore first thing in main.
package quiet

import (
	"io"
	"log"
	"os"
)

func init() { log.SetOutput(io.Discard) }

// Restore gives the standard logger its output back.
func Restore() { log.SetOutput(os.Stderr) }
