package testenv

import "syscall"

// attributes lets the broker die with its parent.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
