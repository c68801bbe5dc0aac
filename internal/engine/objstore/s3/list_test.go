package s3

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/must"
)

func listing(truncated string, keys ...string) string {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0"?><ListBucketResult xmlns="http://awss3.amazonaws.com/doc/2006-03-01/"><Name>b</Name>` + truncated)
	for _, k := range keys {
		b.WriteString("<Contents><Key>" + k + "</Key><Size>5</Size></Contents>")
	}
	return b.String() + "</ListBucketResult>"
}

const (
	lastPage = "<IsTruncated>false</IsTruncated>"
	notLast  = "<IsTruncated>true</IsTruncated>"
)

func TestInvalidListings(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want error
	}{
		"in order":           {listing(lastPage, "p/a", "p/b"), nil},
		"none":               {listing(lastPage), nil},
		"out of order":       {listing(lastPage, "p/b", "p/a"), objstore.ErrRefused},
		"a name twice":       {listing(lastPage, "p/a", "p/a"), objstore.ErrRefused},
		"no end in sight":    {listing("", "p/a"), objstore.ErrNoVerdict},
		"more after nothing": {listing(notLast), objstore.ErrNoVerdict},
		"truncated":          {listing(lastPage, "p/a", "p/b")[:200], objstore.ErrNoVerdict},
		"another document":   {"<html></html>", objstore.ErrNoVerdict},
		"not XML":            {"{}", objstore.ErrNoVerdict},
		"another of S3's":    {"<ListAllMyBucketsResult></ListAllMyBucketsResult>", objstore.ErrNoVerdict},
		"a size in words":    {strings.Replace(listing(lastPage, "p/a"), "<Size>5", "<Size>five", 1), objstore.ErrNoVerdict},
		"foreign name":       {listing(lastPage, "p/a b", "p/ok", "p/sub/", "q"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := answering(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.body) })
			entries, more, err := s.List(t.Context(), objstore.ListOptions{})
			if classOf(err) != c.want {
				t.Fatalf("%v, %v, %v", entries, more, err)
			}
			if name == "foreign name" && (len(entries) != 1 || entries[0] != objstore.Entry{Key: "ok", Size: 5}) {
				t.Fatalf("%v", entries)
			}
		})
	}
}

func TestPageOfForeignNamesIsSkipped(t *testing.T) {
	var after []string
	s := answering(t, func(w http.ResponseWriter, r *http.Request) {
		after = append(after, r.URL.Query().Get("start-after"))
		page := listing(notLast, "p/a+", "p/b+")
		if len(after) == 2 {
			page = listing(lastPage, "p/c")
		}
		_, _ = io.WriteString(w, page)
	})
	entries, more, err := s.List(t.Context(), objstore.ListOptions{})
	if err != nil || more || len(entries) != 1 || fmt.Sprint(after) != "[ p/b+]" {
		t.Fatalf("%v, %v, %v, asked after %q", entries, more, err, after)
	}
}

func TestBulkDeleteAnswers(t *testing.T) {
	result := func(codes ...string) string {
		all := "<DeleteResult>"
		for i, code := range codes {
			all += fmt.Sprintf("<Error><Key>p/%d</Key><Code>%s</Code></Error>", i, code)
		}
		return all + "</DeleteResult>"
	}
	for body, want := range map[string]error{
		result():                                nil,
		result("NoSuchKey"):                     nil,
		result("InternalError"):                 objstore.ErrNoVerdict,
		result("SlowDown"):                      objstore.ErrThrottled,
		result("AccessDenied"):                  objstore.ErrRefused,
		result("InternalError", "AccessDenied"): objstore.ErrRefused,
		result("SomethingNew"):                  objstore.ErrNoVerdict,
	} {
		s := answering(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		if err := s.Delete(t.Context(), "a", "b"); classOf(err) != want {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestStoresWithoutBulkDelete(t *testing.T) {
	var posts, deletes int
	s := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			posts++
			w.WriteHeader(http.StatusNotImplemented)
			_, _ = io.WriteString(w, errorXML("NotImplemented"))
			return
		}
		deletes++
		w.WriteHeader(http.StatusNoContent)
	})
	for range 2 {
		must.NoError(t, s.Delete(t.Context(), "a", "b", "c"))
	}
	if posts != 1 || deletes != 6 {
		t.Fatalf("%d bulk requests and %d single ones", posts, deletes)
	}
}

func TestClockSkew(t *testing.T) {
	for _, skew := range []time.Duration{0, -10 * time.Minute, 3 * time.Hour} {
		s := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", time.Now().Add(-skew).UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusForbidden)
		})
		if _, ok := s.ClockSkew(); ok {
			t.Fatal("known before the first answer")
		}
		_ = s.Put(t.Context(), "k", objstore.NewBody([]byte("x")))
		got, ok := s.ClockSkew()
		if d := (got - skew).Abs(); !ok || d > 30*time.Second { // generous: a loaded machine
			t.Fatalf("%v, %v, want %v", got, ok, skew)
		}
	}
}

