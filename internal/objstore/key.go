package objstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// KeyBytesMax is the longest key in bytes, without the store's prefix.
const KeyBytesMax = 512

// pageMax is the maximum number of names in one page of a listing, as on S3.
const pageMax = 1000

// ValidKey reports whether key obeys the rules of Store: relative, '/'-separated, no empty, "." or
// ".." element, at most KeyBytesMax bytes of [A-Za-z0-9._~-].
func ValidKey(key string) bool {
	if len(key) == 0 || len(key) > KeyBytesMax {
		return false
	}
	for element := range strings.SplitSeq(key, "/") {
		if element == "" || element == "." || element == ".." || !validBytes(element) {
			return false
		}
	}
	return true
}

func validBytes(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '.', c == '_', c == '~', c == '-':
		default:
			return false
		}
	}
	return true
}

var errBadKey = errors.New("invalid key")

// begin makes the checks that all operations on named objects start with: the keys, then the
// context.
func begin(ctx context.Context, step string, keys ...string) error {
	for _, key := range keys {
		if !ValidKey(key) {
			return fmt.Errorf("%s %q: %w: %w", step, key, ErrRefused, errBadKey)
		}
	}
	return alive(ctx, step)
}

// alive returns the verdict of a call whose ctx has ended, else nil.
func alive(ctx context.Context, step string) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %w", step, ErrNoVerdict, ended(ctx))
}

// ended is the error of an ended ctx, with its cause if there is one.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w (%w)", err, cause)
}

// clip turns r into offset and length within an object of size bytes.
func clip(r Range, size int64) (offset, length int64, err error) {
	if err := checkRange(r); err != nil {
		return 0, 0, err
	}
	if r.Offset > 0 && r.Offset >= size {
		return 0, 0, fmt.Errorf("%w: range starts at %d, object has %d bytes", ErrRefused, r.Offset, size)
	}
	length = size - r.Offset
	if r.Length > 0 {
		length = min(length, r.Length)
	}
	return r.Offset, length, nil
}

func checkRange(r Range) error {
	if r.Offset < 0 || r.Length == 0 {
		return fmt.Errorf("%w: range of %d bytes from %d", ErrRefused, r.Length, r.Offset)
	}
	return nil
}

// pageSize is the maximum number of entries in a listing.
func pageSize(wanted int) int {
	if wanted <= 0 || wanted > pageMax {
		return pageMax
	}
	return wanted
}

// checkBody checks Size, because a header with another length would truncate the object.
func checkBody(key string, body Body) error {
	if n := NewBody(body.Parts...).Size; n != body.Size {
		return fmt.Errorf("put %s: %w: body size %d, parts have %d bytes", key, ErrRefused, body.Size, n)
	}
	return nil
}

// possiblePrefix reports whether a valid key can begin with prefix.
func possiblePrefix(prefix string) bool {
	return prefix == "" || ValidKey(prefix) || ValidKey(prefix+"x")
}
