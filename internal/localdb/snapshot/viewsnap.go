// Package snapshot keeps copies of a view's file in the bucket, so that a machine without the file need not read all of the
// log, of which the beginning may be gone. A copy is compressed piece by piece; what it is made of stands in a manifest that
// is stored last: without it there is no snapshot. No name is used twice, and whatever is here may be deleted at any time: it
// costs a reading of the log. FORMAT.md says what the objects look like.
package snapshot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/record"
)

// PieceBytes is how much of a file is in a piece, if Options do not say otherwise.
const PieceBytes = 4 << 20

// Options are what Snapshots are opened with. Store, View, Cluster, At and On must be set.
type Options struct {
	Store objstore.Store
	Shard uint32
	// View names the kind of file, in lower-case letters, and Schema its format: a snapshot of another one is left alone.
	View   string
	Schema int
	// Cluster is the id of the cluster whose log this is.
	Cluster func() record.ID
	// At is a position of the log that holds whatever is in a file that was copied before; false if none is known.
	At func() (Place, bool)
	// On is whether a position is one of the log, as far as this broker knows it.
	On func(Place) bool
	// PieceBytes is how much of a file is in a piece: PieceBytes, at most 8 MiB. Twice as much is held in memory.
	PieceBytes int64
	// RetryMin is how long it is to the first repetition of a request without a verdict: 200 ms.
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
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Snapshots{o}
}

// Info is what is known of a snapshot.
type Info struct {
	Name string // what the names of its objects begin with
	Note
	Size   int64 // of the file, bytes
	Stored int64 // of its pieces, bytes
	Pieces int
}

func (m *manifest) info(shard uint32, n *Name) Info {
	return Info{Name: n.snapshot(shard), Note: m.Note, Size: m.Size, Stored: m.stored(), Pieces: len(m.Pieces)}
}

const (
	// attempts is how often a request is made that has no verdict.
	attempts = 6
	// timeout is how long one may take.
	timeout = 2 * time.Minute
)

// patiently makes a request until it has a verdict, a few times.
func (s *Snapshots) patiently(ctx context.Context, request func(ctx context.Context) error) error {
	wait := s.o.RetryMin
	for i := 1; ; i++ {
		once, cancel := context.WithTimeout(ctx, timeout)
		err := request(once)
		cancel()
		if !errors.Is(err, objstore.ErrNoVerdict) || i == attempts || ctx.Err() != nil {
			return err
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return fmt.Errorf("%w (%w)", err, ctx.Err())
		}
		wait *= 2
	}
}

// window is how far back compressed bytes refer, which both sides keep in memory.
const window = 1 << 20

func newEncoder() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(window))
}

func newDecoder() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window),
		zstd.WithDecoderMaxMemory(pieceBytesMax), zstd.WithDecodeAllCapLimit(true))
}
