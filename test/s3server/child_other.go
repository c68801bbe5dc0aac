//go:build unix && !linux

package s3server

import "syscall"

func childAttributes() *syscall.SysProcAttr { return nil }
