package interop

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// TestRights manages rules and passwords with Kafka's tools. The scenes share a broker and depend
// on each other. Ann is a user with a password and no right before the scenes give her rights.
func TestRights(t *testing.T) {
	testenv.InteropWanted(t)
	b := testenv.ServeInterop(t)
	createTopic(t, b, "orders", 1)
	createTopic(t, b, "orders-eu", 1)
	for _, scene := range []struct {
		name string
		run  func(*testing.T, *testenv.InteropBroker)
	}{
		{"kafka-configs sets passwords", passwordsScene},
		{"kafka-acls allows a producer, by name and by prefix", producerScene},
		{"a consumer needs rights to topic and group", consumerScene},
		{"a denial is stronger than a permission", denialScene},
		{"kcat's session ends with its password", sessionScene},
	} {
		begin := time.Now()
		if !t.Run(scene.name, func(t *testing.T) { scene.run(t, b) }) {
			break
		}
		testenv.Report("access "+JavaVersion, scene.name, time.Since(begin))
	}
}

var ann = login{"ann", "secret-of-ann", "SCRAM-SHA-512"}

// setPassword sets a user's password for both SCRAM mechanisms.
func setPassword(t *testing.T, b *testenv.InteropBroker, user, password string) {
	t.Helper()
	out := tool(t, b, configsTool, "--alter", "--entity-type", "users", "--entity-name", user, "--add-config",
		fmt.Sprintf("SCRAM-SHA-256=[iterations=8192,password=%s],SCRAM-SHA-512=[iterations=8192,password=%[1]s]", password))
	says(t, out, "Completed updating config for user "+user)
}

// console runs a console producer with one record, or a console consumer, to its end. It returns its
// output, which has the codes of refused requests.
func console(t *testing.T, b *testenv.InteropBroker, l login, class string, args ...string) string {
	t.Helper()
	all := append(append(JavaFlags(classes(t)), class, "--bootstrap-server", b.Address, "--command-config", settingsAs(t, b, l)), args...)
	// The exit code is that of the pipe, because the tools end differently after a refusal.
	out := must.Get(testenv.Command(t.Context(), ".", "sh", append([]string{"-c", `echo value | java "$@" 2>&1; true`, "sh"}, all...)...))(t)
	return out
}

func passwordsScene(t *testing.T, b *testenv.InteropBroker) {
	setPassword(t, b, ann.user, ann.password)
	out := tool(t, b, configsTool, "--describe", "--entity-type", "users")
	says(t, out, "SCRAM credential configs for user-principal 'ann' are ", "SCRAM-SHA-256=iterations=8192", "SCRAM-SHA-512=iterations=8192")
	newKcat(t, b, "PLAIN").as(ann).run(nil, "-L")
	wrong := ann
	wrong.password = "secret-of-bob"
	if _, said, err := newKcat(t, b, "PLAIN").as(wrong).try(nil, "-L"); err == nil || !strings.Contains(strings.ToLower(said), "authentication failed") {
		t.Errorf("kcat with a wrong password: %v: %s", err, said)
	}
}

