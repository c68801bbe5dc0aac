package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/internal/config"
	"github.com/sebbroker/seb/internal/doctor"
)

func newDoctor() *cobra.Command {
	cfg := config.Default()
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the machine, the bucket and the settings, with advice",
		Long: `Takes the flags and variables of seb serve and checks everything that such a broker depends on: clock, disk, open files, memory,
addresses, certificate, permissions and latency of the store, lifecycle rules, versioning, the log and its format level. A broker
may run meanwhile. The check puts ten small objects below probe/ in the bucket and deletes them.

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
			for _, f := range doctor.Run(cmd.Context(), cfg) {
				fmt.Fprintf(out, "%-5s %-13s %s\n", f.Level, f.Check, f.Text)
				if f.Do != "" {
					fmt.Fprintf(out, "%19s-> %s\n", "", f.Do)
				}
				if f.Level == doctor.Fail {
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
