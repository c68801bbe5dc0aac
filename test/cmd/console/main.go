// Command console opens every page of the web console in Chromium, on a broker that it starts: what
// the page shows is compared with the API, each state is checked for accessibility (axe) in light,
// dark and forced colours, and names and values of others must stay text. It takes some minutes, and
// longer the first time: it downloads Chromium and playwright. It needs node, npm and apt-get. It
// prints a line for each case.
package main

import (
	"context"
	_ "embed"
	"flag"

	"github.com/sebbroker/seb/test/campaign"
)

//go:embed main.go
var source string

func main() {
	only := flag.String("only", "", "run these cases of test/console/cases, separated by commas")
	pictures := flag.String("pictures", "", "folder for pictures of the pages, such as docs/guide/console")
	campaign.Main(source, func(context.Context) ([]campaign.Step, error) {
		return []campaign.Step{campaign.Test("test/console", "Pages", "-all", "-only="+*only, "-pictures="+*pictures)}, nil
	})
}