func producerScene(t *testing.T, b *testenv.InteropBroker) {
	const refused = "TOPIC_AUTHORIZATION_FAILED"
	stored := 0
	expect := func(when, topic string, served bool) {
		t.Helper()
		out := console(t, b, ann, producerTool, "--topic", topic)
		if refusal := strings.Contains(out, refused); refusal == served {
			t.Errorf("%s, a producer of %s: want served %v:\n%s", when, topic, served, out)
		}
		if served {
			stored++
		}
		must.Equalf(t, int(ends(t, b, "orders")[0]+ends(t, b, "orders-eu")[0]), stored, "%s: records are stored", when)
	}
	literal := []string{"--allow-principal", "User:ann", "--operation", "Write", "--topic", "orders"}
	prefixed := []string{"--allow-principal", "User:ann", "--operation", "Write", "--topic", "orders-", "--resource-pattern-type", "prefixed"}
	with := func(first string, args []string) []string { return append([]string{first}, args...) }
	const (
		literalShown  = "ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)"
		prefixedShown = "ResourcePattern(resourceType=TOPIC, name=orders-, patternType=PREFIXED)"
		ruleShown     = "(principal=User:ann, host=*, operation=WRITE, permissionType=ALLOW)"
	)

	expect("without a rule", "orders", false)
	says(t, tool(t, b, aclsTool, with("--add", literal)...), literalShown, ruleShown)
	expect("with a literal rule", "orders", true)
	expect("with a literal rule of another topic", "orders-eu", false)
	says(t, tool(t, b, aclsTool, with("--add", prefixed)...), prefixedShown, ruleShown)
	expect("with a prefixed rule", "orders-eu", true)

	out := tool(t, b, aclsTool, "--list")
	says(t, out, literalShown, prefixedShown)
	check.Equalf(t, strings.Count(out, ruleShown), 2, "rules are listed, want 2:\n%s", out)
	out = tool(t, b, aclsTool, "--list", "--topic", "orders-eu", "--resource-pattern-type", "match")
	if !strings.Contains(out, prefixedShown) || strings.Contains(out, literalShown) {
		t.Errorf("rules that match orders-eu:\n%s", out)
	}
	tool(t, b, aclsTool, append([]string{"--remove", "--force"}, literal...)...)
	expect("after the literal rule is removed", "orders", false)
	expect("after the literal rule is removed", "orders-eu", true)
	tool(t, b, aclsTool, append([]string{"--remove", "--force"}, prefixed...)...)
	expect("after the prefixed rule is removed", "orders-eu", false)
	if out := tool(t, b, aclsTool, "--list"); strings.TrimSpace(out) != "" {
		t.Errorf("rules after all were removed:\n%s", out)
	}
}

func consumerScene(t *testing.T, b *testenv.InteropBroker) {
	consume := func() string {
		t.Helper()
		return console(t, b, ann, consumerTool, "--topic", "orders", "--group", "readers", "--from-beginning", "--max-messages", "1", "--timeout-ms", "15000")
	}
	allow := func(args ...string) {
		t.Helper()
		tool(t, b, aclsTool, append([]string{"--add", "--allow-principal", "User:ann", "--operation", "Read"}, args...)...)
	}
	const group, topic, all = "GroupAuthorizationException", "TOPIC_AUTHORIZATION_FAILED", "Processed a total of 1 messages"
	if out := consume(); strings.Contains(out, all) || !strings.Contains(out, topic) && !strings.Contains(out, group) {
		t.Errorf("without a rule:\n%s", out)
	}
	allow("--topic", "orders")
	if out := consume(); strings.Contains(out, all) || !strings.Contains(out, group) {
		t.Errorf("with Read on the topic only: want %s:\n%s", group, out)
	}
	allow("--group", "readers")
	says(t, consume(), all, "value")
	tool(t, b, aclsTool, "--remove", "--force", "--allow-principal", "User:ann", "--operation", "Read", "--topic", "orders")
	if out := consume(); strings.Contains(out, all) || !strings.Contains(out, topic) {
		t.Errorf("with Read on the group only: want %s:\n%s", topic, out)
	}
	allow("--topic", "orders")
}

func denialScene(t *testing.T, b *testenv.InteropBroker) {
	k := newKcat(t, b, "PLAIN").as(ann)
	read := []string{"-C", "-t", "orders", "-o", "beginning", "-e", "-q"}
	k.run(nil, read...)
	deny := []string{"--deny-principal", "User:ann", "--operation", "Read", "--topic", "orders"}
	tool(t, b, aclsTool, append([]string{"--add"}, deny...)...)
	if out, said, err := k.try(nil, read...); err == nil || out != "" || !strings.Contains(strings.ToLower(said), "topic authorization failed") {
		t.Errorf("kcat with a denial: %v: read %q: %s", err, out, said)
	}
	tool(t, b, aclsTool, append([]string{"--remove", "--force"}, deny...)...)
	k.run(nil, read...)
}

