package pressure

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/testenv"
)

// The defaults are a short run; `go run ./test/cmd/memory` does the long one.
var (
	clients   = flag.Int("clients", 300, "number of concurrent clients (full run: 2000)")
	pushFor   = flag.Duration("push", 2*time.Second, "time during which they start requests (full run: 3m)")
	storeWait = flag.Duration("store-delay", 500*time.Millisecond, "delay of the store's answers during that time (full run: 10s)")
	idle      = flag.Int("idle", 800, "number of idle connections (full run: 5000)")
	churnFor  = flag.Duration("churn", 2*time.Second, "time with clients that connect and disconnect (full run: 10m)")
)

// built names a seb to test instead of building one.
var built = flag.String("seb", "", "path of a built seb (empty: build it)")

// limit is the memory of the simulated machine, and the broker's --memory-limit.
const limit = 64 << 20

// beside lets a test that mostly waits run beside others. In a full run it has the machine to itself.
func beside(t *testing.T) {
	if *idle < 1000 {
		t.Parallel()
	}
}

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// seb returns the path of the broker.
func seb(t testing.TB) string {
	if *built != "" {
		return *built
	}
	return testenv.Program(t)
}
