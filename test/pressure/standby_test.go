package pressure

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/sebtest"
)

// TestMemoryOfSeveralBrokers: three brokers share a bucket. Clients send bodies to a standby, which
// forwards them, while another standby is stopped and its link fills. All stay within the limit, and
// acknowledged records are stored.
func TestMemoryOfSeveralBrokers(t *testing.T) {
	first := start(t, "--advertise", "127.0.0.1", "--kafka-listen", "")
	join := func() *broker {
		return launch(t, first.store.Spec("pressure"), "--advertise", "127.0.0.1", "--kafka-listen", "")
	}
	forwards, lags := join(), join()
	linked := func(b *broker) func() bool {
		return func() bool { return strings.Count(b.get(b.url+"/cluster"), `"state":"up"`) == 3 }
	}
	for _, b := range []*broker{first, forwards, lags} {
		sebtest.Eventually(t, "three brokers are up", linked(b))
	}
	lags.Signal(syscall.SIGSTOP)
	ctx, cancel := context.WithTimeout(t.Context(), *pushFor/2)
	defer cancel()
	l := push(ctx, forwards, min(*clients, 200), 20*time.Second)
	lags.Signal(syscall.SIGCONT)
	t.Logf("%d clients: %s", min(*clients, 200), l)
	for _, fault := range l.faults {
		t.Error(fault)
	}
	if n := forwards.metric(`seb_http_forwards_total{code="ok"}`); len(l.acked) == 0 || n < float64(len(l.acked)) {
		t.Errorf("%d records were acknowledged, %v requests forwarded", len(l.acked), n)
	}
	for _, b := range []*broker{first, forwards, lags} {
		b.alive()
		sebtest.Eventually(t, "three brokers are up again", linked(b))
		l.check(t, b)
		b.within(limit)
	}
}
