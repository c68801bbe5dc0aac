package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// javaClient is the name in reports.
const javaClient = "Java " + JavaVersion

// compiled is the program of the folders src and examples, compiled on first use.
var compiled struct {
	once sync.Once
	dir  string
	path string // class path of the tools and of the program
	err  error
}

// classes returns the class path of the tools and of the program.
func classes(t testing.TB) string {
	t.Helper()
	testenv.InteropWanted(t)
	compiled.once.Do(func() {
		tools, err := JavaTools(t.Context())
		if err == nil {
			compiled.dir, err = os.MkdirTemp("", "seb-interop-java-*")
		}
		if err == nil {
			err = compile(t, tools, compiled.dir, "src", "examples")
		}
		compiled.path, compiled.err = compiled.dir+string(filepath.ListSeparator)+tools, err
	})
	must.NoError(t, compiled.err)
	return compiled.path
}

// compile compiles the sources of folders.
func compile(t testing.TB, path, into string, folders ...string) error {
	args := []string{"-Xlint:all,-deprecation", "-Werror", "-cp", path, "-d", into}
	for _, folder := range folders {
		list, err := filepath.Glob(filepath.Join("testdata/java", folder, "*.java"))
		if err != nil || len(list) == 0 {
			return fmt.Errorf("sources in %s: %d, %w", folder, len(list), err)
		}
		args = append(args, list...)
	}
	_, err := testenv.Command(t.Context(), ".", "javac", args...)
	return err
}

// settings writes the client settings file for a broker, with the root key.
func settings(t testing.TB, b *testenv.InteropBroker) string {
	t.Helper()
	return settingsAs(t, b, login{"seb", testenv.InteropKey, "SCRAM-SHA-512"})
}

// login is how a client authenticates.
type login struct{ user, password, mechanism string }

func settingsAs(t testing.TB, b *testenv.InteropBroker, l login) string {
	t.Helper()
	module := "scram.ScramLoginModule"
	if l.mechanism == "PLAIN" {
		module = "plain.PlainLoginModule"
	}
	path := filepath.Join(b.Dir, l.user+"-"+l.mechanism+".properties")
	text := fmt.Sprintf(`bootstrap.servers=%s
security.protocol=SASL_PLAINTEXT
sasl.mechanism=%s
sasl.jaas.config=org.apache.kafka.common.security.%s required username="%s" password="%s";
`, b.Address, l.mechanism, module, l.user, l.password)
	must.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// java is a running Java program.
type java struct {
	*testenv.Broker
	t    testing.TB
	what string
}

// start starts a class with arguments. line, if not nil, gets each line of output.
func start(t testing.TB, path string, line func(string), class string, args ...string) *java {
	t.Helper()
	p := must.Get(testenv.StartProgram("java", nil, line, append(append(JavaFlags(path), class), args...)...))(t)
	t.Cleanup(p.Kill)
	return &java{p, t, class + " " + strings.Join(args, " ")}
}

// wait fails the test unless the program succeeds in time.
func (j *java) wait(limit time.Duration) {
	j.t.Helper()
	select {
	case <-j.Done():
	case <-time.After(limit):
		j.Signal(quit) // Java prints its threads
		time.Sleep(time.Second)
		j.t.Fatalf("%s does not end; output:\n%s", j.what, j.Log())
	}
	if code, by := j.Exit(); code != 0 {
		j.t.Fatalf("%s ended with code %d, %v; output:\n%s", j.what, code, by, j.Log())
	}
}

// scene runs a scene of the program to its end and reports it.
func scene(t *testing.T, b *testenv.InteropBroker, what, name string, args ...string) {
	t.Helper()
	begin := time.Now()
	p := start(t, classes(t), nil, "Interop", append([]string{name, settings(t, b)}, args...)...)
	p.wait(4 * time.Minute)
	if testing.Verbose() {
		t.Log(p.Log())
	}
	if what != "" {
		testenv.Report(javaClient, what, time.Since(begin))
	}
}

// timeout is how long a test waits for an expected event.
const timeout = 90 * time.Second
