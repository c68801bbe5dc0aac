package testenv

import "syscall"

// childAttributes lets the server die with a test process that is killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
