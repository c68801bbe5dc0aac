package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/triggers/secrets"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestSecretsKeys(t *testing.T) {
	set, file, credential := secrets.NewKey(), secrets.NewKey(), secrets.NewKey()
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	for name, text := range map[string]string{path: file.Reveal(), filepath.Join(dir, config.SecretsCredential): credential.Reveal(), filepath.Join(dir, "bad"): "CANARY"} {
		must.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	active := func(k config.SecretsKeys) secrets.KeyID {
		t.Helper()
		r := must.Get(k.Ring())(t)
		return r.Active()
	}
	if id := active(config.SecretsKeys{}); id != (secrets.KeyID{}) {
		t.Errorf("key %s without settings", id)
	}
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	for want, k := range map[*secrets.Key]config.SecretsKeys{
		set: {Key: secrets.Text(set.Reveal())}, file: {File: path}, credential: {},
	} {
		check.Equalf(t, active(k), want.ID(), "%v: key", k)
	}
	for _, k := range []config.SecretsKeys{{File: filepath.Join(dir, "missing")}, {File: filepath.Join(dir, "bad")}, {Key: "CANARY"}} {
		if _, err := k.Ring(); err == nil || !strings.HasPrefix(err.Error(), "--secrets-key") || strings.Contains(err.Error(), "CANARY") {
			t.Errorf("%v: %v", k, err)
		}
	}
	t.Setenv("CREDENTIALS_DIRECTORY", t.TempDir())
	if id := active(config.SecretsKeys{}); id != (secrets.KeyID{}) {
		t.Errorf("key %s without a credential of that name", id)
	}
}
