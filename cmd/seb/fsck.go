package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/sebbroker/seb/internal/config"
	"github.com/sebbroker/seb/internal/fsck"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/spf13/cobra"
)

// fsckFlags are the flags of `seb fsck`.
type fsckFlags struct {
	bucket  string
	dataDir string
	repair  bool
	quiet   time.Duration
	json    bool
	all     bool
}

func newFsck() *cobra.Command {
	var f fsckFlags
	cmd := &cobra.Command{
		Use:   "fsck",
		Short: "Verify all of a bucket, without a broker",
		Long: `Reads every object of the log in a bucket and verifies every checksum, folds the log from its beginning or its oldest
snapshot to its end, and compares snapshots, offsets and objects with what that adds up to. It writes nothing and may run
beside a broker. Damage names the records that can not be read because of it.

Orphans are objects that nothing refers to: leftovers of killed brokers and of checks of the store. They do no harm.
--repair removes those that are garbage for ever; not while a broker writes, and not if there is any damage.`,
		Example: "  seb fsck\n  seb fsck --bucket 's3://events/prod?region=eu-central-1'\n  seb fsck --bucket ./copy --json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.bucket, "bucket", "", "the bucket: ./folder or s3://name/prefix?... (default <data-dir>/bucket)")
	fl.StringVar(&f.dataDir, "data-dir", config.Default().DataDir, "data folder of the local broker, for the default bucket")
	fl.BoolVar(&f.repair, "repair", false, "remove orphans that are garbage for ever")
	fl.DurationVar(&f.quiet, "quiet-time", 10*time.Second, "repair: how long nobody may have written")
	fl.BoolVar(&f.json, "json", false, "print each finding, and last the summary, as a line of JSON")
	fl.BoolVarP(&f.all, "all", "a", false, "print every orphan, not only the first of each kind")
	return cmd
}

func (f *fsckFlags) run(cmd *cobra.Command) error {
	store, err := f.open(cmd)
	if err != nil {
		return err
	}
	p := &fsckPrinter{w: cmd.OutOrStdout(), all: f.all, kinds: map[string]int{}}
	if f.json {
		p.json = json.NewEncoder(p.w)
	}
	p.bar = countless(cmd.ErrOrStderr(), "objects")
	start := time.Now()
	r, err := fsck.Run(cmd.Context(), fsck.Options{
		Store: store, Repair: f.repair, Quiet: f.quiet, Found: p.found, Progress: func(int64) { _ = p.bar.Add(1) },
	})
	_ = p.bar.Finish()
	if r.Cluster != "" {
		p.summary(store, r, time.Since(start))
	}
	switch {
	case r.Damages > 0 && (err == nil || errors.Is(err, fsck.ErrDamaged)):
		if err == nil {
			err = errors.New("nothing was changed")
		}
		return fmt.Errorf("%s: %d damages: %w: %w", store, r.Damages, record.ErrCorrupt, err)
	case err != nil:
		return fmt.Errorf("%s: %w", store, err)
	}
	return nil
}

// open opens the bucket, which has to be there.
func (f *fsckFlags) open(cmd *cobra.Command) (objstore.Store, error) {
	if err := config.FromEnv(cmd.Flags(), os.LookupEnv); err != nil {
		return nil, usageError{err}
	}
	if f.bucket == "" {
		f.bucket = "file:" + filepath.Join(f.dataDir, "bucket")
	}
	return openExisting(cmd, "bucket", f.bucket)
}

// openExisting opens a store that a flag names. A folder is not made.
func openExisting(cmd *cobra.Command, flag, name string) (objstore.Store, error) {
	spec, err := objstore.ParseSpec(name)
	if err != nil {
		return nil, usageError{fmt.Errorf("--%s: %w", flag, err)}
	}
	switch spec.Kind {
	case objstore.KindMemory:
		return nil, usageError{fmt.Errorf("--%s: there is nothing in memory before a broker starts", flag)}
	case objstore.KindDisk:
		if info, err := os.Stat(spec.Dir); err != nil || !info.IsDir() {
			if err == nil {
				err = fs.ErrInvalid
			}
			return nil, usageError{fmt.Errorf("--%s: no folder %s: %w", flag, spec.Dir, err)}
		}
	}
	store, err := spec.Open(cmd.Context(), s3Keys())
	if err != nil {
		return nil, usageError{fmt.Errorf("--%s: %w", flag, err)}
	}
	return store, nil
}

// countless is a bar without an end, if w is a terminal.
func countless(w io.Writer, what string) *progressbar.ProgressBar {
	if !isTerminal(w) {
		return progressbar.DefaultSilent(-1)
	}
	return progressbar.NewOptions(-1, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSpinnerType(14), progressbar.OptionClearOnFinish())
}

// orphansShown is how many orphans and notes of each kind are printed without --all.
const orphansShown = 5

// fsckPrinter prints findings as they come.
type fsckPrinter struct {
	w     io.Writer
	json  *json.Encoder
	bar   *progressbar.ProgressBar
	all   bool
	kinds map[string]int // findings that are no damage, by kind
}

func (p *fsckPrinter) found(f fsck.Finding) {
	if p.json != nil {
		_ = p.json.Encode(f)
		return
	}
	if f.Severity != fsck.Damage {
		p.kinds[f.Kind]++
		if n := p.kinds[f.Kind]; n > orphansShown && !p.all {
			return
		}
	}
	_ = p.bar.Clear()
	line := fmt.Sprintf("%s: %s", f.Severity, f.Kind)
	if f.Key != "" {
		line += " " + f.Key
	}
	if f.Text != "" {
		line += ": " + f.Text
	}
	const lostShown = 10
	for i, r := range f.Lost {
		if i == lostShown {
			line += fmt.Sprintf(", and %d more", len(f.Lost)-i)
			break
		}
		if i == 0 {
			line += "; lost: "
		} else {
			line += ", "
		}
		line += r.String()
	}
	fmt.Fprintln(p.w, line)
}

func (p *fsckPrinter) summary(store objstore.Store, r *fsck.Report, took time.Duration) {
	if p.json != nil {
		_ = p.json.Encode(map[string]any{"summary": r})
		return
	}
	for _, kind := range slices.Sorted(maps.Keys(p.kinds)) {
		n := p.kinds[kind]
		if n > orphansShown && !p.all {
			fmt.Fprintf(p.w, "and %d more of the kind %q: --all shows them\n", n-orphansShown, kind)
		}
	}
	fmt.Fprintf(p.w, "%s\n", store)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(p.w, "  %-11s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("cluster", "%s, ends at epoch %d slot %d%s", r.Cluster, r.Epoch, r.Slot, map[bool]string{true: ", and a broker is writing to it"}[r.Grew])
	line("holds", "%s", counted(r.Listed))
	line("verified", "%s, %d seals, %d snapshots (%d of them compared with the log)", counted(r.Verified), r.Seals, r.Snapshots, r.Compared)
	line("records", "%d in %d topics, %d partitions, %d ranges", r.Records, r.Topics, r.Partitions, r.Ranges)
	line("superseded", "%s that a broker will collect", counted(r.Superseded))
	line("orphans", "%s", counted(r.Orphans))
	if r.Deleted.Objects > 0 {
		line("removed", "%s", counted(r.Deleted))
	}
	line("damages", "%d", r.Damages)
	line("took", "%v", took.Round(time.Millisecond))
}

func counted(c fsck.Count) string { return fmt.Sprintf("%d objects, %d bytes", c.Objects, c.Bytes) }
