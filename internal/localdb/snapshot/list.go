package snapshot

import (
	"context"
	"fmt"

	"github.com/sebbroker/seb/internal/objstore"
)

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
