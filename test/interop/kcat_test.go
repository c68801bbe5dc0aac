package interop

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// kcat is the program with its settings for a broker.
type kcat struct {
	t       *testing.T
	path    string
	env     []string
	options []string // before those of a call
}

// newKcat installs kcat with Debian's librdkafka.
func newKcat(t *testing.T, b *testenv.InteropBroker, mechanism string) *kcat {
	t.Helper()
	dir := must.Get(testenv.Debian(t.Context(), "kcat"))(t)
	return &kcat{
		t: t, path: filepath.Join(dir, "usr/bin/kcat"), env: []string{testenv.Libraries(dir), "KCAT_CONFIG=/dev/null"},
		options: []string{
			"-b", b.Address, "-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanisms=" + mechanism, "-X", "sasl.username=kcat",
			"-X", "sasl.password=" + testenv.InteropKey,
		},
	}
}

// command returns a command that is not started. It ends with ctx.
func (k *kcat) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, k.path, append(k.options[:len(k.options):len(k.options)], args...)...)
	c.Env = k.env
	return c
}

// as returns kcat with another login.
func (k *kcat) as(l login) *kcat {
	other := *k
	other.options = append(k.options[:len(k.options):len(k.options)],
		"-X", "sasl.mechanisms="+l.mechanism, "-X", "sasl.username="+l.user, "-X", "sasl.password="+l.password)
	return &other
}

// callMax bounds a call of a client.
const callMax = 2 * time.Minute

// run runs kcat to its end and returns its output.
func (k *kcat) run(in io.Reader, args ...string) string {
	k.t.Helper()
	out, said, err := k.try(in, args...)
	if err != nil {
		k.t.Fatalf("kcat %s: %v\n%s", strings.Join(args, " "), err, said)
	}
	return out
}

// try is run for an expected error.
func (k *kcat) try(in io.Reader, args ...string) (out, said string, err error) {
	ctx, stop := context.WithTimeout(k.t.Context(), callMax)
	defer stop()
	c := k.command(ctx, args...)
	var o, s strings.Builder
	c.Stdin, c.Stdout, c.Stderr = in, &o, &s
	err = c.Run()
	return o.String(), s.String(), err
}

// lines returns a pipe with the records from one number to another, one per line, key and value
// separated by a tab.
func lines(from, to int) io.Reader {
	r, w := io.Pipe()
	go func() {
		b := bufio.NewWriterSize(w, 1<<20)
		for n := from; n < to; n++ {
			_, _ = fmt.Fprintf(b, "%s\t%s\n", keyOf(n), valueOf(n))
		}
		_ = w.CloseWithError(b.Flush())
	}()
	return r
}

// million is the number of records that each client writes and reads.
const million = 1_000_000

// TestKcatMillion writes a million records, a fifth with each codec, half of these with headers,
// and reads them.
func TestKcatMillion(t *testing.T) {
	testenv.InteropWanted(t)
	b := testenv.ServeInterop(t)
	kcatRecords(t, newKcat(t, b, "PLAIN"), "kcat", b, million)
}

