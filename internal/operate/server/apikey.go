package server

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sebbroker/seb/internal/engine/base/input"
	"github.com/sebbroker/seb/internal/operate/config"
)

// KeyFile is the file of a generated API key in the data folder, mode 0600.
const KeyFile = "api-key"

// findKey sets the API key: configured, from a file, or generated at the first start and stored in
// the data folder.
func (s *Server) findKey() (err error) {
	if s.key = s.cfg.HTTP.APIKey.Reveal(); s.key != "" {
		return nil
	}
	if s.keyFile = s.cfg.HTTP.APIKeyFile; s.keyFile != "" {
		if s.key, err = ReadKey(s.keyFile); err != nil {
			return config.Faults{fmt.Errorf("--http-api-key-file: %w", err)}
		}
		return nil
	}
	s.keyFile = filepath.Join(s.cfg.DataDir, KeyFile)
	s.key, err = ReadKey(s.keyFile)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.key, s.keyMade = rand.Text(), true
	if err := errors.Join(writeFile(s.keyFile, []byte(s.key+"\n")), syncFolder(s.cfg.DataDir)); err != nil {
		return fmt.Errorf("store the new API key: %w", err)
	}
	return nil
}

// adoptKey takes the API key of a broker of the bucket on this machine, if this one has just generated
// its own: with another key it would not take over, and clients of the other could not use it. It needs
// the rights to read the file, which has the same owner.
func (p *peers) adoptKey() {
	s := p.s
	for i := range p.found {
		r := &p.found[i]
		if !s.keyMade || r.Folder == "" || !r.Beside(&p.self) {
			continue
		}
		file := filepath.Join(r.Folder, KeyFile)
		info, err := os.Lstat(file)
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&^0o600 != 0 || !ownFile(info) {
			continue
		}
		key, err := ReadKey(file)
		if key == s.key { // the other broker had this data folder
			continue
		}
		if err == nil {
			err = writeFile(s.keyFile, []byte(key+"\n"))
		}
		if err != nil {
			s.log.Warn("API key of another broker on this machine not taken", "file", file, "err", err)
			continue
		}
		s.key, s.keyMade = key, false
		s.log.Info("API key taken from another broker of this bucket on this machine", "file", file)
	}
}

// checkKey warns about a key that is easy to guess, or that other users of this machine can read or
// replace.
func (s *Server) checkKey() {
	if len(s.key) < config.APIKeyMin {
		s.log.Warn("API key too short: the next version refuses it", "bytes", len(s.key), "minimum", config.APIKeyMin, "source", s.keySource(),
			"hint", "generate one with: openssl rand -hex 16")
	}
	s.warnReadable("secrets key file", s.cfg.Secrets.Source())
	if s.keyFile == "" {
		return
	}
	// configured files may be links, like those of a Kubernetes secret
	own := s.cfg.HTTP.APIKeyFile == ""
	if info, err := os.Lstat(s.keyFile); own && err == nil && info.Mode()&fs.ModeSymlink != 0 {
		s.log.Warn("API key file is a symbolic link, which Seb never creates", "file", s.keyFile,
			"hint", fmt.Sprintf("cp %[1]s %[2]s && chmod 600 %[2]s && mv %[2]s %[1]s", config.ShellQuote(s.keyFile), config.ShellQuote(s.keyFile+".new")))
	}
	s.warnReadable("API key file", s.keyFile)
}

// warnReadable warns about a file that other users can read or write.
func (s *Server) warnReadable(what, file string) {
	if info, err := os.Stat(file); err == nil && info.Mode().Perm()&^0o600 != 0 {
		s.log.Warn(what+" is accessible to other users", "file", file, "mode", fmt.Sprintf("%04o", info.Mode().Perm()), "hint", "chmod 600 "+config.ShellQuote(file))
	}
}

// ReadKey reads an API key from a file, without surrounding white space.
func ReadKey(file string) (string, error) {
	text, err := input.KeyFile(file)
	if err != nil {
		return "", err
	}
	key := strings.TrimSpace(text)
	if err := config.CheckAPIKey(key); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return key, nil
}

// syncFolder syncs a folder, so that a key that was printed survives a loss of power.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// tempPattern is the pattern of temporary files.
const tempPattern = ".new-*"

// removeTemp removes temporary files of a killed process. No other process may be writing files in
// the folder.
func removeTemp(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, tempPattern)) // the pattern is valid
	for _, file := range left {
		_ = os.Remove(file) // a remaining file is harmless
	}
}

// writeFile replaces a file atomically. Only its owner can read it.
func writeFile(file string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(file), tempPattern) // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
