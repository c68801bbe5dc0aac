package server

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/sebbroker/seb/internal/config"
	"github.com/sebbroker/seb/internal/console"
)

// Banner prints some lines for a person at a terminal: the addresses and how to use them. It prints
// the file of the API key, never the key. program is the name of the commands.
func (s *Server) Banner(w io.Writer, program string) {
	dir := ""
	if s.cfg.DataDir != config.Default().DataDir {
		dir = " --data-dir " + s.cfg.DataDir
	}
	records := s.node.StoreName()
	if folder, ok := s.insideFolder(); ok {
		records = folder + "  (inside the data folder: deleting " + s.cfg.DataDir + " deletes them)"
	}
	key, header := s.keySource(), "$KEY"
	if s.keyFile != "" {
		header = "$(cat " + s.keyFile + ")"
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
	case s.kafka != nil:
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
