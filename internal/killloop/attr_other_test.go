//go:build !linux

package killloop

import "syscall"

func childAttributes() *syscall.SysProcAttr { return nil }
