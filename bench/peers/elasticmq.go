package peers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// elasticVersion is the newest version in Maven Central.
const elasticVersion = "1.7.1"

const elasticFolder = "elasticmq-" + elasticVersion

var elasticKinds = []kind{{
	name: "elasticmq-file", doc: "ElasticMQ, whose messages are in an H2 database, as it comes: H2 writes up to half a second later", timeout: time.Minute,
	install: func(ctx context.Context, o *Options) error {
		return o.maven(ctx, elasticFolder, "ElasticMQ "+elasticVersion, "<dependency><groupId>org.elasticmq</groupId><artifactId>elasticmq-server_3</artifactId><version>"+
			elasticVersion+"</version></dependency>")
	},
	start: startElastic, ready: func(ctx context.Context, p *Peer) error { return ask(ctx, "http://"+p.address+"/?Action=ListQueues") },
}}

const elasticConfig = `include classpath("application.conf")
node-address { protocol = http, host = "127.0.0.1", port = %[1]d, context-path = "" }
rest-sqs { enabled = true, bind-port = %[1]d, bind-hostname = "127.0.0.1", sqs-limits = strict }
rest-stats { enabled = false }
messages-storage { enabled = true, driver-class-name = "org.h2.Driver", uri = "jdbc:h2:%[2]s", username = "sa", password = "" }
`

func startElastic(_ context.Context, p *Peer) error {
	if err := needs("ElasticMQ", map[string]string{"java": javaFrom}); err != nil {
		return err
	}
	ports, err := freePorts(1)
	if err != nil {
		return err
	}
	p.address = loopback(ports[0])
	p.Targets = []Target{{Driver: "sqs", Address: "http://" + p.address}}
	config := filepath.Join(p.Dir, "elasticmq.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, elasticConfig, ports[0], filepath.Join(p.Dir, "messages")), 0o600); err != nil {
		return err
	}
	return p.run("elasticmq", nil, "java", "-Xms256m", "-Xmx512m", "-Dconfig.file="+config, "-cp", filepath.Join(p.o.Cache, elasticFolder, "lib", "*"),
		"org.elasticmq.server.Main")
}
