package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// TestEncryptionOfObjects: every object of a log, of its backup and of the restored log is written
// with the encryption that the bucket's address asks for.
func TestEncryptionOfObjects(t *testing.T) {
	server := testenv.S3ForTest(t)
	for name, c := range map[string]struct{ parameters, want string }{
		"none":    {"", ""},
		"AES256":  {"&sse=AES256", "AES256"},
		"KMS key": {"&sse=aws:kms&kms-key=arn:aws:kms:us-east-1:1:key/2", "aws:kms arn:aws:kms:us-east-1:1:key/2"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newWorkDir(t)
			p.env = []string{"AWS_ACCESS_KEY_ID=" + testenv.AccessKey, "AWS_SECRET_ACCESS_KEY=" + testenv.SecretKey}
			proxy := must.Get(testenv.NewS3Proxy(server.Endpoint))(t)
			t.Cleanup(proxy.Close)
			at := func(prefix string) string {
				return proxy.Spec(strings.ReplaceAll(name, " ", "-")+"/"+prefix) + c.parameters
			}
			b := p.serve("--bucket", at("log"), "--kafka-listen", "", "--batch-wait-time", "0",
				"--snapshot-slots", "10", "--pack-age", "10ms", "--merge-interval", "20ms")
			key := must.Get(os.ReadFile(filepath.Join(p.dir, "seb-data", "api-key")))(t)
			records := must.Get(client.New(b.address(), client.Options{APIKey: strings.TrimSpace(string(key))}))(t)
			defer records.Close()
			n := 0
			waitFor(t, func() bool {
				n++
				must.Get(records.ProduceValues(t.Context(), "demo", [][]byte{fmt.Append(nil, n)}, client.ProduceOptions{}))(t)
				puts := proxy.Puts()
				return n > 20 && puts["pack"].Count > 0 && puts["snap"].Count > 0
			})
			p.must("backup", "--bucket", at("log"), "--to", at("backup"))
			if code := b.term(); code != 0 {
				t.Fatalf("exit code %d: %s", code, b.err.String())
			}
			p.must("restore", "--from", at("backup"), "--bucket", at("restored"))
			asked := proxy.Encryptions()
			if len(asked) != 1 || asked[c.want] == 0 {
				t.Errorf("writes by the encryption they ask for: %v, want only %q", asked, c.want)
			}
		})
	}
}

func TestWrongEncryption(t *testing.T) {
	p := newWorkDir(t)
	p.refused(2, "sse: want AES256 or aws:kms", "serve", "--bucket", "s3://b?sse=DES&region=r")
	p.refused(2, "kms-key: want sse=aws:kms", "serve", "--bucket", "s3://b?kms-key=k&region=r")
	p.refused(2, "sse and kms-key: only of s3:// buckets", "serve", "--bucket", "./b?sse=AES256")
	p.refused(2, "sse and kms-key: only of s3:// buckets", "check-store", "./b?sse=AES256")
}
