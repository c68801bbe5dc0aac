//go:build !linux

package testenv

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
