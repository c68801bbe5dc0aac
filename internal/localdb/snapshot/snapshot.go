// Package snapshot keeps copies of a view's file in the bucket, so that a machine without the file
// need not read the whole log, whose beginning may be trimmed. A copy is compressed in pieces. Its
// manifest is stored last, so that an incomplete upload is not a snapshot. No name is used twice.
// Snapshots may be deleted at any time: the file is then rebuilt from the log. FORMAT.md describes
// the objects.
package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/sebbroker/seb/internal/objstore"
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

const (
	// attempts bounds the attempts of a request without a verdict.
	attempts = 6
	// timeout bounds one attempt.
	timeout = 2 * time.Minute
)

// retry repeats a request until it has a verdict, a few times.
func (s *Snapshots) retry(ctx context.Context, request func(ctx context.Context) error) error {
	wait := s.o.RetryMin
	for i := 1; ; i++ {
		once, cancel := context.WithTimeout(ctx, timeout)
		err := request(once)
		cancel()
		if !errors.Is(err, objstore.ErrNoVerdict) || i == attempts || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", err, ctx.Err())
		}
		wait *= 2
	}
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
