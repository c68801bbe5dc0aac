// Package anystore opens a store of any kind by its address. It is apart from package objstore, so that a
// program without S3 stores does not link the client library of S3.
package anystore

import (
	"context"
	"fmt"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/objstore/s3"
)

// Options complement the address. objstore.S3Options describes the keys.
type Options struct {
	AccessKey, SecretKey, SessionToken string
	// Existing is objstore.DiskOptions.Existing. Other kinds of stores ignore it, because opening
	// them creates nothing.
	Existing bool
}

// Open opens the store that spec names: see objstore.ParseSpec.
func Open(ctx context.Context, spec string, o Options) (objstore.Store, error) {
	parsed, err := objstore.ParseSpec(spec)
	if err != nil {
		return nil, err
	}
	return OpenSpec(ctx, parsed, o)
}

// OpenSpec opens the store of a parsed address.
func OpenSpec(ctx context.Context, s objstore.Spec, o Options) (objstore.Store, error) {
	switch s.Kind {
	case objstore.KindMemory:
		return objstore.NewMemory(), nil
	case objstore.KindDisk:
		s.Disk.Existing = o.Existing
		return asStore(objstore.OpenDisk(s.Dir, s.Disk))
	case objstore.KindS3:
		s.S3.AccessKey, s.S3.SecretKey, s.S3.SessionToken = o.AccessKey, o.SecretKey, o.SessionToken
		return asStore(s3.Open(ctx, s.S3))
	}
	return nil, fmt.Errorf("open store: kind %q", s.Kind)
}

// asStore prevents a nil pointer from becoming a non-nil Store.
func asStore[T objstore.Store](s T, err error) (objstore.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}
