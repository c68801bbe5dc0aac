package main

import (
	"errors"
	"fmt"

	"github.com/sebbroker/seb/client"
	"github.com/spf13/cobra"
)

func newEntity() *cobra.Command {
	var r remote
	return r.parent(&cobra.Command{Use: "entity", Short: "Erase the trigger state of an entity"}, newEntityErase(&r))
}

func newEntityErase(r *remote) *cobra.Command {
	var topic string
	var yes bool
	cmd := &cobra.Command{
		Use:   "erase ENTITY",
		Short: "Erase the trigger state and the firings of an entity",
		Long: `Erases the state and the firings of an entity, delivered or not, from every trigger of the topic. For later events it is a
new entity. This cannot be undone. The events themselves stay in the log until they are trimmed.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := nameable(args[0]); err != nil {
				return usageError{err}
			}
			return r.with(cmd, func(c *client.Client) error {
				if err := confirm(cmd, yes, true, "would permanently erase "+args[0]+" from all triggers"); err != nil {
					return err
				}
				if err := c.EraseEntity(cmd.Context(), topic, args[0]); err != nil {
					return err
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "%s is erased from all triggers; its events stay in the log until they are trimmed\n", args[0])
				return nil
			})
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.Flags().StringVar(&topic, "topic-name", "", "topic of its events (default: the broker's events topic)")
	return cmd
}

// nameable returns an error if an entity cannot be part of the path of a request.
func nameable(entity string) error {
	switch entity {
	case "":
		return errors.New("ENTITY: must not be empty")
	case ".", "..":
		return fmt.Errorf("ENTITY: %s cannot be part of the path of a request", entity)
	}
	return nil
}
