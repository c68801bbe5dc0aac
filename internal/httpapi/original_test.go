package httpapi

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestCutsAreLoggedOnceInAWhile: six hundred clients of a broker that stops make one line.
func TestCutsAreLoggedOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log, r := slog.New(slog.NewTextHandler(&out, nil)), httptest.NewRequest("POST", "/records", nil)
		var c cutLog
		for range 600 {
			c.log(log, r, errors.New("no"))
		}
		time.Sleep(cutLogEvery)
		c.log(log, r, errors.New("no"))
		if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 2 || !strings.Contains(lines[1], "others_before=599") {
			t.Errorf("%d lines: %.400s", len(lines), &out)
		}
	})
}
