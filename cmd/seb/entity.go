package main

import (
	"errors"
	"fmt"

	"github.com/sebbroker/seb/client"
	"github.com/spf13/cobra"
)

func newEntity() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:   "entity",
		Short: "Have triggers forget an entity",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	r.register(cmd)
	cmd.AddCommand(newEntityErase(&r))
	return cmd
}

func newEntityErase(r *remote) *cobra.Command {
	var topic string
	var yes bool
	cmd := &cobra.Command{
		Use:   "erase ENTITY",
		Short: "Forget what triggers know of an entity, and what they have fired for it",
		Long: `Has every trigger of the topic forget an entity, with its firings, delivered or not. What comes later is of an entity that is
new. It can not be undone. The events themselves stay in the log until they are trimmed.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := nameable(args[0]); err != nil {
				return usageError{err}
			}
			return r.with(cmd, func(c *client.Client) error {
				if err := confirm(cmd, yes, true, "would have triggers forget "+args[0]+" for good"); err != nil {
					return err
				}
				if err := c.EraseEntity(cmd.Context(), topic, args[0]); err != nil {
					return err
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "triggers have forgotten %s; its events stay until they are trimmed\n", args[0])
				return nil
			})
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.Flags().StringVar(&topic, "topic-name", "", "topic of its events (default: that of the broker)")
	return cmd
}

// nameable refuses what can not stand in the path of a request.
func nameable(entity string) error {
	switch entity {
	case "":
		return errors.New("ENTITY: it is empty")
	case ".", "..":
		return fmt.Errorf("ENTITY: %s can not be named in the path of a request", entity)
	}
	return nil
}
