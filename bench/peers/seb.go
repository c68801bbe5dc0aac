package peers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

var sebKinds = []kind{
	sebKind("seb-memory", "Seb, of this repository, with its bucket in memory", installSeb, startSebMemory),
	sebKind("seb-fsync", "Seb, of this repository, with its bucket in a folder: every object is flushed", installSeb, startSebDisk),
	sebKind("seb-s3", "Seb, of this repository, with a real S3 server on loopback (versitygw, which never flushes)", installSebS3, startSebS3),
	sebKind("seb-fsync-follower", "as seb-fsync, and messages are received from a second broker, which follows the folder", installSeb, followed(startSebDisk)),
	sebKind("seb-s3-follower", "as seb-s3, and messages are received from a second broker, which follows the bucket", installSebS3, followed(startSebS3)),
}

func sebKind(name, doc string, install func(context.Context, *Options) error, start func(context.Context, *Peer) error) kind {
	return kind{name: name, doc: doc, timeout: time.Minute, install: install, start: start, ready: askSeb}
}

var errNoRepository = errors.New("name the folder of Seb's source: it is built of it")

// installSeb builds Seb once per call of Up, Start and Install, because the source may have
// changed. Go's build cache keeps this fast.
func installSeb(ctx context.Context, o *Options) error {
	if o.Repository == "" {
		return errNoRepository
	}
	if o.built {
		return nil
	}
	if err := needs("Seb", map[string]string{"go": "https://go.dev/dl"}); err != nil {
		return err
	}
	began := time.Now()
	args := []string{"build", "-o", sebProgram(o)}
	if _, err := command(ctx, o.Repository, nil, "git", "rev-parse", "HEAD"); err == nil {
		args = append(args, "-buildvcs=auto") // embeds the commit, which requires git
	}
	_, err := command(ctx, o.Repository, []string{"GOFLAGS=", "GOWORK=off"}, "go", append(args, "./cmd/seb")...)
	if err == nil {
		o.built = true
		o.say("seb: built in %.1f s", time.Since(began).Seconds())
	}
	return err
}

// installSebS3 builds Seb, and the S3 server if it is missing.
func installSebS3(ctx context.Context, o *Options) error {
	if err := installSeb(ctx, o); err != nil {
		return err
	}
	path := filepath.Join(o.Cache, s3Path)
	if program, err := s3Program(o); err == nil {
		if _, err := os.Stat(program); err == nil {
			return nil
		}
	}
	o.say("s3 server: built at its first use, which takes minutes")
	program, err := command(ctx, o.Repository, []string{"GOFLAGS=", "GOWORK=off"}, "go", "run", "./test/cmd/s3server")
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(program), "\n") // the first ones are of its installation
	return os.WriteFile(path, []byte(lines[len(lines)-1]), 0o600)
}

// s3Path is the file in the cache that contains the path of the S3 server.
const s3Path = "s3server.path"

func s3Program(o *Options) (string, error) {
	path, err := os.ReadFile(filepath.Join(o.Cache, s3Path))
	return strings.TrimSpace(string(path)), err
}

func sebProgram(o *Options) string { return filepath.Join(o.Cache, "seb") }

func startSebMemory(ctx context.Context, p *Peer) error { return startSeb(ctx, p, "mem:", nil) }

func startSebDisk(ctx context.Context, p *Peer) error {
	return startSeb(ctx, p, filepath.Join(p.Dir, "bucket"), nil)
}

// Credentials and bucket of the S3 server.
const (
	s3Access = "benchaccess"
	s3Secret = "benchsecret12"
	s3Bucket = "seb"
)

