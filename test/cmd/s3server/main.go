// Command s3server builds the S3 server that the tests use, if it is not there yet. That takes
// minutes.
package main

import (
	_ "embed"

	"github.com/sebbroker/seb/test/campaign"
)

//go:embed main.go
var source string

func main() { campaign.Do(source, campaign.S3) }
