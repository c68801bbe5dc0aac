package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// RuntimeFile is the file in the data folder with the address of a running broker.
const RuntimeFile = "broker.json"

// Runtime is the content of RuntimeFile. It has the key, so only the owner can read the file. The
// broker removes it at a stop; a killed broker leaves it.
type Runtime struct {
	Address string    `json:"address"` // URL
	APIKey  string    `json:"api_key"`
	Bucket  string    `json:"bucket"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	// Certificate is the certificate file of Address, if it begins with https. Commands on this
	// machine trust it, whatever its names.
	Certificate string `json:"certificate,omitempty"`
}

// Discover reads the RuntimeFile of a data folder. Without one it returns the stored API key, which
// the next broker will use. The error is fs.ErrNotExist if there is neither.
func Discover(dataDir string) (Runtime, error) {
	var r Runtime
	b, err := os.ReadFile(filepath.Join(dataDir, RuntimeFile))
	if errors.Is(err, fs.ErrNotExist) {
		r.APIKey, err = ReadKey(filepath.Join(dataDir, KeyFile))
		return r, err
	}
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return Runtime{}, fmt.Errorf("%s: %w", filepath.Join(dataDir, RuntimeFile), err)
	}
	return r, nil
}

func (r *Runtime) write(dataDir string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dataDir, RuntimeFile), append(b, '\n'))
}
