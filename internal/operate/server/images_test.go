package server_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/operate/server"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestImagesOfKeyAndAddress: whatever the state of the key file and the address file, a broker
// starts with a working key, or the error names the file. It keeps an intact key. The bucket loses
// nothing, and no temporary file remains.
func TestImagesOfKeyAndAddress(t *testing.T) {
	t.Parallel()
	bucket := "file:" + t.TempDir()
	cfg := settings(t, bucket)
	s := start(t, cfg)
	must.NoError(t, produce(t, connect(t, s)))
	key := s.APIKey()
	address := must.Get(os.ReadFile(filepath.Join(cfg.DataDir, server.RuntimeFile)))(t)
	must.NoError(t, s.Close(t.Context()))
	records := int64(1)
	for _, file := range []string{server.KeyFile, server.RuntimeFile, ".new-1"}[:sebtest.Runs(3, 2)] {
		whole := key + "\n"
		if file == server.RuntimeFile {
			whole = string(address)
		}
		for what, text := range imagesOf(whole) {
			t.Run(file+" "+what, func(t *testing.T) {
				cfg := settings(t, bucket)
				path := filepath.Join(cfg.DataDir, file)
				putImage(t, cfg.DataDir, key, path, what, text)
				started, err := server.Start(t.Context(), cfg, quiet)
				if err != nil {
					if !strings.Contains(err.Error(), path) || file != server.KeyFile {
						t.Errorf("the error does not name the file: %v", err)
					}
					return
				}
				defer func() {
					// which the broker cannot remove
					if err := started.Close(context.Background()); err != nil && what != "a folder" {
						t.Error(err)
					}
				}()
				if got := started.APIKey(); got == "" || (file != server.KeyFile || what == "whole") && got != key {
					t.Errorf("key %q, want %q", got, key)
				}
				c := connect(t, started)
				must.NoError(t, produce(t, c))
				records++
				n := int64(0)
				for _, err := range c.Records(t.Context(), "t", client.ReadOptions{}) {
					must.NoError(t, err)
					n++
				}
				check.Equalf(t, n, records, "records are there")
				if r, err := server.Discover(cfg.DataDir); what != "a folder" && (err != nil || r.Address != started.URL() || r.APIKey != started.APIKey()) {
					t.Errorf("Discover: %+v, %v", r, err)
				}
				// A file that the broker writes now is temporary for a moment.
				sebtest.Eventually(t, "a data folder without temporary files", func() bool {
					left, _ := filepath.Glob(filepath.Join(cfg.DataDir, ".new-*"))
					return len(left) == 0 || what == "a folder"
				})
			})
		}
	}
}

// imagesOf returns possible contents of a file after a crash.
func imagesOf(whole string) map[string]string {
	images := map[string]string{"whole": whole, "empty": "", "zeros": string(make([]byte, len(whole))), "two lines": whole + whole, "no text": "\xff\xfe"}
	for at := 1; at < len(whole); at += sebtest.Runs(7, 70) {
		images[fmt.Sprintf("cut at %d", at)] = whole[:at]
	}
	images["missing"] = "missing"
	images["a folder"] = "a folder"
	return images
}

// putImage creates a data folder with an intact key, and with an image of a file.
func putImage(t *testing.T, dir, key, path, what, text string) {
	t.Helper()
	err := os.WriteFile(filepath.Join(dir, server.KeyFile), []byte(key+"\n"), 0o600)
	switch what {
	case "missing":
		err = errors.Join(err, os.RemoveAll(path))
	case "a folder":
		err = errors.Join(err, os.RemoveAll(path), os.MkdirAll(filepath.Join(path, "x"), 0o700))
	default:
		err = errors.Join(err, os.WriteFile(path, []byte(text), 0o600))
	}
	must.NoError(t, err)
}
