package driplang_test

import (
	"testing"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/test/check"
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
		check.Equalf(t, driplang.Suggest(name, known), want, "%s", name)
	}
}
