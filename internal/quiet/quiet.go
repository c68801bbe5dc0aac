// Package quiet keeps the standard logger silent while packages are being initialized. The metrics library prints a line
// there on kernels without pressure stall information, and neither the commands of seb nor a broker inside another program
// have anything to say on stderr unless something is wrong. Go initializes packages in the order of their import paths as soon as
// what they import is ready; this one is ready at once, the metrics library waits for packages whose paths come later. A test of the
// built program notices if that ever changes. Import it for its effect and call Restore afterwards.
package quiet

import (
	"io"
	"log"
)

// before is where the standard logger wrote.
var before = log.Writer()

func init() { log.SetOutput(io.Discard) }

// Restore gives the standard logger its output back, unless the program has set another one meanwhile. It may be called again.
func Restore() {
	if log.Writer() == io.Discard {
		log.SetOutput(before)
	}
}
