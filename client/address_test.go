package client_test

import (
	"strings"
	"testing"

	"github.com/sebbroker/seb/client"
)

// TestInvalidAddresses: New refuses each, with a message that omits a possible password.
func TestInvalidAddresses(t *testing.T) {
	const secret = "CANARY"
	for _, address := range []string{
		"", "127.0.0.1:1", "ftp://h", "http://", "http://h?key=" + secret, "http://u:" + secret + "@h", "http://" + secret + "@h:1",
		"http://u:" + secret + "@h:x", "ftp://u:" + secret + "@h", "http://u:" + secret + "%zz@h", "://" + secret, "http://h\n" + secret,
	} {
		if _, err := client.New(address, client.Options{}); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", address, err)
		}
	}
	for _, key := range []string{secret + "\n", secret + "\x00", secret + "\r\nX: y", secret + "\x7f"} {
		if _, err := client.New("http://h", client.Options{APIKey: key}); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", key, err)
		}
	}
	if _, err := client.New("http://h:1/prefix", client.Options{APIKey: "a key"}); err != nil {
		t.Error(err)
	}
}
