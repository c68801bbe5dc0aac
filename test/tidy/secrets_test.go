package tidy

import "testing"

func TestSecretsAreComparedInConstantTime(t *testing.T) {
	const head = "package server\n\nfunc f() bool {\n\treturn "
	for text, want := range map[string]string{
		`c.APIKey == given`:                           "APIKey is a secret",
		`given != o.apiKey`:                           "apiKey is a secret",
		`c.HTTP.APIKey.Reveal() == given`:             "Reveal is a secret",
		`string(secret) == given`:                     "secret is a secret",
		`secret[:4] == given[:4]`:                     "secret is a secret",
		`bytes.Equal([]byte(password), given)`:        "password is a secret",
		`strings.EqualFold(o.SecretKey, given)`:       "SecretKey is a secret",
		`r.Header.Get("Authorization") == "Bearer x"`: "Authorization is a secret",
		`c.APIKey == ""`:                              "",
		`(o.AccessKey == "") != (o.SecretKey == "")`:  "",
		`len(secret) == 4`:                            "",
		`subtle.ConstantTimeCompare(secret, x) == 1`:  "",
		`topic == name`:                               "",
	} {
		s := source{"internal/server/a.go": head + text + "\n}\n"}
		if want == "" {
			expect(t, checkSecrets, s)
		} else {
			expect(t, checkSecrets, s, want)
		}
	}
	expect(t, checkSecrets, source{"internal/server/a_test.go": head + "c.APIKey == given\n}\n"})
}
