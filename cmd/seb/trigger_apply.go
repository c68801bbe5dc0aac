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
	"github.com/sebbroker/seb/internal/delivery/webhook"
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
		Use:   "apply -f DIR",
		Short: "Make the broker's triggers those of files, after showing the differences",
		Long: `Reads a file, or all .yaml, .yml and .json files of a folder, one trigger each, with the members of PUT /triggers/{id}
and an id; without one it is the name of the file. Shows what would change and asks before it does that. Triggers of which there
is no file are left alone, or deleted with --prune. If a file is wrong nothing is changed. A trigger with secrets is always stored again, as nobody can see whether
the broker has the same ones; that is no new version.`,
		Example: "  seb trigger apply -f triggers/\n  seb trigger apply -f triggers/ --yes --prune",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	cmd.Flags().StringArrayVarP(&f.files, "file", "f", nil, "a file or a folder; may be given several times")
	cmd.Flags().BoolVar(&f.prune, "prune", false, "delete triggers of which there is no file")
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&f.diff, "diff", false, "show the differences only")
	return cmd
}

func (f *applyFlags) run(cmd *cobra.Command) error {
	if len(f.files) == 0 {
		return usageError{errors.New("give a file or a folder with -f")}
	}
	wanted, err := readTriggers(cmd, f.files)
	if err != nil {
		return err
	}
	if len(wanted) == 0 {
		return fmt.Errorf("no files that end in .yaml, .yml or .json in %s", strings.Join(f.files, ", "))
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
		case !f.yes && !agreed(cmd, "Do that?"):
			return errors.New("nothing was changed")
		}
		return p.do(cmd, c)
	})
}

// readTriggers reads files and folders; every file that is wrong is named.
func readTriggers(cmd *cobra.Command, paths []string) (list []trigger, err error) {
	var names []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			names = append(names, path)
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
				names = append(names, filepath.Join(path, e.Name()))
			}
		}
	}
	var faults []error
	from := map[string]string{}
	for _, name := range names {
		t, err := readTrigger(nil, name)
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
			faults = append(faults, fmt.Errorf("%s: id %s is that of %s too", name, t.ID, from[t.ID]))
		default:
			from[t.ID] = name
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b trigger) int { return cmp.Compare(a.ID, b.ID) })
	return list, errors.Join(faults...)
}

// change is what is said of a trigger: sign is + if it is new, - if it goes, ~ if it changes, = if not, ? if it is the broker's
// alone.
type change struct {
	sign  byte
	id    string
	note  string
	lines []string
}

// plan is what apply does.
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
			c.sign, c.note = '~', ""
			if len(c.lines) == 0 {
				c.sign, c.note = '=', "unchanged"
			}
		}
		secret := hasSecrets(t.Deliver)
		if c.sign == '=' && secret {
			c.note = "unchanged, but perhaps for secrets, which are stored again"
		}
		if c.sign != '=' || secret {
			p.puts = append(p.puts, t)
		}
		p.changes = append(p.changes, c)
	}
	for id := range there {
		c := change{sign: '?', id: id, note: "has no file; --prune deletes it"}
		if prune {
			c.sign, c.note = '-', "deleted"
			p.deletes = append(p.deletes, id)
		}
		p.changes = append(p.changes, c)
	}
	slices.Sort(p.deletes)
	slices.SortFunc(p.changes, func(a, b change) int { return cmp.Compare(a.id, b.id) })
	return p
}

// differences are lines for what of a trigger is another than what is there, nil if nothing is. Of a new one they are what is no
// default.
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
	addMembers(is, masked(t.Deliver))
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

// addMembers adds the members of a delivery, each by itself: a template is long, and mostly the same.
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

// appendSide adds what was or is: texts of several lines on lines of their own.
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

// canonical is a duration as the broker shows it.
func canonical(text string) string {
	if d, err := driplang.ParseDuration(text); err == nil {
		return driplang.FormatDuration(d)
	}
	return text
}

// masked is a delivery as the broker shows it.
func masked(text json.RawMessage) string {
	if text == nil {
		return ""
	}
	d, err := webhook.ParseDelivery(text)
	if err != nil {
		return "(faulty: " + err.Error() + ")"
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

// do makes the changes, and stops at the first that fails.
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
		fmt.Fprintf(cmd.ErrOrStderr(), "trigger %s is deleted\n", id)
	}
	return nil
}
