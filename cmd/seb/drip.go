package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/driplang/monitor"
	"github.com/sebbroker/seb/internal/engine/base/input"
	"github.com/sebbroker/seb/internal/protocols/httpapi"
	"github.com/sebbroker/seb/internal/triggers/rules/explain"
)

func newDrip() *cobra.Command {
	return family(&cobra.Command{
		Use:   "drip",
		Short: "Test expressions on events, without a broker",
		Long: `Expressions are conditions on one entity's events over time, such as

  user_created THEN (NOT use_feature_x WITHIN 7 days)

They are given as text, in the JSON form, or in the JSON form of the original program.`,
	}, newDripEval(), newDripExplain(), newDripStories(), newDripFmt(), newDripCheck())
}

// expression is the source of a command's expression.
type expression struct {
	file string
}

func (x *expression) register(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&x.file, "file", "f", "", "read the expression from a file, - for stdin")
}

// read reads the expression from the file, or from the first of args, and returns the other args.
// It shows the position of an error with a caret on stderr.
func (x *expression) read(cmd *cobra.Command, args []string) (e driplang.Expr, rest []string, err error) {
	var text string
	switch {
	case x.file != "":
		if text, err = readExpression(cmd, x.file); err != nil {
			return e, nil, err
		}
	case len(args) == 0:
		return e, nil, usageError{errors.New("give an expression, or its file with -f")}
	default:
		text, args = args[0], args[1:]
	}
	if e, err = parseExpression(text); err != nil {
		caret(cmd, text, err)
		return e, nil, err
	}
	return e, args, nil
}

// only reads the expression, and refuses other arguments.
func (x *expression) only(cmd *cobra.Command, args []string) (driplang.Expr, error) {
	e, rest, err := x.read(cmd, args)
	if err == nil && len(rest) > 0 {
		err = usageError{errors.New("give an expression or its file, not both")}
	}
	return e, err
}

// warned reads the expression, and prints its warnings on stderr.
func (x *expression) warned(cmd *cobra.Command, args []string) (driplang.Expr, error) {
	e, err := x.only(cmd, args)
	if err != nil {
		return e, err
	}
	for _, w := range e.Warnings() {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", w.Message)
	}
	return e, nil
}

// readExpression reads an expression, with a limit above the longest valid one.
func readExpression(cmd *cobra.Command, name string) (string, error) {
	in, err := openInput(cmd.InOrStdin(), "--file", name)
	if err != nil {
		return "", err
	}
	defer in.Close()
	text, err := input.ReadText(in, 2*driplang.MaxJSON)
	if err != nil {
		return "", usageError{fmt.Errorf("--file: %s: %w", name, err)}
	}
	return string(text), nil
}

// parseExpression parses an expression in any form. Only JSON forms begin with a brace, and only
// the original one has operators.
func parseExpression(text string) (driplang.Expr, error) {
	if !strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") {
		return driplang.Parse(text)
	}
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &members) == nil && members["operator"] != nil {
		return driplang.ParseOriginal([]byte(text))
	}
	return driplang.ParseJSON([]byte(text))
}

func newDripFmt() *cobra.Command {
	var x expression
	var to string
	cmd := &cobra.Command{
		Use:   "fmt [EXPRESSION]",
		Short: "Print an expression in canonical form, as text or JSON",
		Example: "  seb drip fmt 'a then not b within 90 min'\n  seb drip fmt --to json 'a THEN b'\n" +
			`  seb drip fmt '{"then":[{"event":"a"},{"event":"b"}]}'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if to != "text" && to != "json" {
				return usageError{fmt.Errorf("--to: %q, want text or json", to)}
			}
			e, err := x.only(cmd, args)
			if err != nil {
				return err
			}
			if to == "text" {
				fmt.Fprintln(cmd.OutOrStdout(), e)
				return nil
			}
			text, err := e.MarshalJSON()
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s\n", text)
			return nil
		},
	}
	x.register(cmd)
	cmd.Flags().StringVar(&to, "to", "text", "text or json")
	return cmd
}

func newDripExplain() *cobra.Command {
	var x expression
	cmd := &cobra.Command{
		Use:   "explain [EXPRESSION]",
		Short: "Print an expression in English",
		Long: `Prints a sentence that says when the expression is true, or a numbered outline if it is too deep for a sentence. Warnings go
to stderr. The words are for people and may change between versions.`,
		Example: "  seb drip explain 'user_created THEN (NOT use_feature_x WITHIN 7 days)'\n  seb drip explain -f expression.txt",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := x.warned(cmd, args)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), e.Sentence())
			return err
		},
	}
	x.register(cmd)
	return cmd
}

func newDripStories() *cobra.Command {
	var x expression
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "stories [EXPRESSION]",
		Short: "Show an expression by short histories that fire or do not",
		Long: `Prints short histories of one entity and whether the expression becomes true in each: the plainest one that fires, near misses,
those that are not decided yet, and the ends of windows. Most differ from an earlier one in one event or one instant. The
histories are made up; no event is read. Warnings go to stderr. The words are for people and may change between versions.`,
		Example: "  seb drip stories 'user_created THEN (NOT use_feature_x WITHIN 7 days)'\n  seb drip stories -f expression.txt --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := x.warned(cmd, args)
			if err != nil {
				return err
			}
			a, err := httpapi.StoriesOf(e)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(a)
			}
			return printStories(cmd.OutOrStdout(), a)
		},
	}
	x.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, as POST /drip/stories answers")
	return cmd
}

func printStories(w io.Writer, a *api.Stories) error {
	var b strings.Builder
	for i, s := range a.Stories {
		fmt.Fprintf(&b, "%d. %s\n", i+1, s.Text)
		if s.DiffersFrom != nil {
			fmt.Fprintf(&b, "   compared with %d: %s\n", *s.DiffersFrom+1, s.Difference)
		}
	}
	if a.Note != "" {
		fmt.Fprintln(&b, a.Note)
	}
	if a.Truncated {
		fmt.Fprintln(&b, "The expression is large, so not all its stories were looked for.")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func newDripCheck() *cobra.Command {
	var x expression
	cmd := &cobra.Command{
		Use:   "check [EXPRESSION]",
		Short: "Check an expression and print warnings",
		Long: `Prints warnings, if there are any. The exit code is 1 if the expression is invalid, or if it is true without any event,
because no trigger could fire for it.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := x.only(cmd, args)
			if err != nil {
				return err
			}
			for _, w := range e.Warnings() {
				fmt.Fprintf(cmd.OutOrStdout(), "warning: %s\n", w.Message)
			}
			p, err := monitor.Compile(e, monitor.Options{})
			if err != nil {
				return err
			}
			if p.Initially() == monitor.True {
				return errors.New("the expression is true without any event; add an event that starts it, such as \"signup AND ...\"")
			}
			return nil
		},
	}
	x.register(cmd)
	return cmd
}

