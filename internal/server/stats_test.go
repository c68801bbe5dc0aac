package server_test

import (
	"testing"

	"github.com/sebbroker/seb/internal/budget"
)

// TestStatsOfABroker: a broker keeps statistics, unless it has too little memory for them.
func TestStatsOfABroker(t *testing.T) {
	t.Parallel()
	cfg := settings(t, "file:"+t.TempDir())
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
	if off, err := connect(t, start(t, small)).Stats(t.Context(), "1h"); err != nil || off.Reason == "" || len(off.Series) != 0 {
		t.Errorf("smallest memory limit: %+v, %v, want a reason", off, err)
	}
}
