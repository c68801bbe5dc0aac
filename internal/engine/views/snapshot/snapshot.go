// Package snapshot keeps copies of a view's file in the bucket, so that a machine without the file
// need not read the whole log, whose beginning may be trimmed. A copy is compressed in pieces. Its
// manifest is stored last, so that an incomplete upload is not a snapshot. No name is used twice.
// Snapshots may be deleted at any time: the file is then rebuilt from the log. FORMAT.md describes
// the objects.
package snapshot

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
)

// PieceBytes is the default of Options.PieceBytes.
const PieceBytes = 4 << 20

// Options configure Snapshots. Store, View, Cluster, At and On must be set.
type Options struct {
	Store objstore.Store
	Shard uint32
	// View is the kind of file, in lower-case letters, and Schema its format. Snapshots of another
	// schema are ignored.
	View   string
	Schema int
	// Cluster is the cluster ID of the log.
	Cluster func() record.ID
	// At returns a position of the log that contains everything in a file that was copied before;
	// false if none is known.
	At func() (LogPosition, bool)
	// On reports whether a position is on the log, as far as this broker knows.
	On func(LogPosition) bool
	// PieceBytes is the part of the file in a piece; default PieceBytes, at most 8 MiB. Twice as
	// much is held in memory.
	PieceBytes int64
	// RetryMin is the wait before the first retry of a request without a verdict: 200 ms.
	RetryMin time.Duration
	Logger   *slog.Logger // nil discards
}

// Snapshots are the snapshots of a view in a bucket. The methods may be called concurrently.
type Snapshots struct{ o Options }

// Open returns the snapshots of a view. It makes no request.
func Open(o Options) *Snapshots {
	if o.PieceBytes <= 0 {
		o.PieceBytes = PieceBytes
	}
	o.PieceBytes = min(o.PieceBytes, pieceBytesMax)
	if o.RetryMin <= 0 {
		o.RetryMin = 200 * time.Millisecond
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Snapshots{o}
}

// Info describes a snapshot.
type Info struct {
	Name string // prefix of the names of its objects
	Note
	Size   int64 // size of the file, bytes
	Stored int64 // size of its pieces, bytes
	Pieces int
}

func (m *manifest) info(shard uint32, n *Name) Info {
	return Info{Name: n.snapshot(shard), Note: m.Note, Size: m.Size, Stored: m.stored(), Pieces: len(m.Pieces)}
}

// timeout bounds one attempt of a request.
const timeout = 2 * time.Minute

// retry repeats a request until it has a verdict, a few times.
func (s *Snapshots) retry(ctx context.Context, request func(ctx context.Context) error) error {
	return objstore.Retry(ctx, s.o.RetryMin, func() error {
		once, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return request(once)
	})
}

// window is the compression window, which both sides hold in memory.
const window = 1 << 20

func newEncoder() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(window))
}

func newDecoder() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window),
		zstd.WithDecoderMaxMemory(pieceBytesMax), zstd.WithDecodeAllCapLimit(true))
}

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

// namesMax bounds the names of a view that are listed: a file of 300 MB has 80.
const namesMax = 100_000

// Found is a snapshot in a listing.
type Found struct {
	Name
	Keys  []string // names of its objects in order; the manifest's is the last
	Bytes int64
	// Complete: there is a manifest and as many pieces as its name says.
	Complete bool
}

// Gather collects the snapshots of a listing. Names must be added in order.
type Gather struct {
	Shard uint32
	List  []Found // newest first
	// Unknown, if not nil, is called for names that are not of a snapshot.
	Unknown func(objstore.Entry)
}

// Add adds the next name.
func (g *Gather) Add(e objstore.Entry) {
	n, ok := ParseName(g.Shard, e.Key)
	if !ok {
		if g.Unknown != nil {
			g.Unknown(e)
		}
		return
	}
	last := len(g.List) - 1
	if last < 0 || g.List[last].snapshot(g.Shard) != n.snapshot(g.Shard) {
		g.List = append(g.List, Found{Name: n})
		last++
	}
	f := &g.List[last]
	pieces := len(f.Keys)
	f.Name, f.Keys, f.Bytes = n, append(f.Keys, e.Key), f.Bytes+e.Size
	// none is missing: names are unique, and none is higher
	f.Complete = n.Manifest && n.Piece == pieces
	if n.Manifest && pieces > 0 {
		before, _ := ParseName(g.Shard, f.Keys[pieces-1])
		f.Complete = f.Complete && !before.Manifest && before.Piece == pieces-1
	}
}

// list returns all snapshots of the view, complete or not, newest first.
func (s *Snapshots) list(ctx context.Context) ([]Found, error) {
	g := Gather{Shard: s.o.Shard}
	o := objstore.ListOptions{Prefix: prefix(s.o.Shard, s.o.View)}
	for names := 0; ; {
		var page []objstore.Entry
		var more bool
		err := s.retry(ctx, func(ctx context.Context) (err error) {
			page, more, err = s.o.Store.List(ctx, o)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", o.Prefix, err)
		}
		for _, e := range page {
			g.Add(e)
			o.After = e.Key
		}
		if names += len(page); !more || len(page) == 0 {
			return g.List, nil
		}
		if names > namesMax {
			return nil, fmt.Errorf("list %s: more than %d names", o.Prefix, namesMax)
		}
	}
}

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
