// Package sdk tests the clients in the folder sdk with a real broker.
package sdk

import (
	"os"
	"testing"

	"github.com/sebbroker/seb/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }
