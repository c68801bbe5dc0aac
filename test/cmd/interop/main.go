// Command interop runs Kafka clients of other languages and Kafka's own tools against brokers that
// are killed meanwhile, and the same random requests on Kafka and on Seb. It takes about half an
// hour, and longer the first time: it fetches the clients and Kafka into .cache. It needs python3,
// node, npm, java 17, mvn and apt-get. It prints what go test prints.
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
	flag.String("run", "", "only tests that match this `regexp`")
	flag.Duration("timeout", 40*time.Minute, "time for each of the three packages")
	campaign.Main(source, func(context.Context) (list []campaign.Step, err error) {
		for _, s := range [][]string{{"."}, {"./differential", "-count=1", "-v"}, {"./java"}} {
			list = append(list, campaign.Step{
				Dir: "test/interop", Env: []string{"SEB_INTEROP=1"},
				Args: append(append([]string{"go", "test"}, s...), campaign.Flags("run", "timeout")...),
			})
		}
		return list, nil
	})
}
