package pressure

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/testenv"
)

// The defaults are a short run for every day; `go run ./test/cmd/memory` asks for the long one.
var (
	clients   = flag.Int("clients", 300, "clients that push at once; the full run takes 2000")
	pushFor   = flag.Duration("push", 2*time.Second, "for how long they begin requests; the full run takes 3m")
	storeWait = flag.Duration("store-delay", 500*time.Millisecond, "how late the store answers meanwhile; the full run takes 10s")
	idle      = flag.Int("idle", 400, "connections that say nothing; the full run takes 5000")
	churnFor  = flag.Duration("churn", 2*time.Second, "for how long clients come and go; the full run takes 10m")
)

// built names a seb to test instead of building one.
var built = flag.String("seb", "", "a built seb; empty: build it")

// limit is the memory of the machine that these tests pretend to have, and what the broker is told it has.
const limit = 64 << 20

// seb is the built broker; TestMain makes it.
var seb string

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "seb-pressure-*")
	if err != nil {
		panic(err)
	}
	if seb = *built; seb == "" {
		seb, err = testenv.Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}
