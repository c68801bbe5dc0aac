package killloop

import "syscall"

// childAttributes lets the broker die with the test.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
