package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/record"
)

// Check reads a whole snapshot that a listing shows as complete. ErrDamaged: its content is
// invalid. ErrGone: it was deleted meanwhile, like all older ones.
func Check(ctx context.Context, store objstore.Store, shard uint32, cluster record.ID, f *Found) error {
	s := Open(Options{Store: store, Shard: shard, View: f.View})
	key := f.Key(shard)
	b, err := s.get(ctx, key, manifestMax, nil)
	if errors.Is(err, objstore.ErrNotFound) {
		return ErrGone
	}
	if err != nil {
		return err
	}
	m, err := decode(b, &f.Name)
	if err != nil {
		return err
	}
	if m.Cluster != cluster.String() {
		return damaged("cluster %s, want %s", m.Cluster, cluster)
	}
	hash := sha256.New()
	err = s.eachPiece(ctx, &f.Name, m, hash)
	if errors.Is(err, objstore.ErrNotFound) {
		if _, gone := s.get(ctx, key, manifestMax, nil); errors.Is(gone, objstore.ErrNotFound) {
			return ErrGone
		}
		return damaged("%v", err)
	}
	if err == nil && hex.EncodeToString(hash.Sum(nil)) != m.SHA256 {
		return damaged("wrong checksum of the file")
	}
	return err
}

// ErrGone: the snapshot was deleted.
var ErrGone = errors.New("snapshot was deleted")

// Print describes an object of a snapshot; data is its content.
func Print(w io.Writer, n *Name, data []byte) error {
	if !n.Manifest {
		_, err := fmt.Fprintf(w, "piece %d of a copy of the file of %s, at epoch %d slot %d: %d bytes\n", n.Piece, n.View, n.Epoch, n.Slot, len(data))
		return err
	}
	m, err := decode(data, n)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "copy of the file of %s, schema %d, of cluster %s, at epoch %d slot %d, from %d records\n"+
		"%d bytes, in %d pieces %d\nall checksums match\n",
		m.View, m.Schema, m.Cluster, m.Epoch, m.Slot, m.Records, m.Size, len(m.Pieces), m.stored())
	return err
}
