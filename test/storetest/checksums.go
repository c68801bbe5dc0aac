package storetest

import (
	"context"
	"errors"
	"hash/crc32"
	"io"

	"github.com/sebbroker/seb/internal/engine/objstore"
)

// Checksums returns the checksums of all objects of a bucket by name.
func Checksums(ctx context.Context, store objstore.Store) (map[string]uint32, error) {
	sums := map[string]uint32{}
	for o := (objstore.ListOptions{}); ; {
		entries, more, err := store.List(ctx, o)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			o.After = e.Key
			object, err := store.Get(ctx, e.Key, objstore.Whole)
			if err != nil {
				return nil, err
			}
			b, err := io.ReadAll(object.Body)
			if err = errors.Join(err, object.Body.Close()); err != nil {
				return nil, err
			}
			sums[e.Key] = crc32.ChecksumIEEE(b)
		}
		if !more {
			return sums, nil
		}
	}
}
