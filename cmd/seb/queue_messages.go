package main

import (
	"bufio"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/engine/base/input"
)

// messageFlags are the flags of `seb queue send`.
type messageFlags struct {
	message client.OutgoingMessage
	key     string
	headers []string
	quiet   bool
}

func newQueueSend(r *remote) *cobra.Command {
	var f messageFlags
	cmd := &cobra.Command{
		Use:   "send QUEUE [VALUE]",
		Short: "Send VALUE, or each line of stdin, as a message",
		Long: `Sends VALUE as a message of QUEUE, or without VALUE each line of stdin, and prints the ID of each message when it is stored. The
attributes are those of all messages.`,
		Example:           "  seb queue send mails '{\"to\":\"ada\"}'\n  seb queue send mails --delay 1h --dedup order-7 '{\"to\":\"ada\"}'\n  seb queue send mails <jobs.ndjson",
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: r.queueNames,
		RunE:              r.action(func(cmd *cobra.Command, c *client.Client, args []string) error { return f.run(cmd, c, args) }),
	}
	flags := cmd.Flags()
	f.register(flags)
	flags.StringVar(&f.message.Delay, "delay", "", "time until a worker gets the messages, such as 90s or 1d")
	flags.StringVar(&f.message.At, "at", "", "time from which a worker gets the messages, such as 2026-03-01T12:00:00Z")
	flags.StringVar(&f.message.Dedup, "dedup", "", "ID of the message: others with it are not stored for a time")
	flags.StringVar(&f.message.Expire, "expire", "", "age at which no worker gets the messages any more, such as 1h")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print no IDs")
	return cmd
}

// register adds the flags of messages of any origin.
func (f *messageFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.key, "key", "", "key of the messages")
	flags.StringArrayVar(&f.headers, "header", nil, "a header, such as name=value")
	flags.IntVar(&f.message.Priority, "priority", 0, "priority of the messages; 0 is served first")
}

// Bounds of the messages of a request of `seb queue send`.
const (
	sendMessages = 1000
	sendBytes    = 1 << 20
)

// complete sets the key and the headers of the messages.
func (f *messageFlags) complete(cmd *cobra.Command) error {
	if cmd.Flags().Changed("key") {
		f.message.Key = &f.key
	}
	for _, h := range f.headers {
		name, value, ok := strings.Cut(h, "=")
		if !ok || name == "" {
			return usageError{fmt.Errorf("--header: %q, want name=value", h)}
		}
		f.message.Headers = append(f.message.Headers, api.Header{Key: name, Value: &value})
	}
	return nil
}

func (f *messageFlags) run(cmd *cobra.Command, c *client.Client, args []string) error {
	if err := f.complete(cmd); err != nil {
		return err
	}
	if len(args) == 2 {
		return f.send(cmd, c, args[0], []client.OutgoingMessage{f.of([]byte(args[1]))})
	}
	if f.message.Dedup != "" {
		return usageError{errors.New("--dedup: only for one VALUE, because all lines would have the same ID")}
	}
	lines := input.NewLines(cmd.InOrStdin(), lineMax)
	var batch []client.OutgoingMessage
	for size := 0; ; {
		line, err := lines.Next()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(batch) > 0 && (err != nil || len(batch) == sendMessages || size+len(line) > sendBytes) {
			if err := f.send(cmd, c, args[0], batch); err != nil {
				return err
			}
			batch, size = batch[:0], 0
		}
		if err != nil {
			return nil
		}
		batch, size = append(batch, f.of(line)), size+len(line)
	}
}

// of returns the message with a value.
func (f *messageFlags) of(value []byte) client.OutgoingMessage {
	m, text := f.message, string(value)
	if utf8.Valid(value) {
		m.Value = &text
		return m
	}
	text = base64.StdEncoding.EncodeToString(value)
	m.ValueBase64 = &text
	return m
}

