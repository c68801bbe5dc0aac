package main

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sebbroker/seb/test/testenv"
)

//go:embed compose.sh
var composeScript string

// errSkipped is the result of a check that this machine cannot run.
var errSkipped = errors.New("skipped")

// compose follows "Two containers" of docs/guide/cluster.md with the image of this release. The broker
// that leads is killed and stopped.
func (c *checks) compose() error {
	if _, err := c.output(c.work, "docker", "version", "--format", "{{.Server.Version}}"); err != nil {
		return fmt.Errorf("%w: no container daemon: %w", errSkipped, err)
	}
	command := "docker compose"
	if _, err := c.output(c.work, "docker", "compose", "version"); err != nil {
		command = "docker-compose"
		if _, err := exec.LookPath(command); err != nil {
			return fmt.Errorf("%w: neither docker compose nor docker-compose is installed", errSkipped)
		}
	}
	name := strings.ToLower(filepath.Base(c.work)) // of the folder, the image and the network
	dir := filepath.Join(c.work, name)
	image := filepath.Join(dir, "image.tar")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if err := c.skopeo(nil, "--override-arch", "amd64", "copy", "--quiet", c.archive(), "docker-archive:"+image+":"+name+":latest"); err != nil {
		return err
	}
	defer func() { _, _ = c.output(dir, "sh", "-c", "docker network rm $0; docker rmi $0", name) }()
	for _, args := range [][]string{{"load", "--input", image}, {"network", "create", name}} {
		if _, err := c.output(dir, "docker", args...); err != nil {
			return err
		}
	}
	gateway, err := c.output(dir, "docker", "network", "inspect", "-f", "{{(index .IPAM.Config 0).Gateway}}", name)
	if err != nil {
		return err
	}
	s3, err := c.s3()
	if err != nil {
		return err
	}
	defer s3.Stop()
	relay, err := forward(strings.TrimSpace(gateway)+":0", strings.TrimPrefix(s3.Endpoint, "http://"))
	if err != nil {
		return err
	}
	defer relay.Close()
	bucket := strings.Replace(s3.Spec("compose"), s3.Endpoint, "http://"+relay.Addr().String(), 1)
	if err := c.composeFiles(dir, command, bucket); err != nil {
		return err
	}
	if _, err = c.output(dir, "sh", "check.sh"); err == nil {
		c.note("the steps of the guide with %s; a standby led after a kill and after a stop, with all records", command)
	}
	return err
}

// composeFiles writes the files of the guide with other names of the image, bucket, network and ports.
func (c *checks) composeFiles(dir, command, bucket string) error {
	file, err := c.guideBlock("cluster.md", "compose")
	if err != nil {
		return err
	}
	commands, err := c.guideBlock("cluster.md", "compose-commands")
	if err != nil {
		return err
	}
	port1, err1 := freePort()
	port2, err2 := freePort()
	names := strings.NewReplacer("ghcr.io/sebbroker/seb:0.1.0", filepath.Base(dir), "s3://my-bucket/seb?region=eu-central-1", bucket,
		":51313:", ":"+port1+":", ":51314:", ":"+port2+":", "docker compose", command, "exec seb", "exec -T seb",
		"AKIA...", testenv.AccessKey, "wJalr...", testenv.SecretKey)
	settings := fmt.Sprintf("compose='%s' port1=%s port2=%s\n", command, port1, port2)
	for name, text := range map[string]string{
		"compose.yaml": names.Replace(file) + "\nnetworks: {default: {external: true, name: " + filepath.Base(dir) + "}}\n",
		"commands":     names.Replace(commands) + "\n", "check.sh": settings + composeScript,
	} {
		err1 = errors.Join(err1, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return errors.Join(err1, err2)
}