// evalFlags are the flags of `seb drip eval`.
type evalFlags struct {
	expression expression
	at         string
	entity     string
	trace      bool
	asJSON     bool
}

func newDripEval() *cobra.Command {
	var f evalFlags
	cmd := &cobra.Command{
		Use:   "eval [EXPRESSION] [EVENTS]",
		Short: "Evaluate an expression for events: its value, until when, and why",
		Long: `Reads the events of one entity from the file EVENTS, or from stdin, one per line and in order:

  {"event":"user_created","at":"2026-03-01T12:00:00Z"}
  {"event":"use_feature_x","at":"2026-03-03T08:00:00Z","id":"optional","data":{"optional":1}}

It answers like POST /evaluate. Events after --at are ignored.

The lines may also be those for seb event -f, and those that seb consume prints of an events topic. The time of an event is its
"at", else its append time (printed by seb consume --format json), else its "occurred_at". If there are events of several
entities, --entity selects one.`,
		Example: "  seb drip eval 'a THEN (NOT b WITHIN 7 days)' events.ndjson --at 2026-03-08T12:00:00Z --trace\n  seb drip eval -f expression.txt events.ndjson\n" +
			"  seb consume events --format json | seb drip eval 'a THEN b' --entity u1",
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.expression.register(cmd)
	cmd.Flags().StringVar(&f.at, "at", "", "time of the evaluation, in RFC 3339 (default: now)")
	cmd.Flags().StringVar(&f.entity, "entity", "", "entity whose events count (default: the only one)")
	cmd.Flags().BoolVar(&f.trace, "trace", false, "first print what each event and deadline does, and the value from then on")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON")
	return cmd
}

func (f *evalFlags) run(cmd *cobra.Command, args []string) error {
	q, err := f.question(cmd, args)
	if err != nil {
		return err
	}
	for _, w := range q.Expr.Warnings() {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", w.Message)
	}
	out := cmd.OutOrStdout()
	table := aligned(out)
	var trace func(explain.Moment)
	if f.trace {
		trace = func(m explain.Moment) {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", explain.Time(m.At), happened(q, m), m.Value, m.Words())
		}
	}
	a, err := q.Answer(cmd.Context(), trace)
	if err != nil {
		return err
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if f.asJSON {
		return json.NewEncoder(out).Encode(httpapi.EvaluationOf(a))
	}
	next := "never, without further events"
	if a.Next != nil {
		next = explain.Time(*a.Next)
	}
	_, err = fmt.Fprintf(out, "value  %t\nnext   %s\nwhy    %s\n", a.Value, next, a.Why)
	return err
}

// question builds the question from the flags and the files.
func (f *evalFlags) question(cmd *cobra.Command, args []string) (*explain.Question, error) {
	q := &explain.Question{At: time.Now().UnixMilli()}
	var err error
	if f.at != "" {
		if q.At, err = explain.ParseTime(f.at); err != nil {
			return nil, usageError{fmt.Errorf("--at: %w", err)}
		}
	}
	if f.trace && f.asJSON {
		return nil, usageError{errors.New("--trace: cannot be combined with --json")}
	}
	if q.Expr, args, err = f.expression.read(cmd, args); err != nil {
		return nil, err
	}
	name := "-"
	switch {
	case len(args) > 1:
		return nil, usageError{errors.New("give an expression or its file, not both")}
	case len(args) == 1:
		name = args[0]
	}
	if name == "-" && f.expression.file == "-" {
		return nil, usageError{errors.New("--file: the expression and the events cannot both come from stdin")}
	}
	in, err := openInput(cmd.InOrStdin(), "EVENTS", name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	err = q.ReadEvents(in, f.entity)
	var fault *explain.Fault
	switch {
	case !errors.As(err, &fault):
	case fault.Field == "entity_id" && fault.Event < 0:
		err = fmt.Errorf("%w (--entity)", err)
	case fault.Field == "at" && strings.HasPrefix(fault.Message, "missing"):
		err = fmt.Errorf("%w; seb consume --format json prints the append time", err)
	}
	return q, err
}

// happened describes a line of the trace.
func happened(q *explain.Question, m explain.Moment) string {
	if m.Event < 0 {
		return "(time)"
	}
	return q.Events[m.Event].Name
}