func TestLifecycleWarning(t *testing.T) {
	rule := func(status, filter, action string) string {
		return "<Rule><ID>r</ID><Status>" + status + "</Status>" + filter + action + "</Rule>"
	}
	const days = "<Expiration><Days>30</Days></Expiration>"
	prefix := func(p string) string { return "<Filter><Prefix>" + p + "</Prefix></Filter>" }
	for rules, warns := range map[string]bool{
		"":                                            false,
		rule("Enabled", "<Filter/>", days):            true,
		rule("Enabled", prefix(""), days):             true,
		rule("Enabled", prefix("p"), days):            true,
		rule("Enabled", prefix("p/"), days):           true,
		rule("Enabled", prefix("p/s0000/wal/"), days): true,
		rule("Enabled", "<Prefix>p/</Prefix>", days):  true,
		rule("Enabled", "<Filter><And><Prefix>p/</Prefix></And></Filter>", days): true,
		rule("Enabled", prefix("q/"), days):                                      false,
		rule("Disabled", prefix(""), days):                                       false,
		rule("Enabled", prefix(""), "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>"):                          false,
		rule("Enabled", prefix(""), "<NoncurrentVersionExpiration><NoncurrentDays>3</NoncurrentDays></NoncurrentVersionExpiration>"):                 false,
		rule("Enabled", prefix(""), "<AbortIncompleteMultipartUpload><DaysAfterInitiation>3</DaysAfterInitiation></AbortIncompleteMultipartUpload>"): false,
		rule("Enabled", prefix(""), "<Transition><Days>3</Days><StorageClass>DEEP_ARCHIVE</StorageClass></Transition>"):                              true,
		rule("Enabled", prefix(""), "<Transition><Days>3</Days><StorageClass>STANDARD_IA</StorageClass></Transition>"):                               false,
	} {
		s := answering(t, func(w http.ResponseWriter, r *http.Request) {
			if !r.URL.Query().Has("lifecycle") {
				t.Errorf("asked for %s", r.URL)
			}
			_, _ = io.WriteString(w, "<LifecycleConfiguration>"+rules+"</LifecycleConfiguration>")
		})
		if got, err := s.LifecycleWarning(t.Context()); err != nil || (got != "") != warns {
			t.Errorf("%s: %q, %v", rules, got, err)
		}
	}
	for code, known := range map[string]bool{"NoSuchLifecycleConfiguration": true, "NotImplemented": true, "AccessDenied": false} {
		s := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, errorXML(code))
		})
		if got, err := s.LifecycleWarning(t.Context()); got != "" || (err == nil) != known {
			t.Errorf("%s: %q, %v", code, got, err)
		}
	}
}

// TestSecretsAreNotShown looks for the keys in all texts that an operator may see.
func TestSecretsAreNotShown(t *testing.T) {
	s := answering(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, func(o *objstore.S3Options) {
		o.AccessKey, o.SecretKey, o.SessionToken = "CANARY-A", "CANARY-S", "CANARY-T"
	})
	texts := []string{s.String()}
	for _, err := range requests(t, s) {
		texts = append(texts, err.Error())
	}
	for _, text := range texts {
		if strings.Contains(text, "CANARY") {
			t.Errorf("%q shows a secret", text)
		}
	}
}
