// Command s3server builds the S3 server of the tests if it is not built yet, which takes minutes,
// and prints its path.
package main

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/sebbroker/seb/test/campaign"
	"github.com/sebbroker/seb/test/testenv"
)

//go:embed main.go
var source string

func main() {
	campaign.Do(source, func(ctx context.Context) error {
		if err := campaign.S3(ctx); err != nil {
			return err
		}
		path, err := testenv.S3Binary(ctx)
		if err == nil {
			fmt.Println(path)
		}
		return err
	})
}
