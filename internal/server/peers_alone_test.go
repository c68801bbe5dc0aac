package server_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/config"
	"github.com/sebbroker/seb/internal/server"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestBrokersThatCannotBeReached do not depose each other again and again.
func TestBrokersThatCannotBeReached(t *testing.T) {
	c := newCrew(t)
	alone := func() config.Config {
		s := c.settings()
		s.Advertise = ""
		return s
	}
	first := alone()
	a := start(t, first)
	b := start(t, alone())
	if !b.Node().Leads() {
		t.Error("it serves clients before it leads")
	}
	c.write(b, "one")
	ends := func(s *server.Server) {
		t.Helper()
		if err := produce(t, connect(t, s)); err == nil {
			t.Fatal("a fenced broker acknowledges a record")
		}
		sebtest.Eventually(t, "the fenced broker ends", func() bool { return errors.Is(s.Err(), broker.ErrFenced) })
	}
	ends(a)
	if err := a.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if again, err := server.Start(t.Context(), first, quiet); !errors.Is(err, broker.ErrFenced) || !strings.Contains(err.Error(), "--advertise") {
		if err == nil {
			_ = again.Close(context.Background())
		}
		t.Fatalf("the first broker starts again with the error %v", err)
	}
	c.write(b, "two")
	first.TakeOver = true
	a = start(t, first)
	c.reads(a, "one", "two")
	ends(b)
}
