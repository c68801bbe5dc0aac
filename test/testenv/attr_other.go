//go:build !linux

package testenv

import "syscall"

// Attributes returns no attributes: only Linux can end a child process with its parent.
func Attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
