package driplang_test

import (
	"testing"

	"github.com/sebbroker/seb/driplang"
)

func TestSuggest(t *testing.T) {
	known := []string{"user_created", "user_deleted", "login", "logout", "a", "b", "Ångström"}
	for name, want := range map[string]string{
		"user_creatd":  "user_created",
		"User_Created": "user_created",
		"user_craeted": "user_created",
		"user_created": "",
		"user_":        "",
		"lgoin":        "login",
		"logins":       "login",
		"c":            "",
		"A":            "a",
		"purchase":     "",
		"angström":     "Ångström",
	} {
		if got := driplang.Suggest(name, known); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
