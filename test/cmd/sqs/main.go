// Command sqs judges the SQS API. It runs LocalStack's tests of SQS that were validated against AWS, with the
// answers of AWS that they have recorded, and lists each difference. Then clients of SQS send and receive messages
// beside a broker that is killed, and beside two of which the leader is killed: boto3, also of 2023, aioboto3,
// Celery, the SDKs for JavaScript, Go and Java, sqs-consumer and Spring Cloud AWS; two of them also behind nginx and
// Caddy. The programs of docs/guide/sqs.md run, too. It takes about 15 minutes, and longer the first time: it
// fetches LocalStack's tests with git, the clients from PyPI, npm and Maven Central, and the proxies from Debian.
// It needs python3, node, npm, java 17 and mvn.
// With -judges it runs LocalStack's tests against another server, such as moto's, and only lists the differences.
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"

	"github.com/sebbroker/seb/test/campaign"
)

//go:embed main.go
var source string

func main() {
	repository := flag.String("localstack", "https://github.com/localstack/localstack", "git `repository` of LocalStack")
	judges := flag.String("judges", "", "`URL` of another server that LocalStack's tests judge, without the clients")
	only := flag.String("only", "", "run only the cases of LocalStack's tests with this `expression` of pytest -k, without the clients")
	calls := flag.Int("moto-calls", 2000, "`number` of random calls to moto and to Seb; 0: none")
	seed := flag.Int64("moto-seed", 1, "seed of the calls")
	campaign.Main(source, func(context.Context) ([]campaign.Step, error) {
		args := []string{"-args", "-localstack=" + *repository, "-localstack-judges=" + *judges, "-localstack-only=" + *only}
		steps := []campaign.Step{campaign.Test("test/interop", "^TestLocalStack$", args...)}
		if *judges == "" && *only == "" {
			clients := campaign.Test("test/interop", "^(TestSQS|TestBoto3$)")
			clients.Env = []string{"SEB_INTEROP=1"}
			steps = append(steps, clients)
			if *calls > 0 {
				steps = append(steps, campaign.Test("test/interop", "^TestMoto$", "-args", fmt.Sprint("-moto-calls=", *calls), fmt.Sprint("-moto-seed=", *seed)))
			}
		}
		return steps, nil
	})
}