// kcatRecords writes count records, a fifth with each codec, and reads them with kcat and with
// franz-go.
func kcatRecords(t *testing.T, k *kcat, name string, b *testenv.InteropBroker, count int) {
	t.Helper()
	const topic, partitions = "numbers", 4
	createTopic(t, b, topic, partitions)
	begin := time.Now()
	half := count / len(codecs) / 2
	for i := range 2 * len(codecs) {
		args := []string{"-P", "-t", topic, "-K", "\t", "-z", codecs[i/2]}
		if i%2 == 1 {
			args = append(args, "-H", "part="+codecs[i/2], "-H", "empty=")
		}
		k.run(lines(i*half, (i+1)*half), args...)
	}
	wrote := time.Since(begin)
	begin = time.Now()
	ctx, stop := context.WithTimeout(t.Context(), callMax)
	defer stop()
	c := k.command(ctx, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%p %o %K %S\t%k\t%h\t%s\n")
	out := must.Get(c.StdoutPipe())(t)
	var said strings.Builder
	c.Stderr = &said
	must.NoError(t, c.Start())
	read := &kcatReader{half: half, seen: make([]bool, count), last: make(map[string][2]int)}
	lines := bufio.NewScanner(out)
	for lines.Scan() && read.err == nil {
		read.err = read.line(lines.Bytes())
	}
	must.NoError(t, read.err)
	if err := c.Wait(); err != nil || lines.Err() != nil || read.count != count {
		t.Fatalf("kcat read %d records of %d: %v, %v\n%s", read.count, count, err, lines.Err(), said.String())
	}
	took := time.Since(begin)
	expectLog(t, b, topic, count, func(n int) string { return codecs[n/half/2] })
	report(t, name, fmt.Sprintf("%s records, every codec, keys and headers, by content", testenv.Thousands(count)), wrote+took,
		testenv.Rate("written", count, wrote), testenv.Rate("read", count, took))
}

// kcatReader checks lines of kcat's output: each number once, in order in each partition, and the
// headers of its half.
type kcatReader struct {
	half  int
	seen  []bool
	last  map[string][2]int // offset and number, by partition
	count int
	err   error
}

func (r *kcatReader) line(line []byte) error {
	parts := bytes.Split(line, []byte{'\t'})
	if len(parts) != 4 {
		return fmt.Errorf("kcat printed %q", line)
	}
	n, err := numberOf(parts[1], parts[3])
	if err != nil {
		return err
	}
	var partition string
	var offset, keySize, valueSize int
	if _, err := fmt.Sscan(string(parts[0]), &partition, &offset, &keySize, &valueSize); err != nil {
		return fmt.Errorf("kcat printed %q: %w", line, err)
	}
	headers := ""
	if i := n / r.half; i%2 == 1 {
		headers = "part=" + codecs[i/2] + ",empty="
	}
	before, ok := r.last[partition]
	switch {
	case n >= len(r.seen) || r.seen[n]:
		return fmt.Errorf("%d was read twice, or never sent: %q", n, line)
	case string(parts[2]) != headers || keySize != len(parts[1]) || valueSize != len(parts[3]):
		return fmt.Errorf("want headers %q and sizes of key and value in %q", headers, line)
	case !ok && offset != 0 || ok && (offset != before[0]+1 || n < before[1]):
		return fmt.Errorf("%q comes after offset %d with %d", line, before[0], before[1])
	}
	r.seen[n], r.last[partition] = true, [2]int{offset, n}
	r.count++
	return nil
}

// TestKcatCommands covers common uses of kcat: -L, -P, -C from a time, -Q.
func TestKcatCommands(t *testing.T) {
	testenv.InteropWanted(t)
	b := testenv.ServeInterop(t)
	k := newKcat(t, b, "SCRAM-SHA-512")
	begin := time.Now()
	createTopic(t, b, "plants", 2)

	k.run(strings.NewReader("rose=red\nlily=white\nivy=\n"), "-P", "-t", "plants", "-p", "1", "-K", "=", "-Z", "-H", "a=1", "-H", "b=", "-H", "a=2")
	got := k.run(nil, "-C", "-t", "plants", "-p", "1", "-o", "beginning", "-e", "-q", "-Z", "-f", "%t %p %o %k %h %s\n")
	check.Equalf(t, got, "plants 1 0 rose a=1,b=,a=2 red\nplants 1 1 lily a=1,b=,a=2 white\nplants 1 2 ivy a=1,b=,a=2 NULL\n", "read")
	check.Equalf(t, k.run(nil, "-C", "-t", "plants", "-p", "1", "-o", "-2", "-c", "1", "-q", "-f", "%k"), "lily", "two before the end")
	check.Equalf(t, k.run(nil, "-C", "-t", "plants", "-p", "0", "-o", "beginning", "-e", "-q"), "", "an empty partition")

	list, id := k.run(nil, "-L"), nodeID(t, b)
	for _, want := range []string{
		"1 brokers:", fmt.Sprintf("broker %d at %s", id, b.Address), `topic "plants" with 2 partitions`,
		fmt.Sprintf("partition 1, leader %d, replicas: %d, isrs: %d", id, id, id),
	} {
		if !strings.Contains(list, want) {
			t.Errorf("-L has no %q:\n%s", want, list)
		}
	}
	// -L of one topic in JSON.
	if list := k.run(nil, "-L", "-J", "-t", "plants"); !strings.Contains(list, fmt.Sprintf(`"topic":"plants","partitions":[{"partition":0,"leader":%d,`, id)) {
		t.Errorf("-L -J: %s", list)
	}
	// Writing creates a missing topic; listing does not.
	k.run(strings.NewReader("x\n"), "-P", "-t", "new")
	check.Equalf(t, k.run(nil, "-C", "-t", "new", "-o", "beginning", "-e", "-q"), "x\n", "a topic created by writing")
	kcatTimes(t, k, b)
	report(t, "kcat", "-L, -P with keys, headers and nulls, -C, -Q", time.Since(begin))
}

// kcatTimes requests offsets by time: record i has second i.
func kcatTimes(t *testing.T, k *kcat, b *testenv.InteropBroker) {
	t.Helper()
	createTopic(t, b, "times", 1)
	const first, count = 1_700_000_000_000, 1000
	var records []*kgo.Record
	for i := range count {
		records = append(records, &kgo.Record{Topic: "times", Value: strconv.AppendInt(nil, int64(i), 10), Timestamp: time.UnixMilli(first + int64(i)*1000)})
	}
	must.NoError(t, goClient(t, b).ProduceSync(t.Context(), records...).FirstErr())
	for ask, want := range map[int]string{first: "0", first + 1: "1", first + 500_000: "500", first + 999_000: "999", first + 1_000_000: "-1", 1: "0", -1: "1000", -2: "0"} {
		got := k.run(nil, "-Q", "-t", fmt.Sprintf("times:0:%d", ask))
		if got != "times [0] offset "+want+"\n" {
			t.Errorf("-Q of %d is %q, want offset %s", ask, got, want)
		}
	}
	got := k.run(nil, "-C", "-t", "times", "-o", fmt.Sprintf("s@%d", first+300_000), "-o", fmt.Sprintf("e@%d", first+303_000), "-q", "-f", "%s %T,")
	check.Equalf(t, got, "300 1700000300000,301 1700000301000,302 1700000302000,", "read from a time to another")
}

// TestKcatSASL authenticates with each mechanism, and with a wrong key.
func TestKcatSASL(t *testing.T) {
	testenv.InteropWanted(t)
	b := testenv.ServeInterop(t)
	createTopic(t, b, "secrets", 1)
	begin := time.Now()
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		k := newKcat(t, b, mechanism)
		k.run(strings.NewReader(mechanism+"\n"), "-P", "-t", "secrets")
		check.Equalf(t, k.run(nil, "-C", "-t", "secrets", "-o", "-1", "-e", "-q"), mechanism+"\n", "%s: read", mechanism)
		_, said, err := k.try(strings.NewReader("x\n"), "-P", "-t", "secrets", "-X", "sasl.password=wrong")
		if err == nil || !strings.Contains(said, "SASL") || !strings.Contains(strings.ToLower(said), "authentication failed") {
			t.Errorf("%s with a wrong key: %v: %s", mechanism, err, said)
		}
	}
	report(t, "kcat", "SASL PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, each with a wrong key too", time.Since(begin))
}
