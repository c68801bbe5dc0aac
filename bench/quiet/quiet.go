// Package quiet keeps the standard logger silent while packages are being initialized: the metrics library of Seb prints a
// line there on kernels without pressure stall information. It imports almost nothing, so that it is initialized before that
// library. Import it for its effect and call Restore first thing in main.
package quiet

import (
	"io"
	"log"
	"os"
)

func init() { log.SetOutput(io.Discard) }

// Restore gives the standard logger its output back.
func Restore() { log.SetOutput(os.Stderr) }
