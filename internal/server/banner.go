package server

import (
	"fmt"
	"io"
	"time"

	"github.com/sebbroker/seb/internal/config"
)

// Banner says to a person what runs where and how to use it. It is the only place that prints an API key, and only one
// that was made just now. program is how the commands are called.
func (s *Server) Banner(w io.Writer, program string) {
	role := "leads"
	if s.cfg.ReadOnly {
		role = "follows (read-only)"
	}
	fmt.Fprintf(w, "seb %s epoch %d\n", role, s.node.Epoch())
	fmt.Fprintf(w, "  bucket   %s\n", s.node.StoreName())
	fmt.Fprintf(w, "  address  %s\n", s.URL())
	if a := s.KafkaAddress(); a != "" {
		over := ""
		if s.ports.kafka.Secure() {
			over = "TLS, "
		}
		fmt.Fprintf(w, "  Kafka    %s  (%sSASL PLAIN or SCRAM, the API key as password)\n", a, over)
	}
	if a := s.KafkaAddress(); a == "" && s.kafka != nil {
		fmt.Fprintf(w, "  Kafka    not yet: %s is taken by another program, and tried again every %s (--kafka-listen names another address)\n",
			s.kafka.taken, kafkaRetry)
	}
	if s.debug != nil {
		fmt.Fprintf(w, "  pprof    http://%s/debug/pprof/\n", s.debug.address)
	}
	if s.keyMade {
		fmt.Fprintf(w, "  API key  %s  (new; kept in %s/%s, shown only now)\n", s.runtime.APIKey, s.cfg.DataDir, KeyFile)
	}
	if line := s.formatLine(); line != "" {
		fmt.Fprintf(w, "  format   %s\n", line)
	}
	fmt.Fprint(w, "\n", s.node.Budget().Ceiling())
	dir := ""
	if s.cfg.DataDir != config.Default().DataDir {
		dir = " --data-dir " + s.cfg.DataDir
	}
	fmt.Fprintf(w, "\nproduce:  echo hello | %s produce demo%s\n", program, dir)
	fmt.Fprintf(w, "consume:  %s consume demo%s\n", program, dir)
	fmt.Fprintf(w, "or:       curl -H \"Authorization: Bearer $KEY\" --data-binary hello -H 'Content-Type: text/plain' '%s/records?topic-name=demo'\n", s.URL())
	fmt.Fprintf(w, "          curl -H \"Authorization: Bearer $KEY\" -H 'Accept: application/json' '%s/records?topic-name=demo&offset=0'\n\n", s.URL())
}

// formatLine says until when an older program can lead the bucket, or "" if the bucket is at the highest format level, or
// this broker only follows.
func (s *Server) formatLine() string {
	v := s.node.Level()
	switch {
	case v.Now >= v.Max || s.cfg.ReadOnly:
		return ""
	case v.RaiseAt.IsZero():
		return fmt.Sprintf("level %d of %d, held: an older Seb can lead this bucket until you run \"seb upgrade --finalize\"", v.Now, v.Max)
	}
	return fmt.Sprintf("level %d of %d: an older Seb can lead this bucket until the first write after %s "+
		"(\"seb upgrade --finalize\" raises the level now, --hold-upgrade never)", v.Now, v.Max, v.RaiseAt.Local().Format(time.TimeOnly))
}
