package main

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

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

// counted returns a number with its noun: 1 record, 2 records.
func counted(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
