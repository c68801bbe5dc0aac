// Command s3server builds the S3 server of the tests if it is not built yet. That takes minutes.
package main

import (
	_ "embed"

	"github.com/sebbroker/seb/test/campaign"
)

//go:embed main.go
var source string

func main() { campaign.Do(source, campaign.S3) }
