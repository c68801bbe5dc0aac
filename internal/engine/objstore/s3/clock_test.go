package s3

import (
	"net/http"
	"testing"
	"time"
)

// TestSlowResponsesDoNotSetTheClock: a request that took a minute gives the store's clock only to
// half a minute.
func TestSlowResponsesDoNotSetTheClock(t *testing.T) {
	var c storeClock
	at := func(off time.Duration) http.Header {
		return http.Header{"Date": {time.Now().Add(off).UTC().Format(http.TimeFormat)}}
	}
	if _, known := c.skew(); known {
		t.Error("known before any answer")
	}
	c.observe(time.Now().Add(-time.Minute), at(0)) // the first one counts in any case
	if _, known := c.skew(); !known {
		t.Error("unknown after the first answer")
	}
	c.observe(time.Now(), at(-time.Hour))
	c.observe(time.Now().Add(-time.Minute), at(0))
	if skew, _ := c.skew(); skew < 59*time.Minute || skew > 61*time.Minute {
		t.Errorf("a slow response counts: skew %v", skew)
	}
}
