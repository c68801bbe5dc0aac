// Command cacheimages makes every image that a crash can leave of the cache folder, the data
// directory and a bucket in a folder, and opens each. The usual tests use a sample. It takes about
// ten minutes and prints the number of images.
package main

import (
	"context"
	_ "embed"

	"github.com/sebbroker/seb/test/campaign"
)

//go:embed main.go
var source string

func main() {
	campaign.Main(source, func(context.Context) ([]campaign.Step, error) {
		step := campaign.Test("internal/engine/objstore/cache", "Images|TornWrites|DataFolders|PowerFailures", "-images")
		// The packages come first.
		step.Args = append([]string{"go", "test", "./internal/operate/node", "./internal/engine/objstore"}, step.Args[2:]...)
		return []campaign.Step{step}, nil
	})
}
