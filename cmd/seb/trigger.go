package main

import (
	"github.com/sebbroker/seb/internal/triggercmd"
	"github.com/spf13/cobra"
)

func newTrigger() *cobra.Command {
	var r remote
	return triggercmd.New(triggercmd.Remote{Register: r.register, With: r.with, Usage: wrongUsage})
}

func newEntity() *cobra.Command {
	var r remote
	return triggercmd.NewEntity(triggercmd.Remote{Register: r.register, With: r.with, Usage: wrongUsage})
}
