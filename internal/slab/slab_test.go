package slab

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
)

// TestSlabsAreGivenBack to the system: by their last user, and by the collector if nobody refers to them.
func TestSlabsAreGivenBack(t *testing.T) {
	mapped := func() (n int) {
		b, err := os.ReadFile("/proc/self/statm")
		if err != nil {
			t.Skip("this system does not say how much is mapped")
		}
		if _, err := fmt.Sscan(string(b), &n); err != nil {
			t.Fatal(err)
		}
		return n * os.Getpagesize()
	}
	const slabs = 200
	before := mapped()
	for range slabs {
		newSlab(Size).Release()
	}
	if grown := mapped() - before; grown > slabs*Size/4 {
		t.Errorf("%d MiB more are mapped after the last user", grown>>20)
	}
	for range slabs {
		_ = newSlab(Size)
	}
	for end := time.Now().Add(20 * time.Second); ; runtime.Gosched() {
		runtime.GC()
		grown := mapped() - before
		if grown < slabs*Size/4 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d MiB more are mapped after a collection", grown>>20)
		}
	}
}
