// Package input reads what people and programs give to a broker: texts, lines, and JSON that manages
// the broker. Each kind has one reader, so that bodies of requests, files and standard input accept
// and refuse the same. It does not read the log or the messages of other brokers: a newer version may
// have written those, so their readers ignore what they do not know.
package input

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// mark is the byte order mark of UTF-8. Windows programs write it before a text.
var mark = []byte("\ufeff")

// Errors of texts in another encoding.
var (
	errUTF16 = errors.New("the text is UTF-16: convert it to UTF-8")
	errUTF8  = errors.New("not valid UTF-8")
)

// Unmarked returns the beginning of a text without a byte order mark. It refuses UTF-16, whose
// characters have two bytes, because no reader here would find lines or members in it.
func Unmarked(text []byte) ([]byte, error) {
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return nil, errUTF16
	}
	return bytes.TrimPrefix(text, mark), nil
}

// Text returns a text without a byte order mark. It refuses other encodings than UTF-8.
func Text(text []byte) ([]byte, error) {
	text, err := Unmarked(text)
	switch {
	case err != nil:
		return nil, err
	case len(text) > 1 && (text[0] == 0) != (text[1] == 0): // without a mark
		return nil, errUTF16
	case !utf8.Valid(text):
		return nil, errUTF8
	}
	return text, nil
}

// ReadText reads a Text of at most limit bytes.
func ReadText(r io.Reader, limit int) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if len(text) > limit {
		return nil, fmt.Errorf("more than %d bytes", limit)
	}
	return Text(text)
}

// keyFileMax bounds a file with keys. A device has no end.
const keyFileMax = 64 << 10

// KeyFile reads a file with keys.
func KeyFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := ReadText(f, keyFileMax)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return string(text), nil
}

// Skipped reports whether a file in a folder of input files is not one of them: hidden files, and
// the locks, copies and drafts of editors.
func Skipped(name string) bool {
	name = filepath.Base(name)
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "#") || strings.HasPrefix(name, "~$") || strings.HasSuffix(name, "~") ||
		slices.Contains([]string{".swp", ".swo", ".tmp", ".bak", ".orig"}, filepath.Ext(name))
}
