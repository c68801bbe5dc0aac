package api

import (
	"encoding/base64"
	"unicode/utf8"
)

// TextOrBase64 returns b as the JSON members NAME and NAME_base64 hold it: text if b is valid UTF-8, else standard base64. Both
// are nil if b is.
func TextOrBase64(b []byte) (text, b64 *string) {
	switch {
	case b == nil:
		return nil, nil
	case utf8.Valid(b):
		return new(string(b)), nil
	}
	return nil, new(base64.StdEncoding.EncodeToString(b))
}
