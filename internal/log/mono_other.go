//go:build !linux

package log

import "time"

// mono is a clock that nobody sets, ns. It may stand still while the machine sleeps.
func mono() int64 { return int64(time.Since(began)) }

var began = time.Now()
