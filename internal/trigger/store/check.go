package store

import (
	"context"
	"slices"

	"github.com/sebbroker/seb/internal/localdb"
)

// check verifies the structure of all pages, the tables and the cluster. Checksums of rows are
// verified when they are read.
func (f *File) check(ctx context.Context, cluster string) error {
	var tables []string
	err := f.tx.query(ctx, func(scan func(...any) error) error {
		var text string
		if err := scan(&text); err != nil {
			return err
		}
		if tables = append(tables, text); len(tables) > len(schema) {
			return localdb.Damaged("more than %d tables and indexes", len(schema))
		}
		return nil
	}, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'")
	if err != nil {
		return err
	}
	slices.Sort(tables) // a copy has a different order
	if !slices.Equal(tables, slices.Sorted(slices.Values(schema))) {
		return localdb.Damaged("unexpected tables")
	}
	if err := localdb.CheckPages(ctx, f.w); err != nil {
		return err
	}
	var of string
	if err := f.w.QueryRowContext(ctx, "SELECT cluster, floor FROM meta WHERE id = 1").Scan(&of, &f.floor); err != nil {
		return localdb.Damaged("meta: %v", err)
	}
	if of != cluster {
		return localdb.Damaged("cluster %s, want %s", of, cluster)
	}
	if err := f.w.QueryRowContext(ctx, "SELECT coalesce(max(seq), 0) FROM fire").Scan(&f.tx.seq); err != nil {
		return localdb.Damaged("firings: %v", err)
	}
	return nil
}
