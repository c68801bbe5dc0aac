package seb_test

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/sebbroker/seb"
	"github.com/sebbroker/seb/test/must"
)

// TestABrokerWithoutALoggerPrintsNothing: the broker and the initialization of its packages print
// nothing.
func TestABrokerWithoutALoggerPrintsNothing(t *testing.T) {
	const child = "SEB_TEST_QUIET_CHILD"
	if os.Getenv(child) != "" {
		b := must.Get(seb.Open(t.Context(), seb.Options{Bucket: "mem:"}))(t)
		must.NoError(t, b.Close(t.Context()))
		return
	}
	var out, fault bytes.Buffer
	c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	c.Env = append(os.Environ(), child+"=1")
	c.Stdout, c.Stderr = &out, &fault
	if err := c.Run(); err != nil || fault.Len() > 0 || out.String() != "PASS\n" {
		t.Errorf("%v: %s%s", err, out.String(), fault.String())
	}
}
