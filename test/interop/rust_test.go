package interop

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// rskafkaVersion is the version in testdata/rust/Cargo.lock.
const rskafkaVersion = "0.6.0"

// rust builds the program in testdata/rust, with the crates of Cargo.lock.
func rust(ctx context.Context) (string, error) {
	cargo, err := needs("cargo", "builds rskafka (Rust 1.85 or later)")
	if err != nil {
		return "", err
	}
	build := func(dir string) error {
		_, err := testenv.Command(ctx, "testdata/rust", cargo, "build", "--quiet", "--locked", "--target-dir", dir)
		return err
	}
	dir, err := testenv.Install("interop/rskafka-"+rskafkaVersion, "rskafka "+rskafkaVersion+" from its crate", build)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "debug", "place"), build(dir) // the program may have changed
}

// TestRust writes batches of every codec whose largest timestamp is above that of every record, and
// reads them.
func TestRust(t *testing.T) {
	testenv.InteropWanted(t)
	program := must.Get(rust(t.Context()))(t)
	b := testenv.ServeInterop(t)
	begin := time.Now()
	c := exec.CommandContext(t.Context(), program)
	c.Env = append(os.Environ(), "BROKER="+b.Address, "KEY="+testenv.InteropKey)
	out, err := c.CombinedOutput()
	if err != nil || string(out) != "40 batches\n" {
		t.Fatalf("%v: %s", err, out)
	}
	report(t, "rskafka", "40 batches in five codecs, their largest timestamp 1 ms above the records", time.Since(begin))
}
