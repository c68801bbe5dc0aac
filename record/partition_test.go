package record

import (
	"fmt"
	"math"
	"testing"
)

func TestMurmur2EqualsTheJavaClient(t *testing.T) {
	for key, want := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107,
	} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("murmur2(%q) = %d, want %d", key, got, want)
		}
	}
	if got := PartitionOf([]byte("foobar"), 1000); got != int32((-790332482&math.MaxInt32)%1000) {
		t.Errorf("partition of foobar: %d", got)
	}
	if PartitionOf(nil, 7) != 0 || PartitionOf([]byte("x"), 1) != 0 {
		t.Error("without a key, or with one partition, want partition 0")
	}
	used := map[int32]bool{}
	for i := range 1000 {
		used[PartitionOf(fmt.Append(nil, i), 7)] = true
	}
	if len(used) != 7 {
		t.Errorf("1000 keys use %d of 7 partitions", len(used))
	}
}
