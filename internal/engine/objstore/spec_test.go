package objstore_test

import (
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/storetest"
)

func TestSpecs(t *testing.T) {
	s3 := func(o objstore.S3Options) objstore.Spec { return objstore.Spec{Kind: objstore.KindS3, S3: o} }
	disk := func(dir string) objstore.Spec { return objstore.Spec{Kind: objstore.KindDisk, Dir: dir} }
	for spec, want := range map[string]objstore.Spec{
		"mem:":                  {Kind: objstore.KindMemory},
		"./data":                disk("./data"),
		"../data":               disk("../data"),
		".":                     disk("."),
		"/var/lib/seb":          disk("/var/lib/seb"),
		"file:data":             disk("data"),
		"file:/var/lib/seb":     disk("/var/lib/seb"),
		"file:///var/lib/seb":   disk("/var/lib/seb"),
		"./data?fsync=true":     disk("./data"),
		"./data?fsync=false":    {Kind: objstore.KindDisk, Dir: "./data", Disk: objstore.DiskOptions{NoSync: true}},
		"./data?journal=false":  {Kind: objstore.KindDisk, Dir: "./data", Disk: objstore.DiskOptions{NoJournal: true}},
		"s3://bucket":           s3(objstore.S3Options{Bucket: "bucket"}),
		"s3://bucket/":          s3(objstore.S3Options{Bucket: "bucket"}),
		"s3://bucket/a/b/":      s3(objstore.S3Options{Bucket: "bucket", Prefix: "a/b"}),
		"s3://b?checksum=false": s3(objstore.S3Options{Bucket: "b", NoChecksum: true}),
		"s3://b/p?region=r":     s3(objstore.S3Options{Bucket: "b", Prefix: "p", Region: "r"}),
		"s3://b?sse=AES256":     s3(objstore.S3Options{Bucket: "b", Encryption: "AES256"}),
		"s3://b?sse=aws:kms":    s3(objstore.S3Options{Bucket: "b", Encryption: "aws:kms"}),
		"s3://b?sse=aws:kms&kms-key=arn:aws:kms:eu-central-1:1:key/2": s3(objstore.S3Options{
			Bucket: "b", Encryption: "aws:kms", KMSKey: "arn:aws:kms:eu-central-1:1:key/2",
		}),
		"s3://b?path-style=true": s3(objstore.S3Options{Bucket: "b", PathStyle: true}),
		"s3://b/p?endpoint=http://h:9000&region=r&path-style=true": s3(objstore.S3Options{
			Bucket: "b", Prefix: "p", Endpoint: "http://h:9000", Region: "r", PathStyle: true,
		}),
	} {
		got, err := objstore.ParseSpec(spec)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", spec, got, err)
		}
	}
}

func TestDiskName(t *testing.T) {
	dir := t.TempDir()
	for _, parameters := range []string{"", "?fsync=false", "?journal=false", "?fsync=false&journal=false"} {
		s := openDisk(t, dir, must.Get(objstore.ParseSpec(dir+parameters))(t).Disk)
		check.Equalf(t, s.String(), "file:"+dir+parameters, "%q: name", parameters)
	}
}

func TestInvalidSpecs(t *testing.T) {
	for spec, want := range map[string]string{
		"":                              "want",
		"data":                          "./dir",
		"mem":                           "mem:",
		"http://host/bucket":            "s3://",
		"s3:bucket":                     "s3://",
		"s3://":                         "bucket",
		"s3:///prefix":                  "bucket",
		"s3://b/a//b":                   "prefix",
		"s3://b/../c":                   "prefix",
		"s3://b/ä":                      "prefix",
		"s3://b?endpoint=host":          "endpoint",
		"s3://b?endpoint=ftp://host":    "endpoint",
		"s3://b?endpoint=http://u:p@h":  "endpoint",
		"s3://b?path-style=maybe":       "path-style",
		"s3://b?fsync=false":            "fsync",
		"s3://b?region=a&region=b":      "region",
		"s3://b?zone=1&area=2":          `"area", "zone"`,
		"./data?fsnyc=false":            "fsnyc",
		"./data?fsync=no":               "fsync",
		"./data?journal=no":             "journal",
		"s3://b?journal=false":          "journal",
		"./data?fsync=false&region=eu":  "region",
		"mem:?fsync=false":              "fsync",
		"file:":                         "folder",
		"file://host/dir":               "file:///",
		"./data?%zz":                    "parameters",
		"s3://b?sse=aes256":             "sse: want AES256 or aws:kms",
		"s3://b?sse=aws:kms:dsse":       "sse: want AES256 or aws:kms",
		"s3://b?kms-key=k":              "kms-key: want sse=aws:kms",
		"s3://b?sse=AES256&kms-key=k":   "kms-key: want sse=aws:kms",
		"./data?sse=AES256":             "only of s3://",
		"file:d?kms-key=k":              "only of s3://",
		"mem:?sse=AES256":               `"sse"`,
		"s3://b?access-key=k&secret=no": `"access-key", "secret"`,
	} {
		_, err := objstore.ParseSpec(spec)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v lacks %q", spec, err, want)
		}
	}
}

func TestAs(t *testing.T) {
	wrapped := storetest.NewCounter(storetest.NewFaulty(objstore.NewMemory(), 1, storetest.Faults{}))
	if _, ok := objstore.As[*storetest.Faulty](wrapped); !ok {
		t.Error("a wrapped store is not found")
	}
	if _, ok := objstore.As[objstore.Clocked](wrapped); ok {
		t.Error("memory has no clock")
	}
}

func TestKeys(t *testing.T) {
	long := strings.Repeat("x", objstore.KeyBytesMax)
	for key, want := range map[string]bool{"a": true, "a/b": true, long: true, long + "x": false, "": false, "a/": false, "+tmp/x": false, "a\n": false} {
		check.Equalf(t, objstore.ValidKey(key), want, "%q: %v", key, !want)
	}
	for prefix, want := range map[string]bool{"": true, "a/": true, "a/.": true, "..": true, "../": false, "/": false, "a//": false, long: true, long + "x": false} {
		check.Equalf(t, objstore.PossiblePrefix(prefix), want, "%q: %v", prefix, !want)
	}
}
