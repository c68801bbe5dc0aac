package killloop

import (
	"fmt"
	"os"
	"testing"

	"github.com/sebbroker/seb/internal/program"
)

// seb is the built broker; TestMain makes it.
var seb string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "seb-killloop-bin-*")
	if err != nil {
		panic(err)
	}
	if seb, err = program.Build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func start(t *testing.T, env []string, args ...string) *program.Broker {
	t.Helper()
	b, err := program.Serve(seb, env, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Kill)
	return b
}
