package main

import (
	"io"
	"log/slog"
	"os"

	"github.com/sebbroker/seb/internal/config"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/internal/server"
	"github.com/spf13/cobra"
)

func newServe() *cobra.Command {
	cfg := config.Default()
	cmd := &cobra.Command{
		Use:     "serve",
		Aliases: []string{"http-server"},
		Short:   "Start a broker",
		Long: `Starts a broker on a bucket and serves until it gets SIGTERM or SIGINT; then it stores and answers what it has taken and
exits. It needs nothing but the bucket: on another machine with an empty disk it goes on where the last one stopped.
A second broker on the same bucket takes over from the first, which exits with code 3.`,
		Example: "  seb serve\n  seb serve --bucket 's3://events/prod?region=eu-central-1'\n  seb serve --bucket 's3://test?endpoint=http://127.0.0.1:7070&region=us-east-1&path-style=true'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := config.FromEnv(cmd.Flags(), os.LookupEnv); err != nil {
				return usageError{err}
			}
			config.Wished(cmd.Flags(), &cfg)
			if err := cfg.Validate(); err != nil {
				return usageError{err}
			}
			// Before the settings are logged: a spec that is right has no keys in it.
			if _, err := objstore.ParseSpec(cfg.BucketSpec()); err != nil {
				return usageError{err}
			}
			log := logger(cmd.ErrOrStderr(), &cfg.Log)
			log.Info("starting", "version", build().String(), "settings", cfg)
			return server.Run(cmd.Context(), cfg, log, func(s *server.Server) { s.Banner(cmd.OutOrStdout(), os.Args[0]) })
		},
	}
	config.Register(cmd.Flags(), &cfg)
	return cmd
}

func logger(w io.Writer, c *config.Log) *slog.Logger {
	o := &slog.HandlerOptions{Level: c.Level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