// sessionScene deletes the password of a kcat that reads. It must end without a record that was
// stored after the deletion.
func sessionScene(t *testing.T, b *testenv.InteropBroker) {
	ctx, stop := context.WithTimeout(t.Context(), callMax)
	defer stop()
	c := newKcat(t, b, "PLAIN").as(ann).command(ctx, "-C", "-t", "orders", "-o", "end", "-u", "-q", "-f", "%s\n")
	out := must.Get(c.StdoutPipe())(t)
	var said strings.Builder
	c.Stderr = &said
	must.NoError(t, c.Start())
	root := goClient(t, b)
	produce := func(value string) {
		t.Helper()
		must.NoError(t, root.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte(value)}).FirstErr())
	}
	read := make(chan string)
	go func() {
		defer close(read)
		for s := bufio.NewScanner(out); s.Scan(); {
			read <- s.Text()
		}
	}()
	for began := false; !began; { // kcat reads from the end at an unknown time
		produce("before")
		select {
		case <-read:
			began = true
		case <-time.After(200 * time.Millisecond):
		}
	}
	tool(t, b, configsTool, "--alter", "--entity-type", "users", "--entity-name", ann.user, "--delete-config", "SCRAM-SHA-256,SCRAM-SHA-512")
	deleted := time.Now()
	produce("after")
	for value := range read {
		if value != "before" {
			t.Errorf("read %q after the password was deleted", value)
		}
	}
	if err := c.Wait(); err == nil || !strings.Contains(said.String(), "broker connections are down") {
		t.Errorf("kcat ended: %v: %s", err, said.String())
	}
	t.Logf("kcat ended %s after the tool that deleted the password", time.Since(deleted).Round(time.Millisecond))
	if _, refusal, err := newKcat(t, b, "PLAIN").as(ann).try(nil, "-L"); err == nil || !strings.Contains(strings.ToLower(refusal), "authentication failed") {
		t.Errorf("kcat with a deleted password: %v: %s", err, refusal)
	}
	if out := tool(t, b, configsTool, "--describe", "--entity-type", "users"); strings.Contains(out, "ann") {
		t.Errorf("users after the deletion:\n%s", out)
	}
}

// TestUsersWithOnePassword: of two users with the same password each has its own rights, with each
// mechanism of SASL and with old and new librdkafka.
func TestUsersWithOnePassword(t *testing.T) {
	testenv.InteropWanted(t)
	b := testenv.ServeInterop(t)
	const password = "the same secret"
	users := []string{"ann", "bob"}
	for _, user := range users {
		setPassword(t, b, user, password)
		createTopic(t, b, "of-"+user, 1)
		tool(t, b, aclsTool, "--add", "--allow-principal", "User:"+user, "--operation", "Write", "--topic", "of-"+user)
	}
	kcats := map[string]*kcat{"librdkafka of Debian": newKcat(t, b, "PLAIN")}
	for _, old := range oldLibraries {
		kcats["librdkafka "+old.version] = newOldKcat(t, b, old.version, old.python)
	}
	records := int64(0)
	for name, k := range kcats {
		begin := time.Now()
		for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
			for i, user := range users {
				own, other := "of-"+user, "of-"+users[1-i]
				k := k.as(login{user, password, mechanism})
				k.run(strings.NewReader("x\n"), "-P", "-t", own)
				_, said, err := k.try(strings.NewReader("x\n"), "-P", "-t", other)
				if err == nil || !strings.Contains(strings.ToLower(said), "topic authorization failed") {
					t.Errorf("%s, %s: %s writes to %s: %v: %s", name, mechanism, user, other, err, said)
				}
			}
			records++
		}
		report(t, name, "two users with one password, with PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512", time.Since(begin))
	}
	for _, user := range users {
		if n := ends(t, b, "of-"+user)[0]; n != records {
			t.Errorf("the topic of %s has %d records, want %d", user, n, records)
		}
	}
}
