package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/engine/base/input"
	"github.com/sebbroker/seb/internal/engine/base/sorting"
	"github.com/sebbroker/seb/internal/triggers/delivery/webhook"
	"github.com/spf13/cobra"
)

// applyFlags are the flags of `seb trigger apply`.
type applyFlags struct {
	remote *remote
	files  []string
	prune  bool
	yes    bool
	diff   bool
}

func newTriggerApply(r *remote) *cobra.Command {
	f := applyFlags{remote: r}
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Create and change triggers from files, after showing the differences",
		Long: `Reads a file, or all .yaml, .yml and .json files of a folder, with one trigger each: the members of PUT /triggers/{id} and
an id, which defaults to the name of the file:

  id: no-x
  expr: user_created THEN (NOT use_feature_x WITHIN 7 days)
  fire: once
  deliver:
    url: https://mail.example.com/hook
    secrets: ["${HOOK_SECRET}"]

A definition is complete: an omitted member gets its default, except status, which is unchanged. ${NAME} in url, secrets and
headers is replaced by the environment variable. Hidden files and the locks, copies and drafts of editors are skipped.

Shows the changes and asks before it applies them. A trigger that another client changes meanwhile is not overwritten. Triggers
without a file are kept, or deleted with --prune. If a file is invalid nothing is changed. A trigger with secrets is always
stored again, because the broker does not reveal its secrets; that does not create a new version.`,
		Example: "  seb trigger apply -f no-x.yaml\n  seb trigger apply -f triggers/ --yes --prune\n" +
			"  echo '{\"id\":\"ab\",\"expr\":\"a THEN b\"}' | seb trigger apply -f - --yes",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	cmd.Flags().StringArrayVarP(&f.files, "file", "f", nil, "file or folder, - for stdin; may be repeated")
	cmd.Flags().BoolVar(&f.prune, "prune", false, "delete triggers without a file")
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&f.diff, "diff", false, "only show the differences")
	return cmd
}

func (f *applyFlags) run(cmd *cobra.Command) error {
	if len(f.files) == 0 {
		return usageError{errors.New("-f is required: a file or a folder")}
	}
	if slices.Contains(f.files, "-") && !f.yes && !f.diff {
		return usageError{errors.New("--file: - needs --yes or --diff, because stdin cannot confirm the changes")}
	}
	wanted, err := readTriggers(cmd, f.files)
	if err != nil {
		return err
	}
	if len(wanted) == 0 {
		return usageError{fmt.Errorf("--file: no .yaml, .yml or .json files in %s", strings.Join(f.files, ", "))}
	}
	return f.remote.with(cmd, func(c *client.Client) error {
		present, err := c.Triggers(cmd.Context())
		if err != nil {
			return err
		}
		p := planOf(wanted, present, f.prune)
		p.print(cmd.OutOrStdout())
		switch {
		case f.diff:
			return nil
		case len(p.puts)+len(p.deletes) == 0:
			return nil
		case !f.yes && !agreed(cmd, "Apply these changes?"):
			return errors.New("canceled: nothing was changed")
		}
		return p.do(cmd, c)
	})
}

// readTriggers reads files and folders. The error names every invalid file.
func readTriggers(cmd *cobra.Command, paths []string) (list []trigger, err error) {
	var names []string
	for _, path := range paths {
		if path == "-" {
			names = append(names, path)
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, usageError{fmt.Errorf("--file: %w", err)}
		}
		if !info.IsDir() {
			names = append(names, path)
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, usageError{fmt.Errorf("--file: %w", err)}
		}
		for _, e := range entries {
			if !e.IsDir() && !input.Skipped(e.Name()) && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
				names = append(names, filepath.Join(path, e.Name()))
			}
		}
	}
	var faults []error
	from := map[string]string{}
	for _, name := range names {
		t, err := readTrigger(cmd.InOrStdin(), name)
		if err == nil {
			if err = t.check(); err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
		}
		switch {
		case err != nil:
			caret(cmd, t.text, err)
			faults = append(faults, err)
		case from[t.ID] != "":
			faults = append(faults, fmt.Errorf("%s: id %s is also that of %s", name, t.ID, from[t.ID]))
		default:
			from[t.ID] = name
			list = append(list, t)
		}
	}
	sorting.Sort(list, func(a, b trigger) int { return cmp.Compare(a.ID, b.ID) })
	return list, errors.Join(faults...)
}

// change describes the change of a trigger. sign is + if it is new, - if it is deleted, ~ if it
// changes, = if it is unchanged, ? if only the broker has it.
type change struct {
	sign  byte
	id    string
	note  string
	lines []string
}

// plan has the actions of apply.
type plan struct {
	changes []change
	puts    []*trigger
	deletes []string
}

func planOf(wanted []trigger, present []client.Trigger, prune bool) *plan {
	p := &plan{}
	there := map[string]*client.Trigger{}
	for i := range present {
		there[present[i].ID] = &present[i]
	}
	for i := range wanted {
		t := &wanted[i]
		old := there[t.ID]
		delete(there, t.ID)
		c := change{sign: '+', id: t.ID, note: "new", lines: differences(t, old)}
		if old != nil {
			t.tag = old.Tag
			c.sign, c.note = '~', ""
			if len(c.lines) == 0 {
				c.sign, c.note = '=', "unchanged"
			}
		}
		secret := hasSecrets(t.Deliver)
		if c.sign == '=' && secret {
			c.note = "unchanged, except possibly its secrets, which are stored again"
		}
		if c.sign != '=' || secret {
			p.puts = append(p.puts, t)
		}
		p.changes = append(p.changes, c)
	}
	for id := range there {
		c := change{sign: '?', id: id, note: "no file; --prune deletes it"}
		if prune {
			c.sign, c.note = '-', "deleted"
			p.deletes = append(p.deletes, id)
		}
		p.changes = append(p.changes, c)
	}
	slices.Sort(p.deletes)
	sorting.Sort(p.changes, func(a, b change) int { return cmp.Compare(a.id, b.id) })
	return p
}

