package auth

import (
	"crypto/hmac"
	"encoding/hex"
	"strings"
)

// Vouch returns a code for a statement about a request that this broker forwards. A broker with the
// same root key recognizes the code with Vouched.
func (a *Authority) Vouch(statement ...string) string {
	return hex.EncodeToString(a.sealed("forwarded", []byte(strings.Join(statement, "\n"))))
}

// Vouched reports whether a broker with the root key has made code for the statement.
func (a *Authority) Vouched(code string, statement ...string) bool {
	given, err := hex.DecodeString(code)
	return err == nil && hmac.Equal(given, a.sealed("forwarded", []byte(strings.Join(statement, "\n"))))
}
