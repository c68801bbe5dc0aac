package testenv

import "syscall"

// Attributes makes a child process end with its parent.
func Attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