func startSebS3(ctx context.Context, p *Peer) error {
	program, err := s3Program(p.o)
	if err != nil {
		return err
	}
	ports, err := freePorts(1)
	if err != nil {
		return err
	}
	endpoint, objects := loopback(ports[0]), filepath.Join(p.Dir, "s3")
	if err := os.MkdirAll(filepath.Join(objects, s3Bucket), 0o750); err != nil {
		return err
	}
	account := []string{"ROOT_ACCESS_KEY=" + s3Access, "ROOT_SECRET_KEY=" + s3Secret}
	if err := p.run("s3", account, program, "--quiet", "--port", endpoint, "--health", "/healthz", "posix", objects); err != nil {
		return err
	}
	if err := p.until(ctx, followWait, func(ctx context.Context) error { return ask(ctx, "http://"+endpoint+"/healthz") }); err != nil {
		return err
	}
	bucket := "s3://" + s3Bucket + "/bench?endpoint=http://" + endpoint + "&region=us-east-1&path-style=true"
	return startSeb(ctx, p, bucket, []string{"AWS_ACCESS_KEY_ID=" + s3Access, "AWS_SECRET_ACCESS_KEY=" + s3Secret})
}

func startSeb(ctx context.Context, p *Peer, bucket string, env []string) error {
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	keyFile := filepath.Join(p.Dir, "key")
	if err := os.WriteFile(keyFile, []byte(rand.Text()+"\n"), 0o600); err != nil {
		return err
	}
	secrets := secretsKey(p)
	if _, err := os.Stat(secrets); errors.Is(err, fs.ErrNotExist) {
		if _, err := command(ctx, p.Dir, nil, sebProgram(p.o), "secrets", "init", secrets); err != nil {
			return err
		}
	}
	p.address = loopback(ports[0])
	kafka := loopback(ports[1])
	durability := "fsync"
	switch {
	case bucket == "mem:":
		durability = "memory"
	case strings.HasPrefix(bucket, "s3:"):
		durability = "object store"
	}
	p.Targets = []Target{
		{Driver: "seb", Address: "http://" + p.address, Options: map[string]string{"key-file": keyFile}},
		{Driver: "kafka", Address: kafka, Options: map[string]string{"key-file": keyFile, "durability": durability}},
		{Driver: "sqs", Address: "http://" + p.address},
	}
	p.follow = func() error {
		ports, err := freePorts(1)
		if err != nil {
			return err
		}
		p.Targets[0].Options["read-from"] = "http://" + loopback(ports[0])
		args := append(sebArgs(p, bucket, "follower-data", ports[0]), "--kafka-listen", "", "--read-only")
		return p.run("follower", env, sebProgram(p.o), append(args, p.o.SebFlags...)...)
	}
	return p.run("seb", env, sebProgram(p.o), append(sebArgs(p, bucket, "data", ports[0]), append([]string{"--kafka-listen", kafka}, p.o.SebFlags...)...)...)
}

// secretsKey is the file with the key for pairs of the SQS API.
func secretsKey(p *Peer) string { return filepath.Join(p.Dir, "secrets-key") }

// sebArgs returns the flags of a broker. Memory limit and connections exceed the defaults for 1 MB
// messages in flight and many publishers.
func sebArgs(p *Peer, bucket, data string, port int) []string {
	return []string{
		"serve", "--bucket", bucket, "--data-dir", filepath.Join(p.Dir, data), "--http-port", strconv.Itoa(port),
		"--http-api-key-file", filepath.Join(p.Dir, "key"), "--secrets-key-file", secretsKey(p), "--memory-limit", "1GiB", "--http-connections", "512",
	}
}

// followed returns a start function for a broker and a follower of its bucket. PID remains that of
// the first broker, which is the measured one.
func followed(start func(context.Context, *Peer) error) func(context.Context, *Peer) error {
	return func(ctx context.Context, p *Peer) error {
		if err := start(ctx, p); err != nil {
			return err
		}
		writer := p.PID
		defer func() { p.PID = writer }()
		// The follower requires the bucket of a ready broker.
		if err := p.until(ctx, followWait, func(ctx context.Context) error { return askSeb(ctx, p) }); err != nil {
			return err
		}
		if err := p.follow(); err != nil {
			return err
		}
		return p.until(ctx, followWait, func(ctx context.Context) error { return ask(ctx, p.Targets[0].Options["read-from"]+"/readyz") })
	}
}

const followWait = 30 * time.Second

func askSeb(ctx context.Context, p *Peer) error { return ask(ctx, "http://"+p.address+"/readyz") }

// ask sends a GET request and returns an error unless the status is 200.
func ask(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answers %s", resp.Status)
	}
	if resp != nil {
		err = errors.Join(err, resp.Body.Close())
	}
	return err
}
