package config_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestDefaultBucketIsBesideTheDataFolder(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	parent, name := filepath.Split(dir)
	for data, want := range map[string]string{
		"seb-data": "seb-bucket", "seb-data/": "seb-bucket", "./seb-data": "seb-bucket", "d1": "d1-bucket", "/var/lib/seb": "/var/lib/seb-bucket",
		"/x/seb-data": "/x/seb-bucket", "../d": "../d-bucket", ".": parent + name + "-bucket", "d/..": parent + name + "-bucket", "/": "error",
	} {
		got, err := config.DefaultBucket(data)
		if err != nil {
			got = "file:error"
		}
		if got != "file:"+want {
			t.Errorf("data folder %s: bucket %s, %v, want file:%s", data, got, err, want)
		}
	}
}

func TestDefaultBucketOfAnOlderVersionIsFound(t *testing.T) {
	write := func(t *testing.T, name string) {
		t.Helper()
		must.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		must.NoError(t, os.WriteFile(name, nil, 0o600))
	}
	const inside, sibling = "seb-data/bucket", "seb-bucket"
	for name, c := range map[string]struct {
		make func(*testing.T)
		want string // "": an error that names both folders
	}{
		"inside":                {func(t *testing.T) { write(t, inside+"/x") }, inside},
		"sibling":               {func(t *testing.T) { write(t, sibling+"/x") }, sibling},
		"both":                  {func(t *testing.T) { write(t, inside+"/x"); write(t, sibling+"/x") }, ""},
		"inside, sibling empty": {func(t *testing.T) { write(t, inside+"/x"); _ = os.Mkdir(sibling, 0o700) }, inside},
		"inside empty":          {func(t *testing.T) { _ = os.MkdirAll(inside, 0o700) }, sibling},
		"inside is a link":      {func(t *testing.T) { write(t, "disk/x"); write(t, "seb-data/y"); _ = os.Symlink("../disk", inside) }, inside},
		"inside is a dead link": {func(t *testing.T) { write(t, "seb-data/y"); _ = os.Symlink("../disk", inside) }, ""},
		"inside is a file":      {func(t *testing.T) { write(t, inside) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			c.make(t)
			got, err := config.DefaultBucket("seb-data")
			if c.want != "" && (err != nil || got != "file:"+c.want) {
				t.Errorf("bucket %s, %v, want %s", got, err, c.want)
			}
			if c.want == "" && (err == nil || !strings.Contains(err.Error(), inside)) {
				t.Errorf("bucket %s, %v, want an error that names %s", got, err, inside)
			}
			if name == "both" && !strings.Contains(err.Error(), sibling) {
				t.Errorf("error %v does not name %s", err, sibling)
			}
		})
	}
}

func TestAnEmptyBucketIsRefused(t *testing.T) {
	for _, name := range []string{"bucket", "s3-bucket"} {
		check.ErrorContainsf(t, check.Err(parse(t, nil, "--"+name, "")), "--"+name, "--%s ''", name)
		env := map[string]string{config.EnvName(name): ""}
		check.ErrorContainsf(t, check.Err(parse(t, env)), "$"+config.EnvName(name), "empty $%s", config.EnvName(name))
		if _, err := parse(t, env, "--"+name, "x"); err != nil {
			t.Errorf("empty $%s with a flag: %v", config.EnvName(name), err)
		}
	}
}

// TestCommandsInMessagesAreWords: a person pastes them into a shell.
func TestCommandsInMessagesAreWords(t *testing.T) {
	for _, word := range []string{"/var/lib/seb", "a b", "it's", "$(touch x)", "a;b", "`x`", "", "ü", "~", "a\nb", "*"} {
		out, err := exec.Command("sh", "-c", "printf %s "+config.ShellQuote(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q is %s: a shell reads %q, %v", word, config.ShellQuote(word), out, err)
		}
	}
	if got, want := config.MoveHint("/a b/seb-data"), "stop the broker and run: mv '/a b/seb-data/bucket' '/a b/seb-bucket'"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	check.Equalf(t, config.ShellQuote("/srv/seb-data_1.2"), "/srv/seb-data_1.2", "plain words stay")
}
