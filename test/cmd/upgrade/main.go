// Command upgrade builds older programs from the history of the repository and runs them on buckets
// of this version: for each format level the newest commit that knows no higher one. An older
// program must continue after this version while the bucket is at a level that it knows. Otherwise
// it must stop with the documented exit code and sentence, and leave every object unchanged. It
// takes about two minutes, and needs a clone with these commits.
package main

import (
	"context"
	_ "embed"
	"flag"
	"os"
	"path/filepath"

	"github.com/sebbroker/seb/test/campaign"
)

//go:embed main.go
var source string

func main() {
	level1 := flag.String("level1", "2cd1551", "commit whose program knows only format level 1")
	level2 := flag.String("level2", "4a934ab", "commit whose program knows format levels 1 and 2")
	level3 := flag.String("level3", "cba6d2c", "commit whose program knows format levels 1 to 3")
	level4 := flag.String("level4", "c14eb6b", "commit whose program knows format levels 1 to 4")
	level5 := flag.String("level5", "2a524fb8", "commit whose program knows format levels 1 to 5")
	campaign.Do(source, func(ctx context.Context) error {
		dir, err := os.MkdirTemp("", "seb-upgrade")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		var args []string
		for _, p := range []struct{ name, commit string }{{"level1", *level1}, {"level2", *level2}, {"level3", *level3}, {"level4", *level4}, {"level5", *level5}} {
			path, err := campaign.Program(ctx, filepath.Join(dir, p.name), p.commit)
			if err != nil {
				return err
			}
			args = append(args, "-"+p.name+"="+path)
		}
		s := campaign.Test("test/golden", "^TestOlderPrograms$", args...)
		return s.Run(ctx)
	})
}
