//go:build !linux

package failover

import (
	"context"
	"errors"
)

var errLinux = errors.New("network namespaces need Linux")

// Isolated reports whether Isolate has started this process.
func Isolated() bool { return false }

// NamespacesMissing returns why Isolate does not work here.
func NamespacesMissing(context.Context) error { return errLinux }

// Isolate needs Linux.
func Isolate(context.Context, []string) error { return errLinux }

func privateRun() error { return errLinux }

func smallDisk(string, int) error { return errLinux }

func within(string, func() error) error { return errLinux }
