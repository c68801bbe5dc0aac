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

// keep is how many snapshots that are whole there are.
const keep = 2

// ErrNoPlace says that nothing was saved because no position of the log is known.
var ErrNoPlace = errors.New("no position of the log is known")

// Save stores a copy of the view's file that nobody writes to any more, made from records that the log has. When it returns
// without an error the snapshot is durable, and of older ones only the newest is left; with only, none. Those that are newer
// stay. What an attempt leaves behind that fails the next one takes away.
func (s *Snapshots) Save(ctx context.Context, path string, note Note, only bool) (Info, error) {
	place, ok := s.o.At()
	if !ok {
		return Info{}, ErrNoPlace
	}
	n := Name{View: s.o.View, Place: place, Records: uint64(max(note.Records, 0)), ID: record.NewID()}
	m, err := s.upload(ctx, path, n, note)
	if err != nil {
		return Info{}, fmt.Errorf("snapshot of %s: %w", s.o.View, err)
	}
	n.Manifest, n.Piece = true, len(m.Pieces)
	kept := keep
	if only {
		kept = 1
	}
	if err := s.collect(ctx, &n, kept); err != nil { // what is there is harmless, and the next one tries again
		s.o.Logger.Warn("older snapshots of a view are not all deleted", "view", s.o.View, "err", err)
	}
	return m.info(s.o.Shard, &n), nil
}

// upload stores the pieces, and then the manifest.
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
		return nil, fmt.Errorf("file of %d bytes: not 1 to %d pieces of %d bytes", m.Size, piecesMax, m.PieceBytes)
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

// put stores an object under a name that nobody else knows: if it is there, an earlier attempt has stored it.
func (s *Snapshots) put(ctx context.Context, key string, b []byte) error {
	body := objstore.NewBody(b)
	body.CRC32C, body.HasCRC = record.CRC32C(b), true
	err := s.patiently(ctx, func(ctx context.Context) error { return s.o.Store.Put(ctx, key, body) })
	if errors.Is(err, objstore.ErrExists) {
		return nil
	}
	return err
}

// deletesMax is how many names are deleted by one request, and batchesMax how many of these a snapshot makes: what is left
// is for the next one.
const (
	deletesMax = 1000
	batchesMax = 20
)

// collect deletes what is older than a snapshot and not among the newest that are whole, so many of them.
func (s *Snapshots) collect(ctx context.Context, mine *Name, kept int) error {
	all, err := s.list(ctx)
	if err != nil {
		return err
	}
	var keys []string
	for i := range all {
		f := &all[i]
		switch {
		case f.ID == mine.ID:
			kept--
		case !f.older(mine): // of a broker that knows more of the log
		case f.Whole && kept > 0 && s.o.On(f.Place):
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
		batch := keys[len(keys)-n:] // manifests before their pieces, if it stops in between: the oldest first
		err := s.patiently(ctx, func(ctx context.Context) error { return s.o.Store.Delete(ctx, batch...) })
		if err != nil {
			return fmt.Errorf("delete: %w", err)
		}
		keys = keys[:len(keys)-n]
	}
	return nil
}
