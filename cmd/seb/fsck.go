package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sebbroker/seb/internal/config"
	"github.com/sebbroker/seb/internal/fsck"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/internal/progress"
	"github.com/sebbroker/seb/record"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// fsckFlags are the flags of `seb fsck`.
type fsckFlags struct {
	bucket  string
	dataDir string
	repair  bool
	secrets bool
	quiet   time.Duration
	json    bool
	all     bool
}

func newFsck() *cobra.Command {
	var f fsckFlags
	cmd := &cobra.Command{
		Use:   "fsck",
		Short: "Verify a whole bucket, without a broker",
		Long: `Reads every object of the log in a bucket and verifies every checksum. It replays the log from its beginning or its oldest
snapshot to its end, and compares snapshots, offsets and objects with the result. It writes nothing, and a broker may run at the
same time. For damage it names the records that cannot be read.

Orphans are objects that nothing refers to: leftovers of killed brokers and of store checks. They are harmless. --repair removes
orphans that are permanently garbage. It refuses if a broker writes, or if there is any damage. It cannot see an idle broker,
which sends no requests; it removes nothing that this or any other broker could still use.

--secrets also names the objects that hold readable secrets of webhooks, including objects that a broker will collect. Exit code
1: there are some.`,
		Example: "  seb fsck\n  seb fsck --bucket 's3://events/prod?region=eu-central-1'\n  seb fsck --bucket ./copy --json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fl := cmd.Flags()
	f.bucketFlags(fl)
	fl.BoolVar(&f.repair, "repair", false, "remove orphans that are permanently garbage")
	fl.BoolVar(&f.secrets, "secrets", false, "name the objects with readable secrets of webhooks")
	fl.DurationVar(&f.quiet, "quiet-time", 10*time.Second, "repair: required time without a write")
	fl.BoolVar(&f.json, "json", false, "print each finding, and then the summary, as a line of JSON")
	fl.BoolVarP(&f.all, "all", "a", false, "print every orphan, not only the first ones of each kind")
	return cmd
}

// bucketFlags adds the flags that name a bucket without a broker.
func (f *fsckFlags) bucketFlags(fl *pflag.FlagSet) {
	fl.StringVar(&f.bucket, "bucket", "", "bucket: ./folder or s3://name/prefix?... (default: "+config.BucketHelp+")")
	fl.StringVar(&f.dataDir, "data-dir", config.Default().DataDir, "data folder of the local broker, for the default bucket")
}

func (f *fsckFlags) run(cmd *cobra.Command) error {
	store, err := f.open(cmd)
	if err != nil {
		return err
	}
	bar := progress.New(cmd.ErrOrStderr(), "objects", -1, nil)
	p := &fsck.Printer{W: cmd.OutOrStdout(), JSON: f.json, All: f.all}
	start := time.Now()
	o := fsck.Options{
		Store: store, Repair: f.repair, Quiet: f.quiet, Progress: func(int64) { bar.Add(1) },
		Found: func(found fsck.Finding) {
			bar.Clear()
			p.Found(found)
		},
	}
	r, err := fsck.Run(cmd.Context(), o)
	exposed := 0
	if f.secrets && err == nil {
		exposed, err = fsck.FindSecrets(cmd.Context(), o)
	}
	bar.Clear()
	if r.Cluster != "" && !errors.Is(err, state.ErrNewer) {
		p.Summary(store.String(), r, time.Since(start))
	}
	switch {
	case r.Damages > 0 && (err == nil || errors.Is(err, fsck.ErrDamaged)):
		if err == nil {
			err = errors.New("canceled: nothing was changed")
		}
		return fmt.Errorf("%s: %d damages: %w: %w", store, r.Damages, record.ErrCorrupt, err)
	case err != nil:
		return fmt.Errorf("%s: %w", store, err)
	case exposed > 0:
		return fmt.Errorf("%s: %s with readable secrets", store, counted(int64(exposed), "object"))
	}
	return nil
}

// open opens the bucket, which must exist.
func (f *fsckFlags) open(cmd *cobra.Command) (objstore.Store, error) {
	if err := config.FromEnv(cmd.Flags(), os.LookupEnv); err != nil {
		return nil, usageError{err}
	}
	if f.bucket == "" {
		var err error
		if f.bucket, err = config.DefaultBucket(f.dataDir); err != nil {
			return nil, err
		}
	}
	return openExisting(cmd, "bucket", f.bucket)
}

// openExisting opens the store of a flag. It does not create a folder.
func openExisting(cmd *cobra.Command, flag, name string) (objstore.Store, error) {
	spec, err := objstore.ParseSpec(name)
	if err != nil {
		return nil, usageError{fmt.Errorf("--%s: %w", flag, err)}
	}
	switch spec.Kind {
	case objstore.KindMemory:
		return nil, usageError{fmt.Errorf("--%s: mem: is empty outside a broker", flag)}
	case objstore.KindDisk:
		if info, err := os.Stat(spec.Dir); err != nil || !info.IsDir() {
			return nil, usageError{fmt.Errorf("--%s: folder %s does not exist", flag, spec.Dir)}
		}
	}
	store, err := spec.Open(cmd.Context(), reading())
	if err != nil {
		return nil, usageError{fmt.Errorf("--%s: %w", flag, err)}
	}
	return store, nil
}
