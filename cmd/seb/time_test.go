package main_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/operate/node"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestTimeCommand: in a bucket with commits from ten years in the future writes wait until the time
// is reset.
func TestTimeCommand(t *testing.T) {
	p := newWorkDir(t)
	n, err := node.Open(t.Context(), node.Options{Bucket: filepath.Join(p.dir, "bucket"), Clocks: func() log.Reading {
		return log.Reading{Mono: time.Now().UnixNano(), Wall: time.Now().AddDate(10, 0, 0).UnixMicro()}
	}})
	must.NoError(t, err)
	must.Get(n.CreateTopic(t.Context(), "demo", broker.TopicSpec{}))(t)
	must.NoError(t, n.Close(t.Context()))

	b := p.serve("--kafka-listen", "", "--bucket", "./bucket")
	if got := p.must("time"); !strings.Contains(got, "writes wait   clock is ") || !strings.Contains(got, "behind the log's last time") {
		t.Errorf("held: %s", got)
	}
	if got := p.must("time", "reset"); !strings.HasPrefix(got, "the log time is ") {
		t.Errorf("reset: %s", got)
	}
	p.mustWith("one\n", "produce", "demo")
	if got := p.must("time", "reset"); !strings.HasPrefix(got, "the log time is not ahead of the broker's clock, ") {
		t.Errorf("reset again: %s", got)
	}
	if got := p.must("time"); strings.Contains(got, "writes wait") {
		t.Errorf("after: %s", got)
	}
	check.Equalf(t, b.term(), 0, "exit code")
}
