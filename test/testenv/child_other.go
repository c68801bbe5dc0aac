//go:build unix && !linux

package testenv

import "syscall"

func childAttributes() *syscall.SysProcAttr { return nil }