// send sends messages, and prints their IDs. The error is that of the first that was refused.
func (f *messageFlags) send(cmd *cobra.Command, c *client.Client, queue string, batch []client.OutgoingMessage) error {
	results, err := c.SendMessages(cmd.Context(), queue, batch...)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(cmd.OutOrStdout())
	for i := range results {
		switch r := &results[i]; {
		case r.Code != "":
			err = errors.Join(err, fmt.Errorf("message %.40q: %s", cell(bytesOfMessage(&batch[i])), r.Detail))
		case f.quiet:
		case r.Duplicate:
			fmt.Fprintln(w, r.ID, "duplicate")
		default:
			fmt.Fprintln(w, r.ID)
		}
	}
	return errors.Join(err, w.Flush())
}

func bytesOfMessage(m *client.OutgoingMessage) []byte {
	if m.Value != nil {
		return []byte(*m.Value)
	}
	return []byte(*m.ValueBase64)
}

func newQueuePeek(r *remote) *cobra.Command {
	q := client.MessageQuery{MaxBytes: 4 * cellMax}
	limit, asJSON := limitDefault, false
	cmd := &cobra.Command{
		Use:   "peek QUEUE",
		Short: "List messages without giving them to a worker, the newest first",
		Long: `Lists the messages of a queue that are not done, or those in a state, the newest first. With --json each message is a line with its
whole value and all tries. REASON is that of the last failed try, or of a dead letter.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: r.queueNames,
		RunE: r.action(func(cmd *cobra.Command, c *client.Client, args []string) error {
			if q.Limit = min(pageOf(limit), pageMax); asJSON {
				q.MaxBytes = 0
			}
			l := listing[client.QueueMessage]{
				all: messagesOf(cmd, c, args[0], q), limit: limit, json: asJSON, head: "ID\tSTATE\tDELIVERIES\tSENT\tUNTIL\tREASON\tKEY\tVALUE", row: messageRow,
				object: func(w *bufio.Writer, m *client.QueueMessage) error { return json.NewEncoder(w).Encode(m) },
				more:   func(last *client.QueueMessage) string { return "use --before " + last.ID },
			}
			return l.print(cmd)
		}),
	}
	cmd.Flags().StringVar(&q.State, "state", "", "only messages in this state: ready, leased, delayed, retry or done")
	cmd.Flags().StringVar(&q.Before, "before", "", "only messages behind this ID in the list")
	cmd.Flags().IntVar(&limit, "limit", limitDefault, "maximum number of messages (0: all)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one message per line")
	return cmd
}

// messagesOf returns the messages of a queue, page by page.
func messagesOf(cmd *cobra.Command, c *client.Client, queue string, q client.MessageQuery) iter.Seq2[client.QueueMessage, error] {
	return func(yield func(client.QueueMessage, error) bool) {
		for {
			list, next, err := c.Messages(cmd.Context(), queue, q)
			if err != nil {
				yield(client.QueueMessage{}, err)
				return
			}
			for i := range list {
				if !yield(list[i], nil) {
					return
				}
			}
			if q.Before = next; next == "" {
				return
			}
		}
	}
}

func messageRow(m *client.QueueMessage) []any {
	key, until := "-", "-"
	if m.Key != nil {
		key = cell([]byte(*m.Key))
	}
	if !m.Until.IsZero() {
		until = ago(m.Until)
	}
	return []any{m.ID, m.State, m.Deliveries, ago(m.Sent), until, reasonOf(m), key, valueCell(m.Value, m.ValueBase64)}
}

// reasonOf is why the last try of a message failed; of a dead letter, that of the message that it was.
func reasonOf(m *client.QueueMessage) string {
	if n := len(m.Tries); n > 0 {
		return cell([]byte(cmp.Or(m.Tries[n-1].Reason, "-")))
	}
	for _, h := range m.Headers {
		if h.Key == "seb-reason" && h.Value != nil {
			return cell([]byte(*h.Value))
		}
	}
	return "-"
}

// valueCell is the value of a message in a table.
func valueCell(text, encoded *string) string {
	switch {
	case text != nil:
		return cell([]byte(*text))
	case encoded != nil:
		return "base64 " + cell([]byte(*encoded))
	}
	return "-"
}
