// Command openapi checks openapi.json.gz with third-party tools in pinned versions. redocly lints it,
// and schemathesis derives requests from it. openapi-typescript, openapi-python-client and
// oapi-codegen generate clients that must work. It takes about three minutes, and longer the first
// time: it downloads the tools into .cache. It needs python3, node and npm. It prints the output of
// go test.
package main

import (
	"context"
	_ "embed"
	"flag"
	"time"

	"github.com/sebbroker/seb/test/campaign"
)

//go:embed main.go
var source string

func main() {
	d := flag.Duration("time", time.Minute, "time in which schemathesis sends requests")
	campaign.Main(source, func(context.Context) ([]campaign.Step, error) {
		return []campaign.Step{{
			Env:  []string{"SEB_INTEROP=1", "SEB_OPENAPI_TIME=" + d.String()},
			Args: []string{"go", "test", "./test/interop", "-run", "OpenAPI", "-count=1", "-timeout", "0"},
		}}, nil
	})
}
