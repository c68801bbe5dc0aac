// Command interop runs Kafka clients of other languages, Kafka's own tools and Riemann clients against
// brokers that are killed meanwhile. It also sends the same random requests to Kafka and to Seb. It takes about
// half an hour, and longer the first time: it downloads the clients and Kafka into .cache. It needs
// python3, node, npm, java 17, mvn and apt-get. It prints the output of go test.
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
	flag.String("run", "", "run only tests that match `regexp`")
	flag.Duration("timeout", time.Hour, "time limit of each of the two packages")
	campaign.Main(source, func(context.Context) (list []campaign.Step, err error) {
		for _, s := range [][]string{{"."}, {"./differential", "-count=1", "-v"}} {
			list = append(list, campaign.Step{
				Dir: "test/interop", Env: []string{"SEB_INTEROP=1"},
				Args: append(append([]string{"go", "test"}, s...), campaign.Flags("run", "timeout")...),
			})
		}
		return list, nil
	})
}
