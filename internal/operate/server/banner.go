package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/protocols/connlimit"
	"github.com/sebbroker/seb/internal/protocols/console"
	"github.com/sebbroker/seb/internal/protocols/httpapi"
)

// Banner prints some lines for a person at a terminal: the addresses and how to use them. It prints
// the file of the API key, never the key. program is the name of the commands.
func (s *Server) Banner(w io.Writer, program string) {
	dir := ""
	if s.cfg.DataDir != config.Default().DataDir {
		dir = " --data-dir " + config.ShellQuote(s.cfg.DataDir)
	}
	records := s.node.StoreName()
	if folder, ok := s.insideFolder(); ok {
		records = folder + "  (inside the data folder: deleting " + s.cfg.DataDir + " deletes them)"
	}
	program = config.ShellQuote(program)
	key, header := s.keySource(), "$KEY"
	if s.keyFile != "" {
		header = "$(cat " + config.ShellQuote(s.keyFile) + ")"
	}
	fmt.Fprintf(w, "address  %s%s%s\n", s.URL(), s.kafkaNote(), s.riemannNote())
	fmt.Fprintf(w, "records  %s\n", records)
	fmt.Fprintf(w, "API key  %s\n", key)
	if s.cfg.HTTP.Console {
		fmt.Fprintf(w, "console  %s\n", s.consoleURL())
	}
	fmt.Fprintf(w, "produce  echo hello | %s produce demo%s\n", program, dir)
	fmt.Fprintf(w, "consume  %s consume demo%s\n", program, dir)
	fmt.Fprintf(w, "curl     curl -H \"Authorization: Bearer %s\" -H 'Accept: application/json' '%s/records?topic-name=demo&offset=0'\n", header, s.URL())
}

// consoleFiles returns what serves the web console, or nil if it is disabled.
func (s *Server) consoleFiles() func(w http.ResponseWriter, r *http.Request) bool {
	if !s.cfg.HTTP.Console {
		return nil
	}
	return console.Serve
}

// consoleURL is the address of the web console.
func (s *Server) consoleURL() string { return s.URL() + "/console/" }

// kafkaNote describes the address for Kafka clients.
func (s *Server) kafkaNote() string {
	a := s.KafkaAddress()
	switch {
	case a != "" && s.ports.kafka.Secure():
		return ", Kafka " + a + " (TLS)"
	case a != "":
		return ", Kafka " + a
	case s.kafka.busyAddress != "":
		return fmt.Sprintf(", no Kafka yet: %s is in use by another program, retry every %s", s.kafka.busyAddress, kafkaRetry)
	}
	return ""
}

// riemannNote describes the address for Riemann clients.
func (s *Server) riemannNote() string {
	note := ""
	if a := s.RiemannAddress(); a != "" {
		note = ", Riemann " + a
		if s.ports.riemann.Secure() {
			note += " (TLS)"
		}
	}
	if a := s.RiemannDatagrams(); a != "" {
		note += ", Riemann " + a + " (UDP)"
	}
	return note
}

// keySource describes the source of the API key, without the key.
func (s *Server) keySource() string {
	switch {
	case s.keyMade:
		return "in " + s.keyFile + "  (new: clients with another key get 401)"
	case s.keyFile != "":
		return "in " + s.keyFile
	}
	return "from --http-api-key or $SEB_API_KEY"
}

// insideFolder returns the bucket if it is a folder inside the data folder, the default of older
// versions.
func (s *Server) insideFolder() (folder string, ok bool) {
	folder, ok = strings.CutPrefix(s.cfg.Bucket, "file:")
	return folder, ok && folder == config.BucketInside(s.cfg.DataDir)
}

// announce logs that the broker serves, and warnings about this start.
func (s *Server) announce() {
	args := []any{"role", s.node.Status().Role, "epoch", s.node.Epoch(), "address", s.URL(), "records", s.node.StoreName()}
	if a := s.KafkaAddress(); a != "" {
		args = append(args, "kafka", a)
	}
	if a := s.RiemannAddress(); a != "" {
		args = append(args, "riemann", a)
	}
	if a := s.RiemannDatagrams(); a != "" {
		args = append(args, "riemann_udp", a)
	}
	if s.cfg.HTTP.Console {
		args = append(args, "console", s.consoleURL())
	}
	if s.keyFile != "" {
		args = append(args, "api_key_file", s.keyFile)
	}
	if s.pprof != nil {
		args = append(args, "pprof", "http://"+s.pprof.address+"/debug/pprof/")
	}
	s.log.Debug("memory", "classes", s.node.Budget().Ceiling())
	if s.keyMade {
		s.log.Info("new API key generated: clients with another key get 401", "file", s.keyFile)
	}
	if folder, ok := s.insideFolder(); ok {
		s.log.Warn("records are inside the data folder, the default of older versions: do not delete that folder",
			"records", folder, "hint", config.MoveHint(s.cfg.DataDir))
	}
	s.log.Info("serving", args...)
}

// Run starts a broker, calls ready (which may be nil) once it accepts requests, and serves until
// ctx ends. It then stops in order and returns nil. Otherwise it returns the reason for the end:
// state.ErrFenced, state.ErrCorrupt or another error.
func Run(ctx context.Context, cfg config.Config, log *slog.Logger, ready func(*Server)) error {
	s, err := Start(ctx, cfg, log)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
			return nil // ctx ended before the start
		}
		return err
	}
	s.announce()
	if ready != nil {
		ready(s)
	}
	select {
	case <-ctx.Done():
		log.Info("stopping")
	case <-s.Done():
		log.Error("broker stopped", "err", s.Err())
	}
	failed := s.Err()
	if err := s.Close(context.WithoutCancel(ctx)); err != nil && failed == nil {
		return fmt.Errorf("stop: %w", err)
	}
	return failed
}

// MemoryFor returns a memory limit, in bytes, that allows a number of concurrent connections
// without TLS, also if all wait for records.
func MemoryFor(connections int) int64 {
	return budget.LimitFor(budget.Connections, int64(connections)*httpapi.ReaderBytes*10/9*overShare/(overShare-1)+httpapi.ReaderBytes)
}

const (
	// overShare is the part of the memory for connections that is for those beyond the limit.
	overShare = 40
	// ownFiles bounds the files of the program itself: cache, objects, requests to the store.
	ownFiles = 512
)

// newLimits returns the limit of the connections of all listeners, from memory and from the system's
// limit of open files.
func (s *Server) newLimits() *connlimit.Limiter {
	o := connlimit.Options{Bytes: connectionsMemory(s.node.Budget()), Logger: s.log}
	if files := openFiles(); files > 0 {
		o.Files = max(files-ownFiles, files/4, 1)
	}
	return connlimit.New(o)
}

// connectionsMemory returns the limit of the memory of all connections.
func connectionsMemory(b *budget.Budget) int64 {
	limit := b.Class(budget.Connections).Limit()
	return limit - limit/overShare
}

// logLimits logs the number of connections of each listener that fits without those of others.
func (s *Server) logLimits() {
	var args []any
	for _, l := range s.limits.Status().Listeners {
		args = append(args, l.Name, l.Limit)
		if l.Setting == connlimit.FilesSetting {
			s.log.Warn("connections bounded by the limit of open files", "listener", l.Name, "limit", l.Limit, "hint", "raise the limit: ulimit -n, or LimitNOFILE in the unit")
		}
	}
	s.log.Info("connection limits", args...)
}
