package redis

import (
	"testing"

	"github.com/sebbroker/seb/bench/sut"
)

func TestDurabilityOfAppendOnlySettings(t *testing.T) {
	for _, c := range []struct {
		only, sync string
		want       sut.Durability
	}{
		{"no", "always", sut.Memory}, {"yes", "always", sut.Fsync}, {"yes", "everysec", sut.FsyncInterval}, {"yes", "no", sut.PageCache},
	} {
		if got := durability(map[string]string{"appendonly": c.only, "appendfsync": c.sync}); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
