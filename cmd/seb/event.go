package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/engine/base/input"
)

const (
	// chunkEvents bounds the events of a file in one request, together with chunkBytes.
	chunkEvents = 10_000
	// eventLineMax bounds a line of a file: the largest event, with room for white space.
	eventLineMax = 1 << 20
)

// eventFlags are the flags of `seb event`.
type eventFlags struct {
	remote     remote
	topic      string
	data       string
	id         string
	occurredAt string
	file       string
	quiet      bool
}

func newEvent() *cobra.Command {
	var f eventFlags
	cmd := &cobra.Command{
		Use:   "event NAME ENTITY",
		Short: "Send an event, or the events of a file",
		Long: `Sends an event of an entity, or the events of a file, one per line in the format of POST /event:

  {"event":"purchase","entity_id":"u1","data":{"amount":120},"id":"order-7","occurred_at":"2026-03-01T12:00:00Z"}

Only event and entity_id are required. The command returns when all events are stored.`,
		Example: "  seb event user_created u1 --data '{\"name\":\"Ada\"}'\n  seb event -f events.ndjson",
		Args:    cobra.MaximumNArgs(2),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.remote.register(cmd)
	cmd.Flags().StringVar(&f.topic, "topic-name", "", "topic of the events (default: the broker's events topic)")
	cmd.Flags().StringVar(&f.data, "data", "", "data of the event, a JSON object")
	cmd.Flags().StringVar(&f.id, "id", "", "unique ID among the events of the entity; triggers ignore a repeated ID")
	cmd.Flags().StringVar(&f.occurredAt, "occurred-at", "", "time of the event, in RFC 3339; stored, and informational only")
	cmd.Flags().StringVarP(&f.file, "file", "f", "", "file with events to send, - for stdin")
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "print no summary")
	return cmd
}

func (f *eventFlags) run(cmd *cobra.Command, args []string) error {
	options := client.EventOptions{Topic: f.topic}
	if f.file != "" {
		if len(args) > 0 || f.data != "" || f.id != "" || f.occurredAt != "" {
			return usageError{errors.New("--file: cannot be combined with an event on the command line")}
		}
		return f.sendFile(cmd, options)
	}
	e, err := f.event(args)
	if err != nil {
		return usageError{err}
	}
	return f.remote.with(cmd, func(c *client.Client) error {
		at, err := c.ProduceEvent(cmd.Context(), e, options)
		if err != nil || f.quiet {
			return err
		}
		text := fmt.Sprintf("event stored in %s partition %d at offset %d, %s", at.Topic, at.Partition, at.Offset, at.Time.Format(time.RFC3339Nano))
		if at.Duplicate {
			text += "; triggers ignore it, because its id is a duplicate"
		}
		fmt.Fprintln(cmd.ErrOrStderr(), text)
		return nil
	})
}

// event returns the event of the command line.
func (f *eventFlags) event(args []string) (client.Event, error) {
	if len(args) != 2 {
		return client.Event{}, errors.New("give the name of an event and its entity, or a file with -f")
	}
	e := client.Event{Name: args[0], EntityID: args[1], ID: f.id}
	if f.data != "" {
		if !json.Valid([]byte(f.data)) {
			return e, errors.New("--data: not JSON")
		}
		e.Data = json.RawMessage(f.data)
	}
	if f.occurredAt != "" {
		var err error
		if e.OccurredAt, err = input.Time(f.occurredAt); err != nil {
			return e, fmt.Errorf("--occurred-at: %w", err)
		}
	}
	return e, nil
}

// sendFile sends the events of the file in chunks, one request after the other, so that the events
// of an entity keep their order.
func (f *eventFlags) sendFile(cmd *cobra.Command, options client.EventOptions) error {
	in, err := openInput(cmd.InOrStdin(), "--file", f.file)
	if err != nil {
		return err
	}
	defer in.Close()
	lines := &eventLines{lines: input.NewLines(in, eventLineMax)}
	return f.remote.with(cmd, func(c *client.Client) error {
		stored, err := lines.send(cmd.Context(), func(ctx context.Context, events []client.Event) error {
			_, err := c.ProduceEvents(ctx, events, options)
			return err
		})
		if err != nil {
			return fmt.Errorf("after %d stored events: %w", stored, err)
		}
		if !f.quiet {
			fmt.Fprintf(cmd.ErrOrStderr(), "%d events stored\n", stored)
		}
		return nil
	})
}

// eventLines is a file of events.
type eventLines struct {
	lines *input.Lines
	first int // line of the first event of a chunk
}

// send passes the events to produce in chunks, and returns the number of stored ones.
func (l *eventLines) send(ctx context.Context, produce func(context.Context, []client.Event) error) (stored int, err error) {
	for {
		events, fault := l.chunk()
		// Events before an invalid line are sent, like those of earlier chunks.
		if len(events) > 0 {
			if err := produce(ctx, events); err != nil {
				return stored, fmt.Errorf("lines %d to %d: %w", l.first, l.lines.Number(), err)
			}
			stored += len(events)
		}
		if fault != nil || len(events) == 0 {
			return stored, fault
		}
	}
}

// chunk reads the next events; none means the end.
func (l *eventLines) chunk() (events []client.Event, err error) {
	for n := 0; n < chunkBytes && len(events) < chunkEvents; {
		text, err := l.lines.NextValue()
		if err == io.EOF {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		var e struct {
			client.Event
			Data json.RawMessage `json:"data" input:"data"`
		}
		if err := input.JSON(text, &e, input.NullIsAbsent); err != nil {
			return events, fmt.Errorf("line %d: %w", l.lines.Number(), err)
		}
		e.Event.Data = e.Data
		if len(events) == 0 {
			l.first = l.lines.Number()
		}
		events = append(events, e.Event)
		n += len(text)
	}
	return events, nil
}

func newEntity() *cobra.Command {
	var r remote
	return r.parent(&cobra.Command{Use: "entity", Short: "Show and erase the trigger state of an entity"}, newEntityShow(&r), newEntityErase(&r))
}

func newEntityShow(r *remote) *cobra.Command {
	var after string
	l := listing[client.EntityTrigger]{
		head: "TRIGGER\tVALUE\tFIRINGS\tLAST\tNEXT\tWAITS",
		row: func(x *client.EntityTrigger) []any {
			return []any{x.Trigger, x.Value, x.Firings, next(x.Last), next(x.Next), x.WaitsFor}
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
	var yes *bool
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
				if err := confirm(cmd, *yes, true, "would permanently erase "+args[0]+" from all triggers"); err != nil {
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
	yes = yesFlag(cmd)
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
