package objstore

import (
	"net/url"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// respell writes a parsed spec as text.
func respell(s *Spec) string {
	switch q := (url.Values{}); s.Kind {
	case KindMemory:
		return "mem:"
	case KindDisk:
		return "file:" + s.Dir + "?fsync=" + strconv.FormatBool(!s.Disk.NoSync)
	case KindS3:
		q.Set("endpoint", s.S3.Endpoint)
		q.Set("region", s.S3.Region)
		q.Set("path-style", strconv.FormatBool(s.S3.PathStyle))
		q.Set("checksum", strconv.FormatBool(!s.S3.NoChecksum))
		q.Set("sse", s.S3.Encryption)
		q.Set("kms-key", s.S3.KMSKey)
		return "s3://" + s.S3.Bucket + "/" + s.S3.Prefix + "?" + q.Encode()
	}
	return ""
}

// FuzzSpec checks that a parsed spec can be written and parsed again with the same meaning, and
// that an error contains the given text.
func FuzzSpec(f *testing.F) {
	for _, s := range []string{
		"mem:", "./dir", "file:///var/lib/seb?fsync=false", "file:d%20?fsync=1", "s3://b/a/b/?endpoint=http://h:9000&region=r&path-style=true&checksum=0",
		"s3://b?sse=aws:kms&kms-key=alias/a", "./d?sse=", "s3://b?endpoint=http://u:p@h", "s3://b?region=a&region=b", "s3://", "http://x", "./a?b=%zz",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSpec(text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "bucket \"") || s != (Spec{}) {
				t.Fatalf("%+v, %v", s, err)
			}
			return
		}
		if s.Kind == KindS3 && s.S3.Validate() != nil || s.Kind == KindDisk && s.Dir == "" {
			t.Fatalf("%q parses as %+v", text, s)
		}
		if strings.HasPrefix(s.Dir, "//") {
			return // file: and two slashes are a URL
		}
		again, err := ParseSpec(respell(&s))
		if err != nil || again != s {
			t.Fatalf("%q parses as %+v, %q as %+v, %v", text, s, respell(&s), again, err)
		}
	})
}

// FuzzValidKey checks that a valid key names one file below a folder, is unchanged in a URL, and
// that each of its prefixes can be listed.
func FuzzValidKey(f *testing.F) {
	for _, s := range []string{"a", "a/b-c_d~e.f", "..", "a/../b", "a//b", "/a", "a/", "a/.", "%2e%2e", "a\x00", "+tmp/x", "A.B", "é", strings.Repeat("a/", 256)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if !ValidKey(key) {
			if key != "" && len(key) <= KeyBytesMax && path.Clean(key) == key && filepath.IsLocal(key) && key != "." && url.PathEscape(strings.ReplaceAll(key, "/", "")) == strings.ReplaceAll(key, "/", "") &&
				!strings.ContainsAny(key, "+:@&=$") {
				t.Fatalf("%q is refused", key)
			}
			return
		}
		if !filepath.IsLocal(key) || path.Clean(key) != key || len(key) > KeyBytesMax || strings.HasPrefix(key, tempRoot) {
			t.Fatalf("%q is allowed", key)
		}
		if u, err := url.Parse("http://h/" + key); err != nil || u.Path != "/"+key || u.EscapedPath() != "/"+key || u.RawQuery != "" || u.Fragment != "" {
			t.Fatalf("%q is another path in a URL: %v, %v", key, u, err)
		}
		for i := range key[:min(len(key), 40)] {
			if !PossiblePrefix(key[:i]) {
				t.Fatalf("%q begins with %q, but PossiblePrefix is false", key, key[:i])
			}
		}
	})
}
