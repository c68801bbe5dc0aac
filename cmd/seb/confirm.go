package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/client"
)

// yesFlag adds the flag of a destructive command that takes the place of confirm's question.
func yesFlag(cmd *cobra.Command) *bool { return cmd.Flags().BoolP("yes", "y", false, "do not ask") }

// confirm asks at a terminal whether to do an irreversible action. Without a terminal it requires
// --yes, unless optional is set. Commands set optional if scripts used them before they asked.
func confirm(cmd *cobra.Command, yes, optional bool, what string) error {
	if yes {
		return nil
	}
	if !isTerminal(cmd.InOrStdin()) || !isTerminal(cmd.ErrOrStderr()) {
		if optional {
			return nil
		}
		return usageError{errors.New(what + "; confirm with --yes")}
	}
	if agreed(cmd, what+". Continue?") {
		return nil
	}
	return errors.New("canceled: nothing was changed")
}

// agreed asks a question on stderr and reads the answer from stdin. The end of stdin means no.
func agreed(cmd *cobra.Command, question string) bool {
	fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", question)
	answer, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

// deleting sets the action of cmd: ask, delete what its argument names, and say so. The texts have a %s for
// the name. Scripts used these commands before they asked.
func (r *remote) deleting(cmd *cobra.Command, question, done string, del func(*client.Client, context.Context, string) error) *cobra.Command {
	yes := yesFlag(cmd)
	cmd.RunE = r.action(func(cmd *cobra.Command, c *client.Client, args []string) error {
		if err := confirm(cmd, *yes, true, fmt.Sprintf(question, args[0])); err != nil {
			return err
		}
		if err := del(c, cmd.Context(), args[0]); err != nil {
			return err
		}
		return deleted(cmd, done, args[0])
	})
	return cmd
}

// deleted prints what a command has deleted.
func deleted(cmd *cobra.Command, format string, args ...any) error {
	_, err := fmt.Fprintf(cmd.OutOrStdout(), format+"\n", args...)
	return err
}
