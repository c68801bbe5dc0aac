package interop

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/testenv"
)

// TestSarama runs the program in testdata/sarama, a module of its own: the client and the admin of sarama.
func TestSarama(t *testing.T) {
	testenv.InteropWanted(t)
	b := testenv.ServeInterop(t)
	begin := time.Now()
	c := exec.CommandContext(t.Context(), "go", "run", ".")
	c.Dir = "testdata/sarama"
	c.Env = append(os.Environ(), "GOWORK=off", "BROKER="+b.Address, "KEY="+testenv.InteropKey)
	out, err := c.CombinedOutput()
	const want = "topics\nrecords\na group\nconfigs\nwhat there is not\n"
	if err != nil || string(out) != want {
		t.Fatalf("%v: %s", err, out)
	}
	report(t, "sarama", "records, a group, configs, and what there is not", time.Since(begin))
}
