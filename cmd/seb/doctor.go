package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/objstore/anystore"
	"github.com/sebbroker/seb/internal/engine/objstore/s3"
	"github.com/sebbroker/seb/internal/operate/config"
)

func newDoctor() *cobra.Command {
	cfg := config.Default()
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the machine, the bucket and the settings, with advice",
		Long: `Takes the flags and variables of seb serve and checks everything that such a broker depends on: clock, disk, open files, memory,
addresses, API key, certificate, permissions and latency of the store, lifecycle rules, versioning, the log and its format level.
A broker may run meanwhile. The check puts about twenty small objects below probe/ in the bucket and deletes
them.

Exit code 0: no check fails, although some may warn. Exit code 1: a check fails.`,
		Example: "  seb doctor\n  seb doctor --bucket 's3://events/prod?region=eu-central-1' --memory-limit 1GiB",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := config.FromEnv(cmd.Flags(), os.LookupEnv); err != nil {
				return usageError{err}
			}
			config.ResolveDefaults(cmd.Flags(), &cfg)
			if err := cfg.Validate(); err != nil {
				return err
			}
			out, failed := cmd.OutOrStdout(), 0
			for _, f := range examine(cmd.Context(), cfg) {
				fmt.Fprintf(out, "%-5s %-13s %s\n", f.severity, f.check, f.text)
				if f.advice != "" {
					fmt.Fprintf(out, "%19s-> %s\n", "", f.advice)
				}
				if f.severity == checkFail {
					failed++
				}
			}
			if failed > 0 {
				return fmt.Errorf("%s", counted(int64(failed), "check")+" failed")
			}
			return nil
		},
	}
	config.Register(cmd.Flags(), &cfg)
	return cmd
}

func newCheckStore() *cobra.Command {
	cfg := config.Default()
	cmd := &cobra.Command{
		Use:   "check-store [BUCKET]",
		Short: "Check that a store behaves as Seb requires",
		Long: `Puts, reads, lists and deletes a few hundred small objects below probe/ in the bucket. It checks put-if-absent, also with
16 concurrent writers of one name, read-after-write by GET and LIST, LIST after DELETE, range reads and missing names. Serve
runs the same check once per bucket and remembers the result in its data folder.

The check cannot test durability: a store that keeps objects in memory, or answers before they are on disk, passes. See the
store's documentation for whether an acknowledged object survives the loss of power and of a disk.`,
		Example: "  seb check-store 's3://events/prod?region=eu-central-1'",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := config.FromEnv(cmd.Flags(), os.LookupEnv); err != nil {
				return usageError{err}
			}
			if len(args) > 0 {
				if cmd.Flags().Changed("bucket") || cmd.Flags().Changed("s3-bucket") {
					return usageError{errors.New("--bucket: cannot be combined with the argument BUCKET")}
				}
				cfg.Bucket, cfg.S3Bucket = args[0], ""
			}
			bucket, err := cfg.BucketSpec()
			if err != nil {
				return err
			}
			store, err := anystore.Open(cmd.Context(), bucket, anystore.Options{})
			if err != nil {
				return usageError{err}
			}
			start := time.Now()
			if err := objstore.Check(cmd.Context(), store, objstore.CheckOptions{}); err != nil {
				return fmt.Errorf("%s: %w", store, err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s passes all checks (%v); they do not cover the loss of power or of a disk\n",
				store, time.Since(start).Round(time.Millisecond))
			if l, ok := store.(*s3.Store); ok {
				if w, err := l.LifecycleWarning(cmd.Context()); err == nil && w != "" {
					fmt.Fprintln(cmd.OutOrStdout(), "warning:", w)
				}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Bucket, "bucket", "", "the bucket: ./folder or s3://name/prefix?endpoint=URL&region=R&path-style=true (default: "+config.BucketHelp+")")
	f.StringVar(&cfg.S3Bucket, "s3-bucket", "", "short for --bucket s3://NAME")
	f.StringVar(&cfg.DataDir, "data-dir", cfg.DataDir, "data folder, for the default bucket")
	return cmd
}
