package kafka

import (
	"testing"

	"github.com/sebbroker/seb/bench/sut"
)

func TestDurabilityOfFlushSettings(t *testing.T) {
	for _, c := range []struct {
		messages, millis string
		given, want      sut.Durability
	}{
		{"1", never, "", sut.Fsync},
		{never, never, "", sut.PageCache},
		{"100", never, "", sut.FsyncInterval},
		{never, "1000", "", sut.FsyncInterval},
		{"", "", "", sut.PageCache}, // unknown
		{never, never, sut.ObjectStore, sut.ObjectStore},
	} {
		s := system{durability: c.given}
		got := s.durable(map[string]string{"topic flush.messages": c.messages, "topic flush.ms": c.millis})
		if got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
