//go:build !linux

package log

import "time"

// mono is a monotonic clock in ns. It may stop while the machine sleeps.
func mono() int64 { return int64(time.Since(began)) }

var began = time.Now()
