package server

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sebbroker/seb/internal/config"
)

// KeyFile is where a generated API key is kept in the data folder, mode 0600.
const KeyFile = "api-key"

// findKey finds the API key: given, from a file, or made at the first start and kept in the data folder.
func (s *Server) findKey() (err error) {
	if s.key = s.cfg.HTTP.APIKey.Reveal(); s.key != "" {
		return nil
	}
	if s.keyFile = s.cfg.HTTP.APIKeyFile; s.keyFile != "" {
		if s.key, err = ReadKey(s.keyFile); err != nil {
			return fmt.Errorf("--http-api-key-file: %w", err)
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
		return fmt.Errorf("keep the new API key: %w", err)
	}
	return nil
}

// checkKey warns of a key that is easy to guess, or that others on this machine can read or replace.
func (s *Server) checkKey() {
	if len(s.key) < config.APIKeyMin {
		s.log.Warn("the API key is short: the next version refuses it", "bytes", len(s.key), "least", config.APIKeyMin, "source", s.keySource(),
			"hint", "openssl rand -hex 16 makes one")
	}
	if s.keyFile == "" {
		return
	}
	own := s.cfg.HTTP.APIKeyFile == "" // others may be links, as those of a Kubernetes secret are
	if info, err := os.Lstat(s.keyFile); own && err == nil && info.Mode()&fs.ModeSymlink != 0 {
		s.log.Warn("the API key's file is a symbolic link, which Seb does not make", "file", s.keyFile,
			"hint", fmt.Sprintf("cp %[1]s %[1]s.new && chmod 600 %[1]s.new && mv %[1]s.new %[1]s", s.keyFile))
	}
	if info, err := os.Stat(s.keyFile); err == nil && info.Mode().Perm()&^0o600 != 0 {
		s.log.Warn("the API key's file is open to other users", "file", s.keyFile, "mode", fmt.Sprintf("%04o", info.Mode().Perm()),
			"hint", "chmod 600 "+s.keyFile)
	}
}

// ReadKey reads an API key from a file; white space around it is ignored.
func ReadKey(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	key := strings.TrimSpace(string(b))
	if err := config.CheckAPIKey(key); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return key, nil
}

// syncFolder makes sure that a key which people are told is still that of this folder after the machine lost its power.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// newFile is how files are called before they have their names.
const newFile = ".new-*"

// removeNew removes what a killed process left of files that it was writing. Nobody else may be writing any.
func removeNew(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, newFile)) // the pattern is well formed
	for _, file := range left {
		_ = os.Remove(file) // it is in nobody's way
	}
}

// writeFile replaces a file, readable by its owner only, in one step.
func writeFile(file string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(file), newFile) // mode 0600
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
