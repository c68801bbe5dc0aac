package main

import (
	"github.com/sebbroker/seb/internal/triggercmd"
	"github.com/spf13/cobra"
)

func newTrigger() *cobra.Command {
	var r remote
	return triggercmd.New(triggercmd.Remote{Register: r.register, With: r.with, Usage: wrongUsage, Confirm: confirmIfAsked})
}

func newEntity() *cobra.Command {
	var r remote
	return triggercmd.NewEntity(triggercmd.Remote{Register: r.register, With: r.with, Usage: wrongUsage, Confirm: confirmIfAsked})
}

// confirmIfAsked asks at a terminal only: scripts have used these commands before they asked.
func confirmIfAsked(cmd *cobra.Command, yes bool, what string) error {
	return confirm(cmd, yes, true, what)
}
