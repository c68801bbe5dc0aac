package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/spf13/cobra"
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
		if err := e.OccurredAt.UnmarshalText([]byte(f.occurredAt)); err != nil {
			return e, fmt.Errorf("--occurred-at: want RFC 3339, such as 2026-03-01T12:00:00Z, given %q", f.occurredAt)
		}
	}
	return e, nil
}

// sendFile sends the events of the file in chunks, one request after the other, so that the events
// of an entity keep their order.
func (f *eventFlags) sendFile(cmd *cobra.Command, options client.EventOptions) error {
	var in io.Reader = cmd.InOrStdin()
	if f.file != "-" {
		file, err := os.Open(f.file)
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
	}
	lines := &eventLines{scanner: bufio.NewScanner(in)}
	lines.scanner.Buffer(nil, eventLineMax)
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
	scanner *bufio.Scanner
	line    int // the last line read, from 1
	first   int // line of the first event of a chunk
}

// send passes the events to produce in chunks, and returns the number of stored ones.
func (l *eventLines) send(ctx context.Context, produce func(context.Context, []client.Event) error) (stored int, err error) {
	for {
		events, fault := l.chunk()
		// Events before an invalid line are sent, like those of earlier chunks.
		if len(events) > 0 {
			if err := produce(ctx, events); err != nil {
				return stored, fmt.Errorf("lines %d to %d: %w", l.first, l.line, err)
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
		if !l.scanner.Scan() {
			if err := l.scanner.Err(); err != nil {
				return events, fmt.Errorf("line %d: %w", l.line+1, err)
			}
			return events, nil
		}
		l.line++
		text := l.scanner.Bytes()
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		var e client.Event
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&e); err != nil {
			return events, fmt.Errorf("line %d: %w", l.line, err)
		}
		if _, err := d.Token(); err != io.EOF {
			return events, fmt.Errorf("line %d: more than one JSON value", l.line)
		}
		if len(events) == 0 {
			l.first = l.line
		}
		events = append(events, e)
		n += len(text)
	}
	return events, nil
}
