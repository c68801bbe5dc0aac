package config_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/operate/config"
)

// FuzzSettings: the text form of any accepted setting is accepted again with the same value, from a
// flag or the environment. An accepted API key survives a header and a file.
func FuzzSettings(f *testing.F) {
	for _, s := range []string{"10MiB", "1 gb", "-1", "9223372036854775807", "9223372036854775808", "8388608TiB", "0x10", "auto", "250ms", "-1s", "1h1ns", "a key", "s3cr€t", "debug", "7"} {
		for which := range uint8(5) {
			f.Add(which, s)
		}
	}
	names := []string{"memory-limit", "batch-wait-time", "log-level", "http-port", "pack-age"}
	read := func(t *testing.T, name, v string) (c, env config.Config, err, envErr error) {
		c, err = parse(t, nil, "--"+name+"="+v)
		env, envErr = parse(t, map[string]string{config.EnvName(name): v})
		return c, env, err, envErr
	}
	f.Fuzz(func(t *testing.T, which uint8, s string) {
		var b, again config.Bytes
		if err := b.Set(s); err == nil {
			if err := again.Set(b.String()); err != nil || again != b || b < 0 {
				t.Fatalf("%q is %d, %q is %d, %v", s, b, b.String(), again, err)
			}
		}
		name := names[int(which)%len(names)]
		c, env, err, envErr := read(t, name, s)
		if (err == nil) != (envErr == nil) && s != "" || err == nil && envErr == nil && s != "" && c != env {
			t.Fatalf("--%s=%q: %+v, %v; from the environment %+v, %v", name, s, c, err, env, envErr)
		}
		if err == nil && (c.Batch.WaitTime < 0 && c.Batch.WaitTime != config.AutoWait || c.Batch.WaitTime > time.Minute && c.Validate() == nil) {
			t.Fatalf("--%s=%q: %+v", name, s, c)
		}
		if config.CheckAPIKey(s) == nil {
			r := &http.Request{Header: http.Header{}}
			r.Header.Set("Authorization", "Bearer "+s)
			if strings.TrimSpace(s) != s || strings.ContainsAny(s, "\r\n\x00 ") || strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") != s {
				t.Fatalf("%q is allowed as a key", s)
			}
		}
	})
}
