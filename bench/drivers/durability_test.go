package drivers

import (
	"testing"

	"github.com/sebbroker/seb/bench/sut"
	"github.com/sebbroker/seb/test/check"
)

func TestDurabilityOfFlushSettings(t *testing.T) {
	for _, c := range []struct {
		messages, millis string
		given, want      sut.Durability
	}{
		{"1", kafkaNever, "", sut.Fsync},
		{kafkaNever, kafkaNever, "", sut.PageCache},
		{"100", kafkaNever, "", sut.FsyncInterval},
		{kafkaNever, "1000", "", sut.FsyncInterval},
		{"", "", "", sut.PageCache}, // unknown
		{kafkaNever, kafkaNever, sut.ObjectStore, sut.ObjectStore},
	} {
		s := kafkaSystem{durability: c.given}
		got := s.durable(map[string]string{"topic flush.messages": c.messages, "topic flush.ms": c.millis})
		check.Equalf(t, got, c.want, "%+v", c)
	}
}

func TestDurabilityOfAppendOnlySettings(t *testing.T) {
	for _, c := range []struct {
		only, sync string
		want       sut.Durability
	}{
		{"no", "always", sut.Memory}, {"yes", "always", sut.Fsync}, {"yes", "everysec", sut.FsyncInterval}, {"yes", "no", sut.PageCache},
	} {
		check.Equalf(t, redisDurability(map[string]string{"appendonly": c.only, "appendfsync": c.sync}), c.want, "%+v", c)
	}
}
