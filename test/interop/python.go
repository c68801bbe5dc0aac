package interop

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strings"

	"github.com/sebbroker/seb/test/testenv"
)

// confluentVersion is the version of confluent-kafka, which includes a librdkafka of nearly the
// same version.
const confluentVersion = "2.16.1"

// Confluent installs confluent-kafka. It returns the interpreter and the folder of the package, for
// PYTHONPATH.
func Confluent(ctx context.Context) (python, packages string, err error) {
	if python, err = needs("python3", "confluent-kafka runs in"); err != nil {
		return "", "", err
	}
	version, err := testenv.Command(ctx, ".", python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
	if err != nil {
		return "", "", err
	}
	name := fmt.Sprintf("confluent-kafka-%s-python%s-%s", confluentVersion, strings.TrimSpace(version), runtime.GOARCH)
	packages, err = testenv.Pip(ctx, python, name, "confluent-kafka "+confluentVersion, "confluent-kafka=="+confluentVersion)
	return python, packages, err
}

// boto3Packages are boto3 and what it needs: a version of today, and one that uses the Query protocol.
var boto3Packages = map[string][]string{
	"json":  {"boto3==1.44.8", "botocore==1.44.8", "jmespath==1.1.0", "python-dateutil==2.9.0.post0", "s3transfer==0.19.3", "six==1.17.0", "urllib3==2.8.0"},
	"query": {"boto3==1.26.50", "botocore==1.29.165", "jmespath==1.1.0", "python-dateutil==2.9.0.post0", "s3transfer==0.6.2", "six==1.17.0", "urllib3==1.26.20"},
}

// boto3 installs boto3 and returns the folder for PYTHONPATH.
func boto3(ctx context.Context, list []string) (python, packages string, err error) {
	if python, err = needs("python3", "boto3 runs in"); err != nil {
		return "", "", err
	}
	packages, err = testenv.Pip(ctx, python, list[0]+"-1-"+runtime.GOARCH, list[0], list...)
	return python, packages, err
}

// Boto3 installs boto3 like Confluent.
func Boto3(ctx context.Context) (python, packages string, err error) {
	return boto3(ctx, boto3Packages["json"])
}

// needs finds a program in the PATH that these tests do not install.
func needs(name, purpose string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is not in the PATH; it %s: install it (on Debian apt-get install %s)", name, purpose, name)
	}
	return path, nil
}
