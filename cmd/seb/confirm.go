package main

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// confirm asks a person at a terminal whether to do what cannot be undone. Without a terminal it is done if optional, which
// is for commands that scripts have used before they asked, and else needs --yes.
func confirm(cmd *cobra.Command, yes, optional bool, what string) error {
	if yes {
		return nil
	}
	if !isTerminal(cmd.InOrStdin()) || !isTerminal(cmd.ErrOrStderr()) {
		if optional {
			return nil
		}
		return usageError{errors.New(what + "; say so with --yes")}
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s. Continue? [y/N] ", what)
	answer, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n') // its end is a no
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer == "y" || answer == "yes" {
		return nil
	}
	return errors.New("nothing was changed")
}

// counted is a number with its noun: 1 record, 2 records.
func counted(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
