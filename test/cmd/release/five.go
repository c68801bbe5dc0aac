package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sebbroker/seb/test/testenv"
)

// Text of docs/guide/install.md.
const (
	releasesURL = "https://github.com/sebbroker/seb/releases/download/"
	guideBucket = "s3://my-bucket/seb?region=eu-central-1"
)

// five runs the commands of docs/guide/install.md on a fresh machine: at most five, and the last
// one produces to an S3 bucket.
func (c *checks) five() error {
	commands, err := c.guideCommands()
	if err != nil {
		return err
	}
	m, err := c.machine()
	if err != nil {
		return err
	}
	s3, err := c.s3()
	if err != nil {
		return err
	}
	defer s3.Stop()
	downloads, end, err := c.downloads()
	if err != nil {
		return err
	}
	defer end()
	replace := strings.NewReplacer(releasesURL, downloads, guideBucket, s3.Spec("five"), "AKIA...", testenv.AccessKey, "wJalr...", testenv.SecretKey, "0.1.0", version)
	if err := m.runAll("rm /srv/seb_*.deb"); err != nil { // the first command downloads it
		return err
	}
	var s *service
	for _, command := range commands {
		switch command = replace.Replace(command); command {
		case "systemctl enable --now seb":
			if s, err = m.start(); err != nil {
				return err
			}
			defer s.close()
			if err := s.ready(); err != nil {
				return err
			}
		default:
			if out, err := m.run(command); err != nil {
				return err
			} else if strings.Contains(command, "seb produce") && !strings.Contains(out, "stored in demo") {
				return fmt.Errorf("%s: %s", command, out)
			}
		}
	}
	if s == nil {
		return errors.New("the commands do not start the service")
	}
	if _, err := s.stop(); err != nil {
		return err
	}
	// The bucket is elsewhere, so a purge deletes everything here.
	return m.runAll("test -d "+stateDir+"/data", "dpkg -P seb", "test ! -e "+stateDir)
}

// guideCommands returns the lines of the block of install.md for Debian.
func (c *checks) guideCommands() ([]string, error) {
	block, err := c.guideBlock("install.md", "deb")
	lines := strings.Split(strings.ReplaceAll(block, "\\\n", ""), "\n")
	if err == nil && len(lines) > 5 {
		err = fmt.Errorf("install.md: more than five commands: %q", lines)
	}
	return lines, err
}

// guideBlock returns the block of a guide with a mark.
func (c *checks) guideBlock(guide, mark string) (string, error) {
	text, err := os.ReadFile(filepath.Join(c.root, "docs/guide", guide))
	if err != nil {
		return "", err
	}
	_, block, ok := strings.Cut(string(text), " run="+mark+"\n")
	block, _, closed := strings.Cut(block, "\n```\n")
	if !ok || !closed {
		return "", fmt.Errorf("%s: no block marked run=%s", guide, mark)
	}
	return block, nil
}

// s3 starts an S3 server.
func (c *checks) s3() (*testenv.S3Server, error) {
	dir, err := os.MkdirTemp(c.work, "s3")
	if err != nil {
		return nil, err
	}
	return testenv.StartS3(c.ctx, dir)
}

// downloads serves the artifacts with the paths of GitHub releases.
func (c *checks) downloads() (url string, end func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := &http.Server{Handler: http.StripPrefix("/v"+version, http.FileServer(http.Dir(c.dist))), ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(l) }() // ends with Close
	return "http://" + l.Addr().String() + "/", func() { _ = s.Close() }, nil
}
