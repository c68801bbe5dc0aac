package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/driplang/monitor"
	"github.com/spf13/cobra"
)

func newDrip() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drip",
		Short: "Test expressions on events, without a broker",
		Long: `Expressions are conditions on one entity's events over time, such as

  user_created THEN (NOT use_feature_x WITHIN 7 days)

They are given as text, in the JSON form, or in the JSON form of the original program.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDripEval(), newDripFmt(), newDripCheck())
	return cmd
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
		if fault, ok := errors.AsType[*driplang.Error](err); ok {
			if caret := fault.Caret(text); caret != "" {
				fmt.Fprintln(cmd.ErrOrStderr(), caret)
			}
		}
		return e, nil, err
	}
	return e, args, nil
}

// readExpression reads an expression, with a limit above the longest valid one.
func readExpression(cmd *cobra.Command, name string) (string, error) {
	in := cmd.InOrStdin()
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return "", err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, 2*driplang.MaxJSON))
	return string(text), err
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
			e, rest, err := x.read(cmd, args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return usageError{errors.New("give an expression or its file, not both")}
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

func newDripCheck() *cobra.Command {
	var x expression
	cmd := &cobra.Command{
		Use:   "check [EXPRESSION]",
		Short: "Check an expression and print warnings",
		Long: `Prints warnings, if there are any. The exit code is 1 if the expression is invalid, or if it is true without any event,
because no trigger could fire for it.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, rest, err := x.read(cmd, args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return usageError{errors.New("give an expression or its file, not both")}
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
