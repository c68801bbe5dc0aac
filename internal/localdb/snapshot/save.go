package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/record"
)

// keep is the number of complete snapshots that remain.
const keep = 2

// ErrNoPosition: nothing was saved because no position of the log is known.
var ErrNoPosition = errors.New("log position is unknown")

// Save stores a copy of the view's file, which must not be written to any more, made of records
// that the log contains. Without an error the snapshot is durable, and of the older ones only the
// newest complete one remains; with only, none. Newer ones stay. The next Save removes leftovers of
// a failed one.
func (s *Snapshots) Save(ctx context.Context, path string, note Note, only bool) (Info, error) {
	position, ok := s.o.At()
	if !ok {
		return Info{}, ErrNoPosition
	}
	n := Name{View: s.o.View, LogPosition: position, Records: uint64(max(note.Records, 0)), ID: record.NewID()}
	m, err := s.upload(ctx, path, n, note)
	if err != nil {
		return Info{}, fmt.Errorf("snapshot of %s: %w", s.o.View, err)
	}
	n.Manifest, n.Piece = true, len(m.Pieces)
	kept := keep
	if only {
		kept = 1
	}
	// leftovers are harmless, and the next one tries again
	if err := s.collect(ctx, &n, kept); err != nil {
		s.o.Logger.Warn("deleting older snapshots of a view failed", "view", s.o.View, "err", err)
	}
	return m.info(s.o.Shard, &n), nil
}

// upload stores the pieces and then the manifest.
func (s *Snapshots) upload(ctx context.Context, path string, n Name, note Note) (*manifest, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	m := &manifest{
		Format: formatVersion, Cluster: s.o.Cluster().String(), View: n.View, Schema: s.o.Schema,
		Epoch: n.Epoch, Slot: n.Slot, Nonce: n.Nonce.String(), ID: n.ID.String(), Note: note,
		Size: info.Size(), PieceBytes: s.o.PieceBytes,
	}
	pieces := (m.Size + m.PieceBytes - 1) / m.PieceBytes
	if pieces < 1 || pieces > piecesMax {
		return nil, fmt.Errorf("file of %d bytes: want 1 to %d pieces of %d bytes", m.Size, piecesMax, m.PieceBytes)
	}
	enc, err := newEncoder()
	if err != nil {
		return nil, err
	}
	defer enc.Close()
	hash := sha256.New()
	plain, packed := make([]byte, min(m.PieceBytes, m.Size)), []byte(nil)
	for i := range int(pieces) {
		plain = plain[:m.plain(i)]
		if _, err := io.ReadFull(f, plain); err != nil {
			return nil, err
		}
		hash.Write(plain)
		packed = enc.EncodeAll(plain, packed[:0])
		n.Piece = i
		if err := s.put(ctx, n.Key(s.o.Shard), packed); err != nil {
			return nil, err
		}
		m.Pieces = append(m.Pieces, stored{uint32(len(packed)), record.CRC32C(packed)})
	}
	m.SHA256 = hex.EncodeToString(hash.Sum(nil))
	b, err := m.encode()
	if err != nil {
		return nil, err
	}
	n.Manifest, n.Piece = true, len(m.Pieces)
	return m, s.put(ctx, n.Key(s.o.Shard), b)
}

// put stores an object under a name that only this call uses: if it exists, an earlier attempt
// stored it.
func (s *Snapshots) put(ctx context.Context, key string, b []byte) error {
	body := objstore.NewBody(b)
	body.CRC32C, body.HasCRC = record.CRC32C(b), true
	err := s.retry(ctx, func(ctx context.Context) error { return s.o.Store.Put(ctx, key, body) })
	if errors.Is(err, objstore.ErrExists) {
		return nil
	}
	return err
}

// deletesMax is the number of names in one DELETE request, and batchesMax the number of these
// requests per Save: the next Save deletes the rest.
const (
	deletesMax = 1000
	batchesMax = 20
)

// collect deletes the snapshots that are older than own, except for the newest kept complete ones.
func (s *Snapshots) collect(ctx context.Context, own *Name, kept int) error {
	all, err := s.list(ctx)
	if err != nil {
		return err
	}
	var keys []string
	for i := range all {
		f := &all[i]
		switch {
		case f.ID == own.ID:
			kept--
		case !f.older(own): // from a broker that knows more of the log
		case f.Complete && kept > 0 && s.o.On(f.LogPosition):
			kept--
		default:
			keys = append(keys, f.Keys...)
		}
	}
	for range batchesMax {
		n := min(len(keys), deletesMax)
		if n == 0 {
			return nil
		}
		// oldest first, and manifests before their pieces if it stops in between
		batch := keys[len(keys)-n:]
		err := s.retry(ctx, func(ctx context.Context) error { return s.o.Store.Delete(ctx, batch...) })
		if err != nil {
			return fmt.Errorf("delete: %w", err)
		}
		keys = keys[:len(keys)-n]
	}
	return nil
}
