package objstore

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// S3Options describe a bucket and the credentials. Zero values are defaults.
type S3Options struct {
	Bucket    string // required
	Prefix    string // prefix of all keys, without the following slash; may be empty
	Endpoint  string // "https://host[:port]" of a store other than AWS
	Region    string // default: from the environment; us-east-1 if there is an endpoint
	PathStyle bool   // put the bucket in the path instead of the host name

	// AccessKey, SecretKey and SessionToken are used if AccessKey is set. Default: the credentials
	// that AWS tools use, from environment variables, ~/.aws, or the role of the machine or
	// container.
	AccessKey, SecretKey, SessionToken string

	// NoChecksum omits x-amz-checksum-crc32c, for stores that refuse the header.
	NoChecksum bool

	// Encryption is how the store encrypts each object that this store writes: AES256, or aws:kms
	// with KMSKey, or with the account's default key if that is "". "": as the bucket is configured.
	Encryption string
	KMSKey     string // ID, ARN or alias

	// RequestTimeout bounds the wait for a response, and for each further part of a body. Default
	// 10 s. It grows to at most three times that while the store does not answer in time, and
	// shrinks again when it does.
	RequestTimeout time.Duration
	// BytesPerSecondMin adds time for large bodies to RequestTimeout. Default 1 MiB/s.
	BytesPerSecondMin int64
}

// Validate reports all invalid options at once.
func (o S3Options) Validate() error {
	var faults []error
	at := strings.Contains(o.Bucket+o.Prefix, "@")
	if at {
		faults = append(faults, errors.New("bucket and prefix: must not contain credentials or any other @"))
	}
	if o.Bucket == "" || strings.Contains(o.Bucket, "/") {
		faults = append(faults, fmt.Errorf("bucket %q: want a name without /", masked(o.Bucket)))
	}
	if o.Prefix != "" && !ValidKey(o.Prefix) && !at {
		faults = append(faults, fmt.Errorf("prefix %q: invalid key", o.Prefix))
	}
	if o.Endpoint != "" {
		u, err := url.Parse(o.Endpoint)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			faults = append(faults, errors.New("endpoint: want http:// or https:// and a host"))
		case u.User != nil || u.RawQuery != "":
			faults = append(faults, errors.New("endpoint: must not contain credentials or a query"))
		}
	}
	if o.Encryption != "" && o.Encryption != "AES256" && o.Encryption != "aws:kms" {
		faults = append(faults, errors.New("sse: want AES256 or aws:kms"))
	}
	if o.KMSKey != "" && o.Encryption != "aws:kms" {
		faults = append(faults, errors.New("kms-key: want sse=aws:kms with it"))
	}
	if (o.AccessKey == "") != (o.SecretKey == "") {
		faults = append(faults, errors.New("access key and secret key: want both or none"))
	}
	if o.RequestTimeout < 0 || o.BytesPerSecondMin < 0 {
		faults = append(faults, errors.New("request timeout and minimum bytes per second: must not be negative"))
	}
	return errors.Join(faults...)
}
