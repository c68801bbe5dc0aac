package interop

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/testenv"
)

// TestSarama runs the program in testdata/sarama, a separate module: sarama's client and admin
// client.
func TestSarama(t *testing.T) {
	testenv.InteropWanted(t)
	b := testenv.ServeInterop(t)
	begin := time.Now()
	c := exec.CommandContext(t.Context(), "go", "run", ".")
	c.Dir = "testdata/sarama"
	c.Env = append(os.Environ(), "GOWORK=off", "BROKER="+b.Address, "KEY="+testenv.InteropKey)
	out, err := c.CombinedOutput()
	const want = "topics\nrecords\na group\nconfigs\nrights and what is absent\n"
	if err != nil || string(out) != want {
		t.Fatalf("%v: %s", err, out)
	}
	report(t, "sarama", "records, a group, configs, rights, and what is absent", time.Since(begin))
}
