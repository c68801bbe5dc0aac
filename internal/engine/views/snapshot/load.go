package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
)

// ErrAhead: a snapshot has a position of the log that is not known yet.
var ErrAhead = errors.New("snapshot has a position that is beyond the known log")

// Newest describes the newest complete snapshot with a position on this log; ok is false if there
// is none. It reads no piece. Errors: those of the store.
func (s *Snapshots) Newest(ctx context.Context) (info Info, ok bool, err error) {
	err = s.each(ctx, search{all: true}, func(n *Name, m *manifest) error {
		info, ok = m.info(s.o.Shard, n), true
		return nil
	})
	return info, ok, err
}

// Restore creates a durable file at path, where none exists, from the newest complete snapshot that
// has a position on this log and is not refused. If that is damaged it logs that and tries the next
// one; ok is false if there is none. all says that this broker knows the whole log, so that an
// unknown position belongs to another log; otherwise such a snapshot is ErrAhead. Other errors:
// those of the store and the disk.
func (s *Snapshots) Restore(ctx context.Context, path string, all bool, refused func(name string) bool) (info Info, ok bool, err error) {
	err = s.each(ctx, search{all, refused}, func(n *Name, m *manifest) error {
		if err := s.download(ctx, path, n, m); err != nil {
			return err
		}
		info, ok = m.info(s.o.Shard, n), true
		return nil
	})
	return info, ok, err
}

// listings is how often the snapshots are listed if they are deleted meanwhile.
const listings = 3

// search selects snapshots.
type search struct {
	all     bool // the whole log is known
	refused func(name string) bool
}

// each reads manifests, newest first, and calls use, until that returns a result other than
// ErrDamaged or a missing object.
func (s *Snapshots) each(ctx context.Context, w search, use func(n *Name, m *manifest) error) error {
	tried := map[string]bool{}
	for range listings {
		all, err := s.list(ctx)
		if err != nil {
			return err
		}
		gone := false
		for i := range all {
			f := &all[i]
			name := f.snapshot(s.o.Shard)
			if !f.Complete || tried[name] || w.refused != nil && w.refused(name) {
				continue
			}
			if !s.o.On(f.LogPosition) {
				if !w.all {
					return ErrAhead
				}
				continue
			}
			tried[name] = true
			m, err := s.manifest(ctx, &f.Name)
			if err == nil && m != nil {
				err = use(&f.Name, m)
			}
			switch {
			case errors.Is(err, objstore.ErrNotFound):
				gone = true
			case errors.Is(err, ErrDamaged):
				s.o.Logger.Error("unusable snapshot of a view", "snapshot", name, "err", err)
			case err != nil || m != nil:
				return err
			}
		}
		if !gone {
			return nil
		}
	}
	return nil
}

// manifest reads a manifest; nil if it has another schema or cluster.
func (s *Snapshots) manifest(ctx context.Context, n *Name) (*manifest, error) {
	b, err := s.get(ctx, n.Key(s.o.Shard), manifestMax, nil)
	if err != nil {
		return nil, err
	}
	m, err := decode(b, n)
	if err != nil {
		return nil, err
	}
	if m.Schema != s.o.Schema || m.Cluster != s.o.Cluster().String() {
		s.o.Logger.Info("snapshot of a view ignored", "view", n.View, "schema", m.Schema, "cluster", m.Cluster)
		return nil, nil
	}
	return m, nil
}

// get reads an object of at most bytesMax bytes, into dst if that has room for one more byte.
func (s *Snapshots) get(ctx context.Context, key string, bytesMax int, dst []byte) (b []byte, err error) {
	err = s.retry(ctx, func(ctx context.Context) error {
		o, err := s.o.Store.Get(ctx, key, objstore.Whole)
		if err != nil {
			return err
		}
		defer o.Body.Close()
		if o.Size > int64(bytesMax) {
			return damaged("%s has %d bytes, at most %d are allowed", key, o.Size, bytesMax)
		}
		buf := bytes.NewBuffer(dst[:0])
		if _, err = buf.ReadFrom(io.LimitReader(o.Body, int64(bytesMax)+1)); err != nil {
			return err
		}
		if b = buf.Bytes(); len(b) > bytesMax {
			return damaged("%s has more than %d bytes", key, bytesMax)
		}
		return nil
	})
	if errors.Is(err, objstore.ErrDamaged) {
		err = damaged("%w", err)
	}
	return b, err
}

// download creates the file.
func (s *Snapshots) download(ctx context.Context, path string, n *Name, m *manifest) error {
	temp := path + tempSuffix
	err := s.write(ctx, temp, n, m)
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, removeIfThere(temp))
	}
	return syncFolder(filepath.Dir(path))
}

// tempSuffix is the suffix of an incomplete file.
const tempSuffix = ".snap"

// write writes the pieces to a file, checks each and the whole, and syncs the file.
func (s *Snapshots) write(ctx context.Context, path string, n *Name, m *manifest) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	hash := sha256.New()
	if err := s.eachPiece(ctx, n, m, io.MultiWriter(f, hash)); err != nil {
		return err
	}
	if hex.EncodeToString(hash.Sum(nil)) != m.SHA256 {
		return damaged("wrong checksum of the file")
	}
	return f.Sync()
}

// eachPiece reads and decompresses the pieces in order.
func (s *Snapshots) eachPiece(ctx context.Context, n *Name, m *manifest, to io.Writer) error {
	dec, err := newDecoder()
	if err != nil {
		return err
	}
	defer dec.Close()
	var packed []byte
	plain := make([]byte, 0, min(m.PieceBytes, m.Size))
	piece := *n
	piece.Manifest = false
	for i, want := range m.Pieces {
		piece.Piece = i
		if need := int(want[0]) + bytes.MinRead; cap(packed) < need {
			packed = make([]byte, 0, need)
		}
		b, err := s.get(ctx, piece.Key(s.o.Shard), int(want[0]), packed)
		if err != nil {
			return err
		}
		if len(b) != int(want[0]) || record.CRC32C(b) != want[1] {
			return damaged("wrong checksum of piece %d", i)
		}
		out, err := dec.DecodeAll(b, plain[:0:m.plain(i)])
		if err != nil || int64(len(out)) != m.plain(i) {
			return damaged("piece %d: %d bytes, want %d: %v", i, len(out), m.plain(i), err)
		}
		if _, err := to.Write(out); err != nil {
			return err
		}
	}
	return nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
