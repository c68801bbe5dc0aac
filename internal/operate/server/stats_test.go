package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/cost"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestStatsOfABroker: a broker keeps statistics, unless it has too little memory for them.
func TestStatsOfABroker(t *testing.T) {
	t.Parallel()
	cfg := settings(t, "file:"+t.TempDir())
	cfg.Kafka = config.Kafka{Listen: "127.0.0.1:0"} // the default port may be in use
	s := start(t, cfg)
	got, err := connect(t, s).Stats(t.Context(), "24h")
	if err != nil || len(got.Series["put_p99"].Values) != 1440 || len(got.Times) != 1440 {
		t.Errorf("%d series, %v, want 1440 values of each", len(got.Series), err)
	}
	for _, name := range []string{"memory", "put_p999"} {
		if _, ok := got.Series[name]; !ok {
			t.Errorf("no series %s", name)
		}
	}
	if status, err := connect(t, s).Status(t.Context()); err != nil || status.Kafka == nil || status.Kafka.Address != s.KafkaAddress() {
		t.Errorf("Kafka listener %+v, %v, want %q", status.Kafka, err, s.KafkaAddress())
	}
	small := settings(t, "file:"+t.TempDir())
	small.MemoryLimit = budget.LimitMin
	off := start(t, small)
	if got, err := connect(t, off).Stats(t.Context(), "1h"); err != nil || got.Reason == "" || len(got.Series) != 0 {
		t.Errorf("smallest memory limit: %+v, %v, want a reason", got, err)
	}
	// The costs are counted nevertheless.
	file := filepath.Join(small.DataDir, cost.File)
	sebtest.Eventually(t, "the file of the costs", func() bool {
		_, err := os.Stat(file)
		return err == nil
	})
	must.NoError(t, produce(t, connect(t, off)))
	must.NoError(t, off.Close(t.Context()))
	if b, err := os.ReadFile(file); err != nil || !strings.Contains(string(b), `"epoch": 1,`) || strings.Contains(string(b), `"slot": 0`) {
		t.Errorf("after the stop: %s, %v, want the last position", b, err)
	}
}

// TestCostsThatCannotBeSaved: neither the start nor the stop of a broker fails.
func TestCostsThatCannotBeSaved(t *testing.T) {
	t.Parallel()
	cfg := settings(t, "mem:")
	must.NoError(t, os.Mkdir(filepath.Join(cfg.DataDir, cost.File), 0o700))
	s := start(t, cfg)
	must.NoError(t, produce(t, connect(t, s)))
	if c, err := connect(t, s).Cost(t.Context()); err != nil || c.Requests[0].Count < 3 || c.Prices != "free" || c.Storage.Bytes == 0 {
		t.Errorf("%+v, %v", c, err)
	}
	check.NoError(t, s.Close(t.Context()))
}
