package main

import (
	"bufio"
	"errors"
	"fmt"

	"github.com/sebbroker/seb/client"
	"github.com/spf13/cobra"
)

func newEntity() *cobra.Command {
	var r remote
	return r.parent(&cobra.Command{Use: "entity", Short: "Show and erase the trigger state of an entity"}, newEntityShow(&r), newEntityErase(&r))
}

func newEntityShow(r *remote) *cobra.Command {
	var after string
	l := listing[client.EntityTrigger]{
		head: "TRIGGER\tVALUE\tFIRINGS\tLAST\tNEXT\tWAITS",
		row: func(w *bufio.Writer, x *client.EntityTrigger) error {
			_, err := fmt.Fprintf(w, "%s\t%t\t%d\t%s\t%s\t%s\n", x.Trigger, x.Value, x.Firings, next(x.Last), next(x.Next), x.WaitsFor)
			return err
		},
		object: func(w *bufio.Writer, x *client.EntityTrigger) error { return writeLine(w, x) },
		more:   func(last *client.EntityTrigger) string { return "continue with --after " + last.Trigger },
	}
	cmd := &cobra.Command{
		Use:   "show ENTITY",
		Short: "List the triggers that know an entity, with its state for each",
		Long: `Lists the triggers that have state or firings of an entity: the value of the expression, the number of firings and the time of
the last one, when the value changes without further events, and what the trigger waits for.

"seb key history events ENTITY" prints the events of an entity, "seb trigger fires --entity ENTITY" its firings.`,
		Example: "  seb entity show u7",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := nameable(args[0]); err != nil {
				return usageError{err}
			}
			return r.with(cmd, func(c *client.Client) error {
				l.all = c.EntityTriggers(cmd.Context(), args[0], after)
				return l.print(cmd)
			})
		},
	}
	cmd.Flags().StringVar(&after, "after", "", "only triggers after this ID")
	cmd.Flags().IntVarP(&l.limit, "limit", "n", limitDefault, "stop after N triggers (0: no limit)")
	cmd.Flags().BoolVar(&l.json, "json", false, "print JSON, one trigger per line")
	return cmd
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
