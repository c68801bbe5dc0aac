package api

import (
	"encoding/base64"
	"unicode/utf8"
)

// TextOrBase64 returns b for the JSON members NAME and NAME_base64: text if b is valid UTF-8, else
// standard base64. If b is nil, both are nil.
func TextOrBase64(b []byte) (text, b64 *string) {
	switch {
	case b == nil:
		return nil, nil
	case utf8.Valid(b):
		return new(string(b)), nil
	}
	return nil, new(base64.StdEncoding.EncodeToString(b))
}
