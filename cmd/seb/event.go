package main

import (
	"github.com/sebbroker/seb/internal/dripcmd"
	"github.com/spf13/cobra"
)

func newEvent() *cobra.Command {
	var r remote
	return dripcmd.NewEvent(dripcmd.Remote{Register: r.register, With: r.with, Usage: wrongUsage})
}

func newDrip() *cobra.Command { return dripcmd.New(wrongUsage) }

// wrongUsage makes an error one of the command line.
func wrongUsage(err error) error { return usageError{err} }
