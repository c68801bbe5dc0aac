package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/operate/server"
)

func newServe() *cobra.Command {
	cfg := config.Default()
	cfg.Version = build().Version
	cmd := &cobra.Command{
		Use:     "serve",
		Aliases: []string{"http-server"},
		Short:   "Start a broker",
		Long: `Starts a broker on a bucket and serves until it gets SIGTERM or SIGINT. It then stores and acknowledges the received records
and exits. It needs only the bucket: on another machine with an empty disk it continues where the last broker stopped. A second
broker on the same bucket is a standby that takes over by itself. On another machine the two must reach each other (--advertise,
--http-address). Otherwise it takes over when the first one has committed nothing for a minute, and that one exits with code 3.`,
		Example: "  seb serve\n  seb serve --bucket 's3://events/prod?region=eu-central-1'\n  seb serve --bucket 's3://test?endpoint=http://127.0.0.1:7070&region=us-east-1&path-style=true'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := config.FromEnv(cmd.Flags(), os.LookupEnv); err != nil {
				return usageError{err}
			}
			config.ResolveDefaults(cmd.Flags(), &cfg)
			if err := cfg.Validate(); err != nil {
				return usageError{err}
			}
			// Check the spec before the settings are logged, because a valid one contains no keys.
			if bucket, err := cfg.BucketSpec(); err != nil {
				return err
			} else if _, err := objstore.ParseSpec(bucket); err != nil {
				return usageError{err}
			}
			return serve(cmd, cfg)
		},
	}
	config.Register(cmd.Flags(), &cfg)
	return cmd
}

// serve runs the broker. At a terminal it prints a banner for people; otherwise it prints only log
// lines.
func serve(cmd *cobra.Command, cfg config.Config) error {
	// After a panic, and after the SIGABRT of systemd's watchdog, a Go program exits with code 2,
	// which service managers must not answer with a restart. With "crash" it dies by SIGABRT.
	debug.SetTraceback("crash")
	out, logs := cmd.OutOrStdout(), cmd.ErrOrStderr()
	var level slog.LevelVar
	level.Set(cfg.Log.Level)
	banner := isTerminal(out) && cfg.Log.Format == "text"
	if banner && isTerminal(logs) && cfg.Log.Level == slog.LevelInfo {
		level.Set(slog.LevelWarn) // until the banner, which has the same information
	}
	log := logger(logs, cfg.Log.Format, &level)
	log.Info("starting", "version", build().String())
	for _, w := range unknownVariables(cmd.Root(), os.Environ()) {
		log.Warn("unknown environment variable", "problem", w)
	}
	log.Debug("settings", "settings", cfg)
	var manager *notifier
	err := server.Run(cmd.Context(), cfg, log, func(s *server.Server) {
		manager = startNotifier(cmd.Context(), log, s.Alive)
		if banner {
			s.Banner(out, os.Args[0])
		}
		level.Set(cfg.Log.Level)
	})
	manager.close()
	if err == nil || cfg.Log.Format != "json" {
		return err
	}
	// The stream of a JSON log has no other text.
	log.Error("ended", "err", oneLine(cmd, err), "exit_code", exitCode(err))
	return loggedError{err}
}

// loggedError is an error that is already logged.
type loggedError struct{ error }

func (e loggedError) Unwrap() error { return e.error }

func logger(w io.Writer, format string, level slog.Leveler) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

func newRiemann() *cobra.Command {
	var r remote
	cmd := &cobra.Command{Use: "riemann", Short: "Query the index of Riemann events"}
	r.register(cmd)
	cmd.AddCommand(newShow(&r, &cobra.Command{
		Use:   "query QUERY",
		Short: "Print the newest events of hosts and services that match",
		Long: `Prints the events in the index for which a query is true, one JSON object per line. The index has the newest event of
each host and service that has not expired. The query is in Riemann's query language; true matches all events.`,
		Example: "  seb riemann query 'state = \"critical\" and metric > 0.9'\n  seb riemann query 'host = \"web1\" and service = \"disk\"'",
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, c *client.Client, args []string) (client.RiemannIndex, error) {
		return c.RiemannIndex(ctx, args[0])
	}, printRiemannIndex))
	return cmd
}

func printRiemannIndex(out io.Writer, x *client.RiemannIndex) error {
	for _, e := range x.Events {
		if _, err := fmt.Fprintf(out, "%s\n", e); err != nil {
			return err
		}
	}
	return nil
}

// notifier reports the broker's state to a service manager, by datagrams to $NOTIFY_SOCKET
// (sd_notify(3)). A nil notifier does nothing.
type notifier struct {
	conn *net.UnixConn
	log  *slog.Logger
	end  context.CancelFunc
	done sync.WaitGroup
}

// startNotifier reports that the broker serves. If the unit has a watchdog ($WATCHDOG_USEC), it
// reports twice per interval that the broker is alive, while alive returns nil in time. The manager
// therefore restarts a broker whose log is stuck. When ctx ends, the notifier reports that the
// broker stops. It returns nil if no service manager requests reports.
func startNotifier(ctx context.Context, log *slog.Logger, alive func(context.Context) error) *notifier {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		log.Warn("service manager not notified", "socket", path, "err", err)
		return nil
	}
	n := &notifier{conn: conn, log: log}
	n.send("READY=1")
	ctx, n.end = context.WithCancel(ctx)
	n.done.Go(func() {
		n.run(ctx, watchdogEvery(), alive)
		n.send("STOPPING=1")
	})
	return n
}

// watchdogEvery returns the interval of reports, 0 if the unit has no watchdog for this process.
func watchdogEvery() time.Duration {
	if pid := os.Getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	micros, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || micros <= 0 {
		return 0
	}
	return max(time.Duration(micros)*time.Microsecond/2, time.Millisecond)
}

func (n *notifier) run(ctx context.Context, every time.Duration, alive func(context.Context) error) {
	if every == 0 {
		<-ctx.Done()
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		within, cancel := context.WithTimeoutCause(ctx, every, errors.New("no answer"))
		err := alive(within)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			n.log.Error("watchdog report skipped: the log's owner does not answer", "err", err, "within", every)
		default:
			n.send("WATCHDOG=1")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (n *notifier) send(state string) {
	if _, err := n.conn.Write([]byte(state)); err != nil {
		n.log.Warn("service manager not notified", "state", state, "err", err)
	}
}

// close stops the reports and waits for the last one.
func (n *notifier) close() {
	if n == nil {
		return
	}
	n.end()
	n.done.Wait()
	_ = n.conn.Close()
}
