package client_test

import (
	"testing"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/sebtest"
)

func TestFsckOfAClient(t *testing.T) {
	c := triggerBroker(t)
	ctx := t.Context()
	if x, err := c.Fsck(ctx, false); err != nil || x.State != "none" || x.Estimate != nil {
		t.Errorf("%+v, %v", x, err)
	}
	if x, err := c.StartFsck(ctx); err != nil || x.StartedAt.IsZero() {
		t.Errorf("%+v, %v", x, err)
	}
	var x client.Fsck
	sebtest.Eventually(t, "the check has ended", func() (ended bool) {
		var err error
		if x, err = c.Fsck(ctx, true); err != nil {
			t.Fatal(err)
		}
		return x.State != "running"
	})
	if x.State != "done" || x.Damages != 0 || x.Summary == nil || x.Estimate == nil || x.Estimate.Objects < x.Checked.Objects {
		t.Errorf("%+v", x)
	}
	if x, err := c.CancelFsck(ctx); err != nil || x.State != "done" {
		t.Errorf("%+v, %v", x, err)
	}
}
