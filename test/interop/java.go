package interop

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/sebbroker/seb/test/testenv"
)

// JavaVersion is the version of the tools and of the client that most tests use.
const JavaVersion = "4.3.1"

// newestJava is a newer version of the client.
const newestJava = "4.4.0"

// copyGoal is the Maven plugin that downloads the dependencies of a pom.
const copyGoal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"

//go:embed testdata/java/pom.xml
var toolsPom []byte

//go:embed testdata/java/connect.xml
var connectPom []byte

//go:embed testdata/java/clients.xml
var clientsPom []byte

// JavaTools returns the class path of Kafka's clients, tools and broker, and downloads them on first use.
func JavaTools(ctx context.Context) (string, error) {
	return fetch(ctx, "kafka-tools", JavaVersion, toolsPom)
}

// JavaConnect is JavaTools for Connect and MirrorMaker 2.
func JavaConnect(ctx context.Context) (string, error) {
	return fetch(ctx, "kafka-connect", JavaVersion, connectPom)
}

// JavaClients is JavaTools for the clients alone, of any version.
func JavaClients(ctx context.Context, version string) (string, error) {
	return fetch(ctx, "kafka-clients", version, clientsPom)
}

func fetch(ctx context.Context, name, version string, pom []byte) (string, error) {
	if err := needsJava("java", "javac", "mvn"); err != nil {
		return "", err
	}
	dir, err := testenv.Install("interop/"+name+"-"+version, name+" "+version+" from Maven Central", func(dir string) error {
		if err := os.WriteFile(filepath.Join(dir, "pom.xml"), pom, 0o600); err != nil {
			return err
		}
		_, err := testenv.Command(ctx, dir, "mvn", "-q", "-B", "-Dkafka.version="+version, copyGoal, "-DoutputDirectory="+filepath.Join(dir, "lib"))
		return err
	})
	return filepath.Join(dir, "lib", "*"), err
}

// needsJava returns an error if programs are not in the PATH.
func needsJava(programs ...string) error {
	var faults []error
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			faults = append(faults, fmt.Errorf("the tests with Java need %s in the PATH (Debian: openjdk-17-jdk-headless and maven)", p))
		}
	}
	return errors.Join(faults...)
}

// JavaFlags returns flags for small Java programs that share a machine of few cores with a broker.
func JavaFlags(class string) []string {
	return []string{
		"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", class,
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true",
	}
}