// differences returns the lines for the changed members of a trigger, nil if there are none. For a
// new trigger it returns the members without their default.
func differences(t *trigger, old *client.Trigger) (lines []string) {
	was := map[string]string{"fire": "once", "backfill": "silent", "carry_fired": "true", "status": "active"}
	if old != nil {
		was = map[string]string{
			"topic": old.Topic, "fire": old.Fire, "cooldown": old.Cooldown, "backfill": old.Backfill, "carry_fired": fmt.Sprint(old.CarryFired),
			"on_retract": old.OnRetract, "status": old.Status,
		}
		var e driplang.Expr
		if json.Unmarshal(old.Expr, &e) == nil {
			was["expr"] = e.String()
		}
		addMembers(was, string(old.Deliver))
	}
	is := map[string]string{
		"expr": t.expr.String(), "topic": cmp.Or(t.Topic, was["topic"]), "fire": cmp.Or(t.Fire, "once"), "cooldown": canonical(t.Cooldown),
		"backfill": cmp.Or(t.Backfill, "silent"), "carry_fired": fmt.Sprint(t.CarryFired == nil || *t.CarryFired), "on_retract": t.OnRetract,
		"status": cmp.Or(t.Status, was["status"]),
	}
	if t.KeepDeliver && old != nil {
		addMembers(is, string(old.Deliver))
	} else {
		addMembers(is, masked(t.Deliver))
	}
	names := []string{"expr", "topic", "fire", "cooldown", "backfill", "carry_fired", "on_retract", "status"}
	both := maps.Clone(was)
	maps.Copy(both, is)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if was[name] == is[name] {
			continue
		}
		if old != nil {
			lines = appendSide(lines, "-", name, was[name])
		}
		lines = appendSide(lines, "+", name, is[name])
	}
	return lines
}

// addMembers adds the members of a delivery one by one, because a template is long and rarely
// changes.
func addMembers(to map[string]string, deliver string) {
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(deliver), &members) != nil {
		to["deliver"] = deliver
		return
	}
	for name, value := range members {
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		to["deliver."+name] = text
	}
}

// appendSide appends the old or new value. A multi-line text gets its own lines.
func appendSide(lines []string, sign, name, value string) []string {
	switch {
	case value == "":
		return lines
	case !strings.Contains(value, "\n"):
		return append(lines, fmt.Sprintf("%s %s: %s", sign, name, value))
	}
	lines = append(lines, fmt.Sprintf("%s %s:", sign, name))
	for line := range strings.Lines(value) {
		lines = append(lines, fmt.Sprintf("%s   %s", sign, strings.TrimRight(line, "\r\n")))
	}
	return lines
}

// canonical returns a duration in the broker's format.
func canonical(text string) string {
	if d, err := driplang.ParseDuration(text); err == nil {
		return driplang.FormatDuration(d)
	}
	return text
}

// masked returns a delivery in the broker's format.
func masked(text json.RawMessage) string {
	if text == nil {
		return ""
	}
	d, err := webhook.ParseDelivery(text)
	if err != nil {
		return "(invalid: " + err.Error() + ")"
	}
	out, err := json.Marshal(d)
	if err != nil {
		return "(faulty)"
	}
	return string(out)
}

func hasSecrets(text json.RawMessage) bool {
	d, err := webhook.ParseDelivery(text)
	return text != nil && (err != nil || len(d.Secrets)+len(d.Headers) > 0)
}

func (p *plan) print(w io.Writer) {
	for _, c := range p.changes {
		fmt.Fprintf(w, "%c %s", c.sign, c.id)
		if c.note != "" {
			fmt.Fprintf(w, ": %s", c.note)
		}
		fmt.Fprintln(w)
		for _, line := range c.lines {
			fmt.Fprintf(w, "    %s\n", line)
		}
	}
}

// do applies the changes, and stops at the first error.
func (p *plan) do(cmd *cobra.Command, c *client.Client) error {
	done, all := 0, len(p.puts)+len(p.deletes)
	step := func(id string, f func(ctx context.Context) error) error {
		if err := f(cmd.Context()); err != nil {
			return fmt.Errorf("trigger %s, after %d of %d: %w", id, done, all, err)
		}
		done++
		return nil
	}
	for _, t := range p.puts {
		err := step(t.ID, func(ctx context.Context) error {
			out, err := c.PutTrigger(ctx, t.ID, t.spec())
			if err != nil {
				caret(cmd, t.text, err)
				return err
			}
			printStored(cmd, &out)
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, id := range p.deletes {
		err := step(id, func(ctx context.Context) error { return c.DeleteTrigger(ctx, id) })
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "trigger %s deleted\n", id)
	}
	return nil
}

// printStored prints a stored trigger.
func printStored(cmd *cobra.Command, out *client.StoredTrigger) {
	w := cmd.ErrOrStderr()
	fmt.Fprintf(w, "trigger %s stored as version %d\n", out.ID, out.Version)
	for _, text := range out.Warnings {
		fmt.Fprintf(w, "warning: %s\n", text)
	}
	for _, h := range out.History {
		if h.Offset > 0 {
			fmt.Fprintf(w, "warning: events of partition %d begin at offset %d: earlier ones are unknown\n", h.Partition, h.Offset)
		}
	}
}
